import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from xcnorm.cli import main


@pytest.fixture
def calls(monkeypatch):
    """Stand in for the demo itself, which has tests of its own, and note how it is called."""
    calls = []

    def run(out, *, iterations, seed, console):
        calls.append({"out": out, "iterations": iterations, "seed": seed})
        console.print("training")
        return SimpleNamespace(to_dict=lambda: {"accuracy": 0.5}), Path("report.html")

    monkeypatch.setattr("xcnorm.demo.run", run)
    monkeypatch.setattr("xcnorm.report.renderers.terminal", lambda report: ["accuracy 0.5"])
    return calls


def test_options_reach_the_demo(calls):
    assert main(["demo", "--out", "there", "--iterations", "3", "--seed", "7"]) == 0
    assert calls == [{"out": Path("there"), "iterations": 3, "seed": 7}]


def test_results_go_to_stdout_and_progress_to_stderr(calls, capsys):
    assert main(["demo"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("accuracy 0.5\nReport: report.html\n", "training\n")


def test_json_is_all_there_is_on_stdout(calls, capsys):
    assert main(["demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"accuracy": 0.5, "page": "report.html"}
