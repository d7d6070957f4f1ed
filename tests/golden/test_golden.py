"""Networks and methods answer what they answered when the files beside this one were written.

A change that is meant to change them writes the files anew, with ``python -m tests.golden.make``, and says so.
"""

import json

import pytest
import torch

from tests.golden import make
from xcnorm.methods import list_methods

NETWORKS, METHODS = (json.loads((make.HERE / f"{name}.json").read_text()) for name in ("networks", "methods"))
ARGUMENTS = dict(make.networks())


def test_every_network_and_method_is_there():
    assert list(NETWORKS) == list(ARGUMENTS)
    assert sorted(METHODS) == sorted(list_methods())


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name):
    """In float64, where another CPU's rounding is too small to be seen in numbers of nine digits."""
    expected = torch.tensor(NETWORKS[name], dtype=torch.float64)
    torch.testing.assert_close(make.logits(ARGUMENTS[name]), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    """A training step in float32. Two threads, or torch 2.11, make a difference of 1e-7; another CPU may make more."""
    loss, logits = make.answers(name)
    assert loss == pytest.approx(METHODS[name]["loss"], rel=1e-4)
    torch.testing.assert_close(logits, torch.tensor(METHODS[name]["logits"]), rtol=1e-3, atol=1e-3)
