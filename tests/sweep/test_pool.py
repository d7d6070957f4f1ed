import os

import pytest
import torch

from xcnorm.errors import UserError
from xcnorm.sweep import pool


@pytest.fixture
def machine(monkeypatch):
    """A machine with eight cores and as many GPUs as asked for."""

    def make(gpus: int, **variables: str) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return make


def slots(*args, **options) -> list[tuple[str, str | None]]:
    environments = pool.LocalPool(*args, **options)._slots
    return [(slot["OMP_NUM_THREADS"], slot.get("CUDA_VISIBLE_DEVICES")) for slot in environments]


def test_one_worker_with_all_cores_on_the_cpu(machine):
    machine(gpus=0)
    assert slots() == [("8", None)]


def test_workers_share_the_cores(machine):
    machine(gpus=0)
    assert slots(workers=3) == [("2", None)] * 3
    assert slots(workers=9) == [("1", None)] * 9


def test_one_worker_for_each_gpu(machine):
    machine(gpus=2)
    assert slots() == [("4", "0"), ("4", "1")]


def test_more_workers_than_gpus_go_round(machine):
    machine(gpus=2)
    assert slots(workers=3) == [("2", "0"), ("2", "1"), ("2", "0")]


def test_gpus_are_those_that_this_process_may_see(machine):
    machine(gpus=2, CUDA_VISIBLE_DEVICES="5,7")
    assert [gpu for _, gpu in slots()] == ["5", "7"]


def test_no_gpu_is_used_unasked(machine):
    machine(gpus=2)
    assert slots("cpu") == [("8", None)]


def test_the_threads_of_the_user_are_kept(machine):
    machine(gpus=0, OMP_NUM_THREADS="3")
    assert slots(workers=2) == [("3", None)] * 2


def test_a_device_that_is_not_there_is_refused(machine):
    machine(gpus=0)
    with pytest.raises(UserError, match="no CUDA device"):
        pool.LocalPool("cuda")
