"""The measured shapes are those of our networks."""

import pytest

from xcnorm.bench.shapes import NETWORKS, LayerShape, shapes_of


@pytest.fixture(scope="module")
def shapes():
    return shapes_of(list(NETWORKS), "cuda")


def test_those_of_wrn16_4(shapes):
    assert [shape for shape in shapes if shape.network == "wrn16_4"] == [
        LayerShape(128, 3, 16, 32, 3, 1, 1),
        LayerShape(128, 16, 64, 32, 3, 1, 1),
        LayerShape(128, 64, 64, 32, 3, 1, 1),
        LayerShape(128, 64, 128, 32, 3, 2, 1),
        LayerShape(128, 128, 128, 16, 3, 1, 1),
        LayerShape(128, 128, 256, 16, 3, 2, 1),
        LayerShape(128, 256, 256, 8, 3, 1, 1),
    ]


def test_what_networks_share_is_there_once(shapes):
    assert shapes.count(LayerShape(64, 3, 64, 224, 7, 2, 3)) == 1  # the stem of both ResNets
    assert len({shape.name for shape in shapes}) == len(set(shapes)) == len(shapes) > 50


def test_of_many_that_are_alike_the_first_the_middle_and_the_last(shapes):
    densenet = [shape for shape in shapes if shape.network == "densenet121"]
    assert [shape.channels_in for shape in densenet if (shape.pixels, shape.kernel) == (3, 1)] == [512, 768, 992]
    assert {shape.pixels for shape in densenet if shape.kernel == 3} == {24, 12, 6, 3}


def test_a_cpu_gets_smaller_batches():
    assert shapes_of(["digits_cnn"], "cpu") == [LayerShape(32, 3, 64, 32, 5), LayerShape(32, 64, 128, 14, 5)]
