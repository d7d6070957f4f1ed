"""The benchmarks run and report what they measured; how fast is not a matter for tests."""

import json

import pytest

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
