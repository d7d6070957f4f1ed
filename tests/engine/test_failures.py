"""What the machine does to a run is told in one line, and nothing that was reached is lost by it."""

import re

import pytest
import torch

from tests.engine import small
from xcnorm.engine import RunFolder, World
from xcnorm.engine import run as runs
from xcnorm.engine.checkpoint import load_checkpoint
from xcnorm.engine.failures import machine_failures
from xcnorm.engine.training import train
from xcnorm.errors import UserError

PAIR = World(0, 2, torch.device("cpu"))


def failures(world):
    return machine_failures(small.experiment(), world)


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    return folder


def test_out_of_memory_says_what_needs_less_and_loses_nothing(tmp_path, monkeypatch):
    experiment = small.experiment(run__checkpoint_every=2)
    monkeypatch.setattr(runs, "_load", lambda *_: small.benchmark())
    whole = runs.run_experiment(experiment, tmp_path / "whole", small.ALONE)

    forward = torch.nn.Conv2d.forward
    calls = iter(range(20))

    def forward_until(self, images):
        if next(calls, None) is None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return forward(self, images)

    said = []
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Conv2d, "forward", forward_until)
        with pytest.raises(UserError, match=r"^out of memory on cpu; .*\(it is 8\)"):
            runs.run_experiment(experiment, tmp_path / "runs", small.ALONE)
    folder = RunFolder.of(experiment, tmp_path / "runs")
    step, _ = load_checkpoint(folder.checkpoints)
    assert (folder.path / "failed.txt").read_text().startswith("out of memory on cpu; ")
    runs.run_experiment(experiment, tmp_path / "runs", small.ALONE, notify=said.append)
    assert f"going on from step {step} of 6" in said
    torch.testing.assert_close(folder.weights("last"), whole.weights("last"), rtol=0, atol=0)


def test_a_cpu_without_memory_is_told_alike():
    with pytest.raises(UserError, match=r"^out of memory on cpu; "), failures(small.ALONE):
        torch.empty(10**15)


def test_a_process_that_is_gone_is_told_to_those_that_wait_for_it():
    gloo = RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:1234")
    with pytest.raises(UserError, match=r"^another process of this training is gone"), failures(PAIR):
        raise gloo
    with pytest.raises(RuntimeError, match="gloo"), failures(small.ALONE):
        raise gloo


def test_a_weight_that_is_not_finite_is_in_no_checkpoint(run):
    experiment = small.experiment(run__checkpoint_every=2)
    trainer = small.trainer(experiment)
    advance = trainer.advance

    def spoilt():
        loss = advance()
        if trainer.step == 4:
            next(trainer.model.parameters()).data.view(-1)[0] = float("nan")
        return loss

    trainer.advance = spoilt
    with pytest.raises(UserError, match=r"^a weight is no longer finite after step 4; try a smaller"):
        train(trainer, run)
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-000000002"]
    assert train(small.trainer(experiment), run).steps == 6


def test_checkpoints_of_another_training_are_not_taken_for_ones_own(run):
    train(small.trainer(small.experiment()), run)
    other = small.trainer(small.experiment(model__layer="r_xcnorm"))
    with pytest.raises(UserError, match=f"^the checkpoints in {re.escape(str(run.checkpoints))} do not fit"):
        train(other, run)
