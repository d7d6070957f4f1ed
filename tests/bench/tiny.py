"""Measurements that take next to no time."""

from xcnorm.bench import layers, shapes, timing
from xcnorm.bench.shapes import Shape

SHAPES = [Shape(2, 3, 4, 6, 3, padding=1, network="wrn16_4"), Shape(2, 4, 64, 6, 3, 2, 1, network="wrn40_2")]


def make_tiny(monkeypatch):
    monkeypatch.setattr(layers, "shapes_of", lambda networks, device: SHAPES)
    monkeypatch.setitem(layers._GROWN, "cpu", Shape(2, 16, 16, 4, 3, padding=1))
    monkeypatch.setitem(shapes.NETWORKS, "digits_cnn", (8, 32))
    monkeypatch.setitem(timing._COPIED, "cpu", 2**20)
    monkeypatch.setitem(timing._MULTIPLIED, "cpu", 64)
