"""However a program ends before its time, the same command goes on, to the same result bit by bit."""

import random
import re
import resource
import signal
import time

import numpy as np
import pytest
import torch

from tests.engine import small
from tests.engine.programs import EXACT, STEPS, finish, folder, log, results, start
from xcnorm.engine.checkpoint import load_checkpoint

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("engine_interruption")

KILLS = 4  # `tests.faults` does more, without the time that a program takes to start
SMALLER_THAN_A_CHECKPOINT = 50_000_000


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    small.pictures(root)
    return root


@pytest.fixture(scope="module")
def expected(pictures, tmp_path_factory):
    """What a run leaves behind that nobody interrupts."""
    out = tmp_path_factory.mktemp("whole")
    code, complaints = finish(start(pictures, out, EXACT))
    assert code == 0, complaints
    return results(folder(out))


def assert_same(actual, expected):
    assert actual["metrics"] == expected["metrics"]
    assert actual["log"] == expected["log"]
    torch.testing.assert_close(actual["weights"], expected["weights"], rtol=0, atol=0)
    assert actual["predictions"].keys() == expected["predictions"].keys()
    for name, array in actual["predictions"].items():
        assert np.array_equal(array, expected["predictions"][name])


def wait_for(out, process, step, before):
    """Until the program has logged a step; in a log of its own, not in the one that was there before."""
    while process.poll() is None:
        logged = 0
        if log_file(out) not in (None, before):
            text = next(out.glob("**/log.jsonl")).read_text()
            logged = max(map(int, re.findall(r'"step": (\d+),', text)), default=0)
        if logged >= step:
            return
        time.sleep(0.002)
    pytest.fail(f"ended before step {step}: {finish(process)}")


def log_file(out):
    """Tells the logs of two programs apart: to cut it, the second one writes a new file."""
    path = next(out.glob("**/log.jsonl"), None)
    return path and path.stat().st_ino


def test_killed_at_random_points(pictures, expected, tmp_path):
    chance = random.Random(0)
    # The last one comes when training is done, but the results are not all written.
    for step in [*sorted(chance.choices(range(1, STEPS), k=KILLS - 1)), STEPS]:
        before = log_file(tmp_path)
        process = start(pictures, tmp_path, EXACT)
        wait_for(tmp_path, process, step, before)
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        code, complaints = finish(process)
        assert code == -signal.SIGKILL, complaints
        assert not (folder(tmp_path) / "metrics.json").exists()
    assert finish(start(pictures, tmp_path, EXACT))[0] == 0
    assert_same(results(folder(tmp_path)), expected)


def test_stopped_on_request_and_by_a_full_disk(pictures, expected, tmp_path):
    for step, request in ((5, signal.SIGINT), (10, signal.SIGTERM)):
        before = log_file(tmp_path)
        process = start(pictures, tmp_path, EXACT)
        wait_for(tmp_path, process, step, before)
        process.send_signal(request)
        code, complaints = finish(process)
        assert code == 130, complaints
        assert complaints.splitlines()[-1] == "xcnorm: interrupted"
        run = folder(tmp_path)
        assert not (run / "failed.txt").exists()
        assert load_checkpoint(run / "checkpoint")[0] == log(run)[-1]["step"]  # nothing is done twice
    before = [(path, path.read_bytes()) for path in sorted((run / "checkpoint").glob("*/*"))]
    assert len(before) == 4

    process = start(pictures, tmp_path, EXACT)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (SMALLER_THAN_A_CHECKPOINT, SMALLER_THAN_A_CHECKPOINT))
    code, complaints = finish(process)
    assert code == 2
    resumed, line = complaints.splitlines()
    assert resumed == f"going on from step {load_checkpoint(run / 'checkpoint')[0]} of {STEPS}"
    assert line.startswith("xcnorm: cannot write the checkpoint ")
    assert "File too large" in line
    assert "free some space, or choose another --out, and run the same command again" in line
    assert [(path, path.read_bytes()) for path in sorted((run / "checkpoint").glob("*/*"))] == before
    assert "cannot write the checkpoint" in (run / "failed.txt").read_text()

    assert finish(start(pictures, tmp_path, EXACT))[0] == 0
    assert not (run / "failed.txt").exists()
    assert_same(results(run), expected)
