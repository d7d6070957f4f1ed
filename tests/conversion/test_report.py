"""The report counts parameters and estimates what layers cost."""

import pytest
from torch import nn

import xcnorm
from tests.conversion.networks import NETWORKS, vgg
from tests.test_conversion import changes, small_network


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_add_up(name):
    model = NETWORKS[name]()
    before = sum(parameter.numel() for parameter in model.parameters())
    model = xcnorm.convert(model)
    after = sum(parameter.numel() for parameter in model.parameters())
    rows = xcnorm.conversion_report(model).changes
    assert sum(row.parameters - row.parameters_before for row in rows) == after - before


@pytest.mark.parametrize(("layer", "cost"), [("xcnorm", 1.52), ("r_xcnorm", 2.38), ("bcos", None)])
def test_cost_is_that_of_the_table_for_this_kind_of_device(layer, cost):
    model = xcnorm.convert(vgg(), layer=layer)
    assert changes(model)["0"].cost == cost
    assert changes(model)["14"].cost is None


def test_the_table_has_a_column_for_each():
    lines = str(xcnorm.conversion_report(xcnorm.convert(small_network()))).splitlines()
    assert lines[0].split() == ["layer", "was", "is", "action", "parameters", "cost", "why"]
    assert "224 to 225" in lines[1]
    assert "2.38x" in lines[1]


def test_a_shared_layer_counts_where_it_hangs():
    shared = nn.Conv2d(8, 8, 3, padding=1)
    model = xcnorm.convert(nn.Sequential(nn.Conv2d(3, 8, 3), shared, shared, nn.ReLU()))
    assert changes(model)["1"].parameters == changes(model)["2"].parameters
