"""Triton's kernels, run on the CPU by Triton's interpreter: ``TRITON_INTERPRET=1 pytest tests/kernels``."""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def pytest_collection_modifyitems(items):
    if not INTERPRETED:
        skip = pytest.mark.skip(reason="needs TRITON_INTERPRET=1, set before Python starts; make test does")
        for item in items:
            if "tests/kernels" in str(item.path):
                item.add_marker(skip)


@pytest.fixture
def poisoned(monkeypatch):
    """Fill every tensor that is allocated without a value with NaN: whatever a kernel forgets to write shows."""

    def poison(allocate):
        def allocated(*arguments, **options):
            tensor = allocate(*arguments, **options)
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

        return allocated

    for owner, name in ((torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (torch.Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, poison(getattr(owner, name)))
