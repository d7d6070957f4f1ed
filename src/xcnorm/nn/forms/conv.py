"""The form of torch's own convolution: the network as published."""

from __future__ import annotations

from torch import nn

from xcnorm.nn.forms.form import Form, register_form

CONV = register_form(Form("conv", {nn.Conv2d: nn.Conv2d}))
