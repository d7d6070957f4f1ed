"""Corruptions and random numbers do not depend on how many threads compute them."""

import pytest
import torch

from tests.data.corruptions.checks import pictures
from xcnorm.data import corruptions


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", corruptions.published())
def test_bit_for_bit(name, threads):
    found = []
    for count in (1, 2):
        threads(count)
        found.append(corruptions.corrupt(pictures(2, 40, 48), name, 4, seed=3))
    assert torch.equal(*found)
