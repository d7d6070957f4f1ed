"""The sides of a comparison differ in nothing but what is compared."""

import torch
from torch import nn

from xcnorm.bench.shapes import LayerShape
from xcnorm.bench.sides import CONV, SIDES, make

SHAPE = LayerShape(4, 8, 6, 20, 3, 2, 1)


def test_all_sides_have_the_same_geometry():
    assert {make(side, SHAPE)(torch.randn(SHAPE.input_size)).shape for side in SIDES} == {(4, 6, 10, 10)}
    assert [type(part) for part in make(CONV, SHAPE)] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]
    assert len({side.name for side in SIDES}) == len(SIDES)
