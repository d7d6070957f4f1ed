"""The form of torch's own convolution: the network as published."""

from __future__ import annotations

from torch import nn

from xcnorm.nn.forms.form import LayerForm, register_form

CONV = register_form(LayerForm("conv", {nn.Conv2d: nn.Conv2d}))
