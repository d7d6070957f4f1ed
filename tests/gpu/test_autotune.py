"""Block sizes by trial, timed on a GPU."""

import time

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SHAPE = (2, 4, 4, 8, 4, 4, 8, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 8, 8)


@pytest.fixture
def autotune(monkeypatch, tmp_path):
    """Tuning is on, and nothing is remembered."""
    from xcnorm.ops.triton import autotune

    monkeypatch.setenv("XCNORM_AUTOTUNE", "1")
    monkeypatch.setenv("XCNORM_CACHE", str(tmp_path))
    monkeypatch.setattr(autotune, "_remembered", {})
    return autotune


def tuned(autotune, run):
    from xcnorm.ops.triton.geometry import Geometry, Problem

    default = autotune.Block(64, 64, 32, 4, 3, False, 128)
    problem = Problem(Geometry(*SHAPE), "zeros", None, False, 1e-5, "ieee")
    return default, autotune.tuned("forward", default, problem, (), run)


def test_a_slow_block_loses(autotune):
    default, chosen = tuned(autotune, lambda block: torch.cuda._sleep(20_000 if block.warps == 8 else 200_000))
    assert chosen == default._replace(warps=8)
    default, chosen = tuned(autotune, lambda block: torch.cuda._sleep(20_000 if block.warps == 4 else 200_000))
    assert chosen.warps == 8  # what is known is not timed again


def test_the_time_of_the_host_does_not_count(autotune):
    def run(block):
        if block.warps == 8:
            time.sleep(3e-4)
        torch.cuda._sleep(50_000 if block.warps == 8 else 100_000)

    default, chosen = tuned(autotune, run)
    assert chosen == default._replace(warps=8)


def test_equal_blocks_leave_the_table_alone(autotune):
    default, chosen = tuned(autotune, lambda block: torch.cuda._sleep(200_000))
    assert chosen == default
