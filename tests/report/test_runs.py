"""Runs are found wherever they lie, and a bad one never stops the rest."""

import json
import os
import shutil

import pytest

from tests.report.folders import DIGITS, broken_runs, digits_runs, settings, write_run
from xcnorm.errors import UserError
from xcnorm.report import find_runs


def test_finished_runs_are_read(tmp_path):
    digits_runs(tmp_path, seeds=(0, 3))
    runs = find_runs(tmp_path)
    assert not runs.broken
    assert len(runs.finished) == 6
    run = next(run for run in runs.finished if run.seed == 3 and run.config["label"] == "R-XCNorm")
    assert run.settings["model.layer"] == "r_xcnorm"
    assert list(run.targets("last")) == list(DIGITS)
    assert run.targets("last")["optdigits"] == pytest.approx(73.0)
    assert run.environment["torch"] == "2.13.0"
    assert list(run.losses) == list(range(20, 401, 20))  # without the broken last line


def test_every_broken_run_is_listed_with_its_reason(tmp_path):
    digits_runs(tmp_path, seeds=(0,))
    reasons = broken_runs(tmp_path)
    runs = find_runs(tmp_path)
    assert len(runs.finished) == 3
    told = {broken.folder.parent.name.removeprefix("erm+conv-"): broken.reason for broken in runs.broken}
    assert told.keys() == reasons.keys()
    for name, words in reasons.items():
        assert words in told[name]
        assert "\n" not in told[name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"selection": {"last": {"source": {"accuracy": 1.0}}}}, "lacks 'targets'"),
        ({"selection": {"last": {"source": {}, "targets": {}}}}, "lacks 'accuracy'"),
        ({"selection": {"last": {"source": {"accuracy": float("nan")}, "targets": {}}}}, "nan is no score"),
        ({"selection": {"last": {"source": {"accuracy": 1.0, "auroc": "x"}, "targets": {}}}}, "'x' is no score"),
        ({"selection": {"last": {"source": {"accuracy": "high"}, "targets": {}}}}, "'high' is no score"),
        ({"selection": [1]}, "not laid out as expected"),
        ({"notes": []}, "notes is not a table"),
    ],
)
def test_strange_metrics_are_a_reason(change, words, tmp_path):
    write_run(tmp_path, settings(seed=0), {"optdigits": 0.5}, **change)
    (broken,) = find_runs(tmp_path).broken
    assert words in broken.reason


def test_a_date_is_no_setting(tmp_path):
    folder = write_run(tmp_path, settings(seed=0), {"optdigits": 0.5})
    path = folder / "config.toml"
    path.write_text(f"when = 2024-01-01\n{path.read_text()}")
    assert "not laid out as expected" in find_runs(tmp_path).broken[0].reason


def test_a_run_counts_once(tmp_path):
    digits_runs(tmp_path / "runs", seeds=(0,))
    twice = find_runs(tmp_path, tmp_path / "runs", tmp_path / "runs" / "digits-mini")
    assert len(twice.finished) == 3
    assert not twice.broken
    shutil.copytree(tmp_path / "runs", tmp_path / "copy")
    copied = find_runs(tmp_path)
    assert len(copied.finished) == 3
    assert all("the same experiment and seed as" in broken.reason for broken in copied.broken)
    assert len(copied.broken) == 3


def test_a_step_that_was_logged_twice_counts_as_logged_last(tmp_path):
    folder = write_run(tmp_path, settings(seed=0), {"optdigits": 0.5})
    lines = [
        {"step": 10, "loss": 3.0},
        {"step": 20, "loss": 2.0},
        {"step": 10, "loss": 1.0},
        {"step": 30, "loss": "NaN"},
    ]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert find_runs(tmp_path).finished[0].losses == {10: 1.0, 20: 2.0}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_reason(tmp_path):
    folder = write_run(tmp_path, settings(seed=0), {"optdigits": 0.5})
    (folder / "metrics.json").chmod(0)
    assert "cannot be read" in find_runs(tmp_path).broken[0].reason


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="nowhere is not a folder of runs"):
        find_runs(tmp_path / "nowhere")
