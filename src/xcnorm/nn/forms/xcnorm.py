"""The forms of the XCNorm and the R-XCNorm layers."""

from __future__ import annotations

from torch import nn

from xcnorm.nn.conv import (
    RXCNormConv1d,
    RXCNormConv2d,
    RXCNormConv3d,
    XCNormConv1d,
    XCNormConv2d,
    XCNormConv3d,
)
from xcnorm.nn.forms.form import LayerForm, register_form
from xcnorm.nn.layer import SMALLEST_PATCH
from xcnorm.nn.linear import RXCNormLinear, XCNormLinear

_XCNORM = {nn.Conv1d: XCNormConv1d, nn.Conv2d: XCNormConv2d, nn.Conv3d: XCNormConv3d, nn.Linear: XCNormLinear}
_ROBUST = {nn.Conv1d: RXCNormConv1d, nn.Conv2d: RXCNormConv2d, nn.Conv3d: RXCNormConv3d, nn.Linear: RXCNormLinear}

for _name, _layers in (("xcnorm", _XCNORM), ("r_xcnorm", _ROBUST)):
    # A padded zero is a value like any other of a patch, and would break its invariance.
    register_form(LayerForm(_name, _layers, activation=False, smallest_patch=SMALLEST_PATCH, padding_mode="replicate"))
