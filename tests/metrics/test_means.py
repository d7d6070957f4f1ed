"""The tables' own numbers come out of published accuracies of each corruption."""

import pytest

from benchmarks.cifar10c import PUBLISHED
from xcnorm.data.corruptions import CATEGORIES, names
from xcnorm.errors import UserError
from xcnorm.metrics import average, by_category, severity_means

GRID = {f"{name}/{severity}": value + 5 - severity for name, value in PUBLISHED.items() for severity in range(1, 6)}


def test_the_list_has_every_corruption():
    assert sorted(PUBLISHED) == sorted(names())


def test_category_means_are_those_of_the_published_table():
    means = by_category(GRID, CATEGORIES["sdg4"], severity=5)
    assert list(means) == ["weather", "blur", "noise", "digital"]
    assert [round(value, 2) for value in (*means.values(), average(means))] == [67.28, 56.73, 30.02, 62.30, 54.08]


def test_the_other_convention_is_the_plain_mean_of_all_nineteen():
    assert round(average(PUBLISHED), 2) == 56.15
    assert round(severity_means(GRID, names())[5], 2) == 56.15


def test_another_severity():
    assert by_category(GRID, CATEGORIES["sdg4"], severity=3)["weather"] == pytest.approx(67.28 + 2, abs=0.005)


def test_severities_are_in_order_and_only_of_the_corruptions_asked_for():
    backwards = dict(reversed(GRID.items())) | {"svhn": 0.0}
    means = severity_means(backwards, iter(["fog", "snow"]))
    assert list(means) == [1, 2, 3, 4, 5]
    assert list(means.values()) == pytest.approx([74.14, 73.14, 72.14, 71.14, 70.14])


def test_what_is_not_there_is_left_out():
    values = {"fog/5": 1.0, "snow/5": 2.0, "shot_noise/5": 4.0, "frost/2": 9.0, "svhn": 7.0}
    assert by_category(values, CATEGORIES["sdg4"], severity=5) == {"weather": 1.5, "noise": 4.0}
    assert by_category({"svhn": 7.0, "fog/5": 1.0}, CATEGORIES["sdg4"], severity=4) == {}
    assert severity_means(values, names()) == {2: 9.0, 5: pytest.approx(7 / 3)}
    assert severity_means({"svhn": 7.0}, names()) == {}


def test_nothing_to_average_is_said_in_one_line():
    with pytest.raises(UserError, match="nothing to average"):
        average({})
