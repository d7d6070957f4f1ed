import json

import pytest

from tests.sweep import tiny
from xcnorm.cli import main


@pytest.fixture
def preset(tmp_path):
    return tiny.write_preset(tmp_path / "tiny.toml", {"plain": {}, "decayed": {"optimiser.weight_decay": 0.1}}, [0, 1])


def test_a_dry_run_lists_the_experiments_and_makes_nothing(preset, tmp_path, capsys):
    runs = tmp_path / "runs"
    assert main(["sweep", str(preset), "--out", str(runs), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["waiting", f"{label}, seed {seed}"] for label in ("plain", "decayed") for seed in (0, 1)
    ]
    assert all(line.split(": ")[2].startswith(f"{runs}/folder/erm+conv-") for line in lines)
    assert not runs.exists()


def test_settings_can_be_changed(preset, capsys):
    assert main(["sweep", str(preset), "--dry-run", "--json", "--set", "seed=7", "--set", "model.layer=xcnorm"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["preset"] == "tiny"
    assert [run["seed"] for run in result["experiments"]] == [7, 7]
    assert all("erm+xcnorm-" in run["folder"] for run in result["experiments"])
    assert [arm["label"] for arm in result["arms"]] == ["plain", "decayed"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["{preset}", "--on", "mars"], "mars"),
        (["{preset}", "--workers", "0"], "--workers"),
        (["{preset}", "--set", "schedule.batches=3"], "did you mean 'batch'"),
        (["paper/table9"], "unknown preset 'paper/table9'; did you mean 'paper/table"),
        (["nope"], "unknown preset 'nope' (near: "),
        (["{preset}", "--device", "tpu"], "device must be auto, cpu or cuda, not 'tpu'"),
    ],
)
def test_a_mistake_is_one_line_and_exits_with_2(args, words, preset, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *(arg.format(preset=preset) for arg in args)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert words in line


def test_results_are_a_table_and_failures_with_their_logs(tmp_path, capsys):
    empty = tmp_path / "no pictures"
    empty.mkdir()
    preset = tiny.write_preset(tmp_path / "tiny.toml", {"plain": {}})
    runs = tmp_path / "runs"
    assert main(["sweep", str(preset), "--data", str(empty), "--out", str(runs), "--device", "cpu"]) == 1
    out = capsys.readouterr().out
    assert ["plain", "1", "0", "-", "1", "-", "-", "-"] in [line.split() for line in out.splitlines()]
    [log] = runs.glob("*/*/*/train.log")
    assert f"failed: plain, seed 0: {empty}" in out
    assert str(log) in out
