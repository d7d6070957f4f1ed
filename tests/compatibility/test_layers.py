"""States of layers that were stored load into this version's layers, which then answer what those answered."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.compatibility import layers, make
from tests.soak.variants import VARIANTS

RELEASED = load_file(Path(__file__).with_name("0.1.0") / "layers.safetensors")
STORED = layers.stored()


@pytest.mark.parametrize("kind", make.LAYERS)
def test_states_of_version_0_1(kind):
    prefix = f"{kind}/state/"
    state = {key.removeprefix(prefix): value for key, value in RELEASED.items() if key.startswith(prefix)}
    layer = make.layer(kind).eval()
    layer.load_state_dict(state)
    torch.testing.assert_close(layer(make.inputs(kind)), RELEASED[f"{kind}/output"], rtol=1e-4, atol=1e-5)


def test_every_kind_is_stored():
    assert set(STORED) == set(VARIANTS), "add what is new: python -m tests.compatibility.layers"


@pytest.mark.parametrize("name", STORED)
def test_states_of_every_kind(name):
    state = dict(STORED[name])
    output = state.pop("output")
    network = VARIANTS[name]().eval()
    network.load_state_dict(state)
    torch.testing.assert_close(network(layers.images(network.rank)), output, rtol=1e-4, atol=1e-5)
