import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from xcnorm.engine import make_experiment
from xcnorm.sweep import Board, Display, Job


def job(runs: Path, seed: int, label: str = "ERM", **schedule: int) -> Job:
    return Job(make_experiment({"label": label, "seed": seed, "schedule": schedule or {"iterations": 100}}), runs)


def write_metrics(done: Job, *scores: float | None, metric: str = "accuracy") -> None:
    done.folder.path.mkdir(parents=True)
    targets = {f"target{index}": {metric: score} for index, score in enumerate(scores)}
    metrics = {"metric": metric, "selection": {"last": {"targets": targets}}}
    (done.folder.path / "metrics.json").write_text(json.dumps(metrics))


def write_log(running: Job, *lines: str) -> None:
    running.folder.path.mkdir(parents=True)
    (running.folder.path / "log.jsonl").write_text("\n".join(lines))


def test_what_was_done_before_is_noted(tmp_path):
    jobs = [job(tmp_path, seed) for seed in range(3)]
    write_metrics(jobs[0], 0.5, 0.25)
    write_metrics(jobs[2], 0.75, None, metric="auroc")
    board = Board(jobs)
    assert [entry.state for entry in board.entries] == ["finished", "waiting", "finished"]
    [row] = board.arms()
    assert (row.label, row.seeds, row.finished, row.score) == ("ERM", 3, 2, (0.375 + 0.75) / 2)


def test_a_result_that_cannot_be_read_is_named(tmp_path):
    write_metrics(job(tmp_path, 0))
    path = job(tmp_path, 0).folder.path / "metrics.json"
    for text in ("{", "{}", '{"selection": {}}'):
        path.write_text(text)
        [entry] = Board([job(tmp_path, 0)]).entries
        assert entry.state == "failed"
        assert re.match(f"(cannot read )?{re.escape(str(path))}.*; delete it and train again", entry.reason)


def test_the_latest_loss_is_found_behind_what_is_half_written(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr("xcnorm.sweep.board.time.monotonic", lambda: now)
    running = job(tmp_path, 0)
    first = '{"step": 1, "loss": 9.0, "padding": "' + "x" * 5000 + '"}'
    write_log(running, first, '{"step": 40, "loss": 0.5}', '{"step": 40, "validation": 0.9}', '{"step": 50, "lo')
    board = Board([running, job(tmp_path, 1)])
    board.entries[0].settle("running")
    [row] = board.arms()
    assert (row.running, row.step, row.loss) == (1, 40, 0.5)
    assert board.entries[0].fraction() == 0.4
    now += 10
    assert board.elapsed() == 10
    assert board.remaining() == pytest.approx(10 * (2 - 0.4) / 0.4)


def test_nobody_can_tell_the_time_before_the_first_step(tmp_path):
    assert Board([job(tmp_path, 0)]).remaining() is None


def test_how_far_epochs_are(tmp_path):
    running = job(tmp_path, 0, epochs=4)
    write_log(running, '{"step": 30, "epoch": 3, "loss": 0.5}')
    board = Board([running])
    board.entries[0].settle("running")
    assert board.entries[0].fraction() == 0.75


def shown(board: Board, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, _environ={"TERM": "xterm"})
    with Display(board, console) as display:
        for entry, state in zip(board.entries, ("running", "failed", "elsewhere"), strict=True):
            entry.settle(state, "no [memory]" if state == "failed" else "")
            display.changed(entry)
        display.refresh()
    text = console.file.getvalue()
    assert isinstance(text, str)
    return text


def test_a_pipe_gets_a_line_for_each_event(tmp_path):
    board = Board([job(tmp_path, seed) for seed in range(3)])
    folder = board.entries[0].job.folder.path
    assert shown(board, terminal=False).splitlines() == [
        "3 experiments, 0 of them finished already",
        f"0/3 ERM, seed 0: started in {folder}",
        "1/3 ERM, seed 1: failed: no [memory]",
        "1/3 ERM, seed 2: another process is at it",
    ]


def test_a_label_gives_the_terminal_no_orders(tmp_path):
    for terminal in (False, True):
        text = shown(Board([job(tmp_path, seed, "\x1b]0;run\x07") for seed in range(3)]), terminal)
        assert "�]0;run�" in text
        assert "\x1b]" not in text
        assert "\x07" not in text


def test_a_terminal_gets_a_table_and_failures(tmp_path):
    running, other = job(tmp_path, 0), job(tmp_path, 1, "XCNorm", iterations=10)
    write_log(running, '{"step": 40, "loss": 0.5}')
    text = shown(Board([running, other, job(tmp_path, 2)]), terminal=True)
    assert "1/3 XCNorm, seed 1: failed: no [memory]" in text
    assert "started" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["ERM", "2", "0", "2", "-", "40", "0.5000", "-"] in rows
    assert any("1/3" in row for row in rows)
