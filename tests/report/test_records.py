"""A record says what its run says."""

import json

import pytest

from tests.report.folders import digits_runs, settings, write_run
from xcnorm.report import build, find_runs
from xcnorm.report.records import write_record


@pytest.fixture
def run(tmp_path):
    missing = {"syn": "SYN is not in /home/me/data: get it at http://example.org/a/b for /home/me/data"}
    write_run(tmp_path / "runs", settings(seed=3, label="R-XCNorm + x"), {"optdigits": 0.5}, missing=missing)
    (found,) = find_runs(tmp_path / "runs").finished
    return found


def test_a_record_makes_the_report_that_its_run_makes(tmp_path):
    digits_runs(tmp_path / "runs", seeds=(0, 1))
    runs = find_runs(tmp_path / "runs")
    for run in runs.finished:
        write_record(run, tmp_path / "results")
    records = find_runs(tmp_path / "results")
    assert not records.broken
    assert rows(build(records)) == rows(build(runs))


def rows(report):
    """Every score by table and row; the order is that of the files' names."""
    return {
        (table.title, row.label): [(cell.value, cell.deviation, cell.count) for cell in row.cells]
        for table in report.tables
        if table.title != "convergence"  # losses are rounded
        for row in table.rows
    }


def test_its_name_says_what_it_is_and_the_same_run_replaces_it(run, tmp_path):
    path = write_record(run, tmp_path / "results")
    assert path.parent == tmp_path / "results" / "digits-mini"
    assert path.name.startswith("r-xcnorm-x-")
    assert path.name.endswith("-seed3.run.json")
    assert write_record(run, tmp_path / "results") == path
    assert len(list(path.parent.iterdir())) == 1


def test_paths_of_the_machine_are_left_out(run, tmp_path):
    record = json.loads(write_record(run, tmp_path).read_text())
    assert record["metrics"]["missing"] == {"syn": "SYN is not in DIR: get it at http://example.org/a/b for DIR"}


def test_losses_are_thinned_and_the_last_is_kept(tmp_path):
    folder = write_run(tmp_path / "runs", settings(seed=0), {"optdigits": 0.5})
    lines = [json.dumps({"step": step, "loss": 1 / step}) for step in range(1, 1001)]
    (folder / "log.jsonl").write_text("\n".join(lines))
    (run,) = find_runs(tmp_path / "runs").finished
    losses = json.loads(write_record(run, tmp_path).read_text())["losses"]
    assert len(losses) == 100
    assert losses["1000"] == 0.001


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"config": {}, "metrics": {}, "environment": {}, "losses": [1]}'])
def test_what_is_no_record_is_listed(text, tmp_path):
    (tmp_path / "a.run.json").write_text(text)
    (broken,) = find_runs(tmp_path).broken
    assert "a.run.json" in broken.reason
