"""The benchmarks run and report what they measured; how fast is not a matter for tests."""

import json
import subprocess
import sys

import pytest
import torch

from tests.bench.broken import break_layers
from tests.bench.tiny import SHAPES, make_tiny
from xcnorm.bench import compare
from xcnorm.bench.sides import SIDES
from xcnorm.cli import main
from xcnorm.data import corruptions


def test_corruptions(capsys):
    assert main(["bench", "corruptions", "--images", "3", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["seconds"]) == set(corruptions.names())
    assert result["grid_seconds"] == pytest.approx(result["total_seconds"] * 10_000 / 3)
    assert result["environment"]["torch"]
    assert main(["bench", "corruptions", "--images", "2"]) == 0
    assert "images a second" in capsys.readouterr().out


def test_an_unknown_device_is_one_line(capsys):
    assert main(["bench", "corruptions", "--device", "tpu"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_layers(capsys, monkeypatch, tmp_path):
    make_tiny(monkeypatch)
    file = tmp_path / "layers.json"
    assert main(["bench", "layers", "--quick", "--out", str(file), "--json"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert json.loads(file.read_text()) == result
    assert [line.split()[2] for line in captured.err.splitlines()] == ["1/2", "2/2"]
    assert result["environment"]["threads"] == 1
    assert set(result["cases"]) == {shape.name for shape in SHAPES}
    assert [(row["case"], row["side"]) for row in result["rows"]] == [
        (shape.name, side.name) for shape in SHAPES for side in SIDES
    ]
    for row in result["rows"]:
        assert set(row["times"]["eager"]) == {"inference", "forward", "backward", "both"}
        assert row["memory_mib"] > 0
        assert row["gate"] is None if row["side"] == "conv" else row["gate"]["passed"]


def test_channels_last_on_a_cpu(capsys, monkeypatch):
    make_tiny(monkeypatch)
    timed = []
    monkeypatch.setattr(compare, "race", lambda modules, inputs, *arguments: timed.extend(inputs) or {})
    assert main(["bench", "layers", "--quick", "--channels-last", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["channels_last"]
    assert timed
    assert all(input.is_contiguous(memory_format=torch.channels_last) for input in timed)
    assert all(row["gate"] is None or row["gate"]["passed"] for row in result["rows"])


def test_a_layer_that_computes_something_else_is_not_timed(capsys, monkeypatch):
    make_tiny(monkeypatch)
    break_layers(monkeypatch, lambda value: value.flip(-1))
    assert main(["bench", "layers", "--quick"]) == 0
    captured = capsys.readouterr()
    assert "gate red" in captured.out
    assert "xcnorm: gate red" in captured.err


def test_models(capsys, monkeypatch, tmp_path):
    make_tiny(monkeypatch)
    file = tmp_path / "models.json"
    assert main(["bench", "models", "--quick", "--network", "digits_cnn", "--out", str(file)]) == 0
    assert "Inference, fp32, eager" in capsys.readouterr().out
    result = json.loads(file.read_text())
    assert [row["side"] for row in result["rows"]] == [side.name for side in SIDES]
    assert all(row["gate"]["passed"] for row in result["rows"][1:])


@pytest.mark.parametrize("command", ["layers", "models"])
@pytest.mark.parametrize(
    "option", [["--mode", "graph"], ["--precision", "bf16"], ["--network", "vgg"], ["--out", "no/such/folder.json"]]
)
def test_what_cannot_be_measured_is_one_line(command, option, capsys):
    assert main(["bench", command, *option]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_layers_and_models_need_no_engine():
    """A machine that only measures needs neither pydantic nor matplotlib."""
    code = "import sys, xcnorm.bench.layers, xcnorm.bench.models; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"pydantic", "matplotlib", "xcnorm.engine", "xcnorm.data"}.isdisjoint(loaded)
