"""Relatives and norms compile as one graph and export, as the networks' other parts do."""

import pytest
import torch
from torch import nn

from tests.models.test_compile import assert_compiled_equals_eager
from xcnorm.nn import FORMS, find_form, make_norm

pytestmark = pytest.mark.compile

FORM_CASES = [(name, {}) for name in FORMS if not find_form(name).whole and name != "conv"]
FORM_CASES += [("decoupled", {"magnitude": "segmented"}), ("kervolution", {"kernel": "gaussian"})]


@pytest.mark.parametrize(("name", "options"), FORM_CASES)
def test_a_relative_compiles_as_one_graph(name, options):
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Conv2d(2, 4, 1), find_form(name).convolution(4, 6, 3, padding=1, groups=2, **options))
    assert_compiled_equals_eager(layer, torch.rand(2, 2, 6, 6, dtype=torch.float64), backend="aot_eager")
    layer.eval()
    program = torch.export.export(layer, (input := torch.rand(2, 2, 6, 6, dtype=torch.float64),))
    torch.testing.assert_close(program.module()(input), layer(input))


@pytest.mark.parametrize("kind", ["asr", "batch_test", "mixed"])
def test_a_norm_compiles_as_one_graph(kind):
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Conv2d(2, 32, 1), make_norm(kind, 32, 2, affine=True))
    assert_compiled_equals_eager(layer, torch.rand(2, 2, 6, 6, dtype=torch.float64), backend="aot_eager")
    layer.eval()
    program = torch.export.export(layer, (input := torch.rand(2, 2, 6, 6, dtype=torch.float64),))
    torch.testing.assert_close(program.module()(input), layer(input))
