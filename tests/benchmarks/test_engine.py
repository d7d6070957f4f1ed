"""The comparison of the engine with a loop by hand compares like with like; how fast is not a matter for tests."""

import json

from benchmarks.engine import main


def test_both_loops_learn_the_same(tmp_path, capsys):
    main(["--quick", "--out", str(tmp_path / "engine.json")])
    assert "by hand" in capsys.readouterr().out
    result = json.loads((tmp_path / "engine.json").read_text())
    assert result["losses"]["engine"] == result["losses"]["by_hand"]
    assert 0.2 < result["ratio"] < 5
    assert result["environment"]["torch"]
