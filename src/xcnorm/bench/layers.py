"""Layers as cases: every shape of our networks, beside convolution, norm and activation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from xcnorm.bench.compare import Case
from xcnorm.bench.shapes import LayerShape, shapes_of
from xcnorm.bench.sides import make


def cases(networks: Sequence[str], device: str) -> list[Case]:
    """The distinct layers of some networks."""
    return [as_case(shape) for shape in shapes_of(networks, device)]


def as_case(shape: LayerShape) -> Case:
    """One layer."""
    return Case(shape.name, [shape], shape.input_size, not shape.first, partial(make, shape=shape), asdict(shape))
