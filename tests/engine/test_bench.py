"""The comparison of the engine with a loop by hand compares like with like; how fast is not a matter for tests."""

import json

from xcnorm.cli import main


def test_both_loops_learn_the_same(capsys):
    assert main(["bench", "engine", "--quick", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["losses"]["engine"] == result["losses"]["by_hand"]
    assert 0.2 < result["ratio"] < 5
    assert result["environment"]["torch"]


def test_an_unknown_device_is_one_line(capsys):
    assert main(["bench", "engine", "--device", "tpu"]) == 2
    assert capsys.readouterr().err == "xcnorm: device must be cpu or cuda, not 'tpu'\n"
