"""`xcnorm audit` from the user's side."""

import json
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.auditing.small import folder
from xcnorm.auditing import load_audit
from xcnorm.cli import main

MODEL = "tests.auditing.small:Brightness"


@pytest.fixture
def audit(tmp_path, monkeypatch):
    """Run the command in a folder of its own."""
    folder(tmp_path / "pictures")
    monkeypatch.chdir(tmp_path)

    def run(*args: str, models=(MODEL,)) -> int:
        options = ["--types", "gaussian_noise,fog", "--mean", "0.5", "--std", "0.5", "--device", "cpu"]
        return main(["audit", *models, "--data", "pictures", *options, *args])

    return run


def complaint(capsys) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_a_table_a_verdict_a_page_and_a_file(audit, capsys, tmp_path):
    assert audit(models=(MODEL, MODEL)) == 0
    out = capsys.readouterr().out
    found = load_audit(tmp_path / "xcnorm-audit" / "audit.json")
    model = found.models[0]
    lines = [line.split() for line in out.splitlines()]
    assert ["fog", *[f"{100 * model.by_corruption['fog']:.2f}"] * 2] in lines
    assert str(found).splitlines()[0] in out
    assert "<h1>Audit of 2 models</h1>" in (tmp_path / "xcnorm-audit" / "audit.html").read_text()


def test_the_same_command_again_gives_the_same_file(audit, tmp_path):
    assert audit("--out", "a") == 0
    first = (tmp_path / "a" / "audit.json").read_bytes()
    assert audit("--out", "a") == 0
    assert (tmp_path / "a" / "audit.json").read_bytes() == first


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--fail-under", "1"], 0),
        (["--fail-under", "100"], 1),
        (["--max-drop", "100"], 0),
        (["--max-drop", "0.5", "--fail-under", "1"], 1),
    ],
)
def test_thresholds_decide_the_exit_code(args, code, audit, capsys, tmp_path):
    assert audit(*args, "--junit", "reports/junit.xml") == code
    assert ("FAILED" in capsys.readouterr().out) == bool(code)
    suites = ElementTree.parse(tmp_path / "reports" / "junit.xml").getroot()
    assert len(list(suites.iter("failure"))) == code


def test_json_for_programs_and_a_baseline(audit, capsys):
    assert audit("--out", "a", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["files"] == ["a/audit.json", "a/audit.html"]
    assert audit("--out", "b", "--baseline", "a/audit.json", "--json", "--fail-under", "100") == 1
    second = json.loads(capsys.readouterr().out)
    assert second["models"][0]["mce"] == pytest.approx(100)
    assert second["failures"][0].startswith(f"{MODEL}: accuracy under corruptions is")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--data", "nowhere"], "nowhere is not a folder"),
        (["--data", "empty"], "empty holds no pictures"),
        (["--data", "single"], "holds one class, 'up'"),
        (["--data", "broken"], "is not a picture, or a damaged one"),
        (["--data", "sizes"], "give a size for all (--pixels)"),
        (["--types", "fogg"], "unknown corruption 'fogg'"),
        (["--mean", "half"], "--mean takes numbers"),
        (["--mean", "0.5,0.5"], "mean has 2 numbers for 3 channels"),
        (["--baseline", "no.json"], "cannot read no.json"),
        (["--fail-under", "170"], "fail-under"),
    ],
)
def test_bad_input_is_one_line(args, words, audit, capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    for name, change in (("single", "up/0.png"), ("broken", "up/0.png"), ("sizes", "up/0.png")):
        if args[1] == name:
            folder(tmp_path / name)
            if name == "single":
                (tmp_path / "single" / "down").rename(tmp_path / "down")
                (tmp_path / "single" / "left").rename(tmp_path / "left")
            elif name == "broken":
                (tmp_path / name / change).write_bytes(b"no picture")
            else:
                Image.new("RGB", (20, 16)).save(tmp_path / name / change)
    assert audit(*args) == 2
    assert words in complaint(capsys)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("tests.auditing.small:folder", "cannot be called without arguments"),
        ("torch.nn:ReLU", "a row of numbers for each"),
        ("torch.nn:Flatten", "answers with 768 numbers, but there are 3 classes"),
        ("network.onnx", "network.onnx is not there"),
        ("pictures", "is no run: it has no config.toml"),
    ],
)
def test_a_model_that_is_none_is_one_line(model, words, audit, capsys):
    assert audit(models=(model,)) == 2
    assert words in complaint(capsys)
