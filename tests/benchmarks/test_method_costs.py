"""The costs of methods are found; how fast they are is not a matter for tests."""

import json

import pytest

from benchmarks import method_costs


def test_a_method_beside_erm(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(method_costs, "_BEFORE", 2)
    file = tmp_path / "methods.json"
    method_costs.main(["--quick", "--method", "randconv", "--out", str(file)])
    assert "randconv" in capsys.readouterr().out
    rows = json.loads(file.read_text())["rows"]
    assert list(rows) == ["erm", "randconv"]
    assert rows["erm"]["ratio"] == 1
    assert rows["randconv"]["ratio"] > 1
    assert rows["randconv"]["estimate"] == 3


def test_an_unknown_method(capsys):
    with pytest.raises(SystemExit):
        method_costs.main(["--method", "randcnov"])
    assert "randcnov" in capsys.readouterr().err
