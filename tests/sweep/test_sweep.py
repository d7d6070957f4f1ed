import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from statistics import fmean

import pytest
from rich.console import Console

from tests.sweep import tiny
from xcnorm.cli import main
from xcnorm.engine import load_preset
from xcnorm.errors import UserError
from xcnorm.sweep import Board, Display, Job, LocalPool, RayPool, conduct
from xcnorm.sweep.process import is_claimed

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("sweep_sweep")

ARMS = {"plain": {}, "decayed": {"optimiser.weight_decay": 0.1}}
SEEDS = range(4)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.write_pictures(tmp_path_factory.mktemp("sweep") / "pictures")


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    return tiny.write_preset(tmp_path_factory.mktemp("preset") / "eight.toml", ARMS, SEEDS)


def make_board(preset: Path, runs: Path, data: Path) -> Board:
    return Board(Job(experiment, runs, data, "cpu") for experiment in load_preset(preset).experiments())


def sweep(board: Board, workers: int = 1) -> list[str]:
    """What is said of a sweep by the local pool, line by line."""
    out = io.StringIO()
    with closing(LocalPool("cpu", workers)) as pool, Display(board, Console(file=out)) as display:
        conduct(board, pool, display)
    return out.getvalue().splitlines()


def arguments(preset: Path, runs: Path, data: Path) -> list[str]:
    return ["sweep", str(preset), "--out", str(runs), "--data", str(data), "--device", "cpu"]


def start_sweep(*args: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "xcnorm", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_all_done_once(runs: Path, count: int) -> None:
    folders = [path.parent for path in runs.glob("*/*/*/metrics.json")]
    assert len(folders) == count
    for folder in folders:
        assert [line["step"] for line in tiny.logged(folder)] == [1, 2]
        assert (folder / "train.log").read_text().count("testing\n") == 1


@pytest.fixture(scope="module")
def done(eight, data, tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    board = make_board(eight, runs, data)
    return runs, board, sweep(board, workers=2)


def test_every_experiment_is_done_once(done):
    runs, board, _ = done
    assert [entry.state for entry in board.entries] == ["finished"] * 8
    assert_all_done_once(runs, 8)


def test_two_are_done_at_a_time(done):
    _, _, lines = done
    running = [0]
    for line in lines[1:]:
        running.append(running[-1] + (1 if ": started in " in line else -1))
    assert max(running) == 2
    assert running[-1] == 0
    assert lines[0] == "8 experiments, 0 of them finished already"
    assert re.fullmatch(r"8/8 (plain|decayed), seed \d: finished, \d+\.\d\d % on the targets", lines[-1])


def test_an_arm_has_the_mean_of_its_seeds(done):
    _, board, _ = done
    for row, folder in zip(board.arms(), dict.fromkeys(e.job.folder.path.parent for e in board.entries), strict=True):
        metrics = [json.loads(path.read_text()) for path in folder.glob("seed*/metrics.json")]
        scores = [run["selection"]["last"]["targets"]["chalk"]["accuracy"] for run in metrics]
        assert (row.seeds, row.finished, row.running, row.failed, row.step) == (4, 4, 0, 0, None)
        assert len(scores) == 4
        assert row.score == pytest.approx(fmean(scores))


def test_a_second_sweep_does_nothing(done, eight, data, capsys):
    runs, _, _ = done
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    assert main([*arguments(eight, runs, data), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in result["experiments"]] == ["finished"] * 8
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def test_a_failure_is_reported_and_does_not_stop_the_rest(data, tmp_path, capsys):
    impossible = {"schedule.batch": 4096}  # which shows only when the pictures are there
    preset = tiny.write_preset(tmp_path / "two.toml", {"impossible": impossible, "possible": {}})
    assert main([*arguments(preset, tmp_path / "runs", data), "--json"]) == 1
    captured = capsys.readouterr()
    bad, good = json.loads(captured.out)["experiments"]
    assert (bad["state"], good["state"]) == ("failed", "finished")
    assert "4096" in bad["reason"]
    assert bad["reason"] in captured.err
    assert "\n" not in bad["reason"]


def test_a_folder_that_cannot_be_written_fails_alone(eight, data, tmp_path):
    board = make_board(eight, tmp_path, data)
    board.entries = board.entries[:1]
    tmp_path.joinpath("folder").write_text("in the way")
    [_, line] = sweep(board)
    assert line == f"1/1 plain, seed 0: failed: Not a directory: {board.entries[0].job.folder.path}"


def test_two_sweeps_share_a_folder(data, tmp_path):
    preset = tiny.write_preset(tmp_path / "two.toml", {"plain": {}}, seeds=range(2))
    runs = tmp_path / "runs"
    other = start_sweep(*arguments(preset, runs, data))
    tiny.wait_for(lambda: list(runs.glob("*/*/*/sweep.toml")))
    board = make_board(preset, runs, data)
    mine = sweep(board)
    _, said = other.communicate()
    assert other.returncode == 0
    assert [entry.state for entry in board.entries] == ["finished"] * 2
    assert_all_done_once(runs, 2)
    assert "0/2 plain, seed 0: another process is at it" in mine
    started = [line.split(": started in ")[1] for line in [*mine, *said.splitlines()] if ": started in " in line]
    assert len(set(started)) == len(started) == 2


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the processes of a sweep")
def test_no_work_is_lost_when_processes_die(data, tmp_path):
    preset = tiny.write_preset(tmp_path / "one.toml", {"plain": {}}, iterations=150)
    runs = tmp_path / "runs"
    [entry] = make_board(preset, runs, data).entries
    run = entry.job.folder

    def start() -> "subprocess.Popen[str]":
        """A sweep, once its only run has logged something."""
        (run.path / "log.jsonl").unlink(missing_ok=True)
        process = start_sweep(*arguments(preset, runs, data))
        tiny.wait_for(lambda: (run.path / "log.jsonl").exists() and tiny.logged(run.path))
        return process

    # The run is killed: reported, and left to the next sweep.
    first = start()
    [worker] = (int(pid) for pid in Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split())
    os.kill(worker, signal.SIGKILL)
    _, said = first.communicate()
    assert first.returncode == 1
    assert "plain, seed 0: failed: killed by SIGKILL" in said
    assert not is_claimed(run)

    # The sweep is interrupted: the run stops with a checkpoint.
    second = start()
    second.send_signal(signal.SIGINT)
    _, said = second.communicate()
    assert second.returncode == 130
    assert said.splitlines()[-1] == "xcnorm: interrupted"
    assert not is_claimed(run)
    assert not run.finished
    [checkpoint] = run.checkpoints.iterdir()
    steps = int(checkpoint.name.removeprefix("step-"))
    kept = tiny.logged(run.path)

    # The sweep is killed: its run goes on alone from the checkpoint, and the next sweep waits for it.
    third = start_sweep(*arguments(preset, runs, data))
    tiny.wait_for(lambda: len(tiny.logged(run.path)) > steps)
    third.kill()
    third.communicate()
    assert is_claimed(run)
    board = make_board(preset, runs, data)
    waiting, finished = sweep(board)[1:]
    assert waiting == "0/1 plain, seed 0: another process is at it"
    assert finished.startswith("1/1 plain, seed 0: finished")
    log = tiny.logged(run.path)
    assert log[:steps] == kept
    assert [line["step"] for line in log] == list(range(1, 151))


def test_a_run_that_is_trained_without_a_sweep_is_left_alone(eight, data, tmp_path):
    job = make_board(eight, tmp_path, data).entries[0].job
    with closing(LocalPool("cpu", 1)) as pool:
        with job.folder.claimed():
            assert is_claimed(job.folder)
            pool.start(job)
            assert [outcome.state for _, outcome in pool.ended()] == ["elsewhere"]
            assert pool.room
        assert not is_claimed(job.folder)


def test_the_same_experiment_is_done_once(data, tmp_path):
    preset = tiny.write_preset(tmp_path / "twins.toml", {"first": {}, "second": {}})
    assert [entry.label for entry in make_board(preset, tmp_path, data).entries] == ["first"]


def test_eight_on_ray(eight, data, tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'xcnorm[cluster]'")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    process = start_sweep(*arguments(eight, tmp_path, data), "--on", "ray", "--workers", "2", "--json")
    out, said = process.communicate()
    assert process.returncode == 0, said
    assert [run["state"] for run in json.loads(out)["experiments"]] == ["finished"] * 8
    assert_all_done_once(tmp_path, 8)


def test_without_ray_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r'pip install "xcnorm\[cluster\]"'):
        RayPool()
