"""Cases that take next to no time."""

from xcnorm.bench import layers, shapes
from xcnorm.bench.shapes import LayerShape

SHAPES = [LayerShape(2, 3, 4, 6, 3, padding=1, network="wrn16_4"), LayerShape(2, 4, 64, 6, 3, 2, 1, network="wrn40_2")]


def make_tiny(monkeypatch):
    monkeypatch.setattr(layers, "shapes_of", lambda networks, device: SHAPES)
    monkeypatch.setitem(shapes.NETWORKS, "digits_cnn", (8, 32))
