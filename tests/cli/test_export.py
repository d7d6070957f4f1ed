"""`xcnorm export` from the user's side."""

import importlib.util
import json

import pytest
import torch

import xcnorm
from tests.report.folders import settings, write_run
from xcnorm.auditing import open_model
from xcnorm.auditing.subject import Normalisation
from xcnorm.cli import main
from xcnorm.engine import RunFolder
from xcnorm.engine.experiment import make_experiment
from xcnorm.engine.networks import build_network

CPU = torch.device("cpu")
IMAGES = torch.rand(2, 3, 32, 32)


@pytest.fixture
def run(tmp_path):
    """A finished run, and its network."""
    config = settings(data__mean=0.25, data__std=[0.5, 0.5, 0.75])
    path = write_run(tmp_path / "runs", config, {"mnist_m": 0.5})
    network = build_network(make_experiment(config), 10, CPU)
    RunFolder(path).save_weights("last", network.state_dict())
    return path, network.eval()


def test_a_run_becomes_a_file_that_an_audit_knows_all_about(run, tmp_path, capsys):
    path, network = run
    assert main(["export", str(path), "-o", str(tmp_path / "network.pt2")]) == 0
    out = capsys.readouterr().out
    assert f"Wrote {tmp_path / 'network.pt2'} (torch.export) for any number of images of any size" in out
    assert "of the largest" in out
    subject = open_model(tmp_path / "network.pt2", CPU)
    assert subject.classes == tuple("0123456789")
    assert subject.pixels == 32
    assert subject.normalisation == Normalisation((0.25,), (0.5, 0.5, 0.75), "the file's own")
    with torch.no_grad():
        torch.testing.assert_close(subject.forward(IMAGES), network(IMAGES), rtol=1e-4, atol=1e-5)


def test_a_run_becomes_a_folder_that_an_audit_and_another_export_take(run, tmp_path, capsys):
    path, network = run
    folder = tmp_path / "network"
    assert main(["export", str(path), "-o", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"folder": str(folder), "metrics": {"Digits (mini), source": 0.97, "mnist_m": 0.5}}
    with torch.no_grad():
        assert torch.equal(xcnorm.from_pretrained(folder)(IMAGES), network(IMAGES))
    card = (folder / "README.md").read_text()
    assert "| Trained on | Digits (mini) (digits-mini), by erm, 400 steps, seed 0 |" in card
    assert "| mnist_m | 50.00 |" in card
    subject = open_model(folder, CPU)
    assert (subject.pixels, subject.classes) == (32, tuple("0123456789"))
    assert str(subject.normalisation) == "mean 0.25 and std 0.5, 0.5, 0.75"
    if importlib.util.find_spec("onnxscript") and importlib.util.find_spec("onnxruntime"):
        assert main(["export", str(folder), "-o", str(tmp_path / "network.onnx"), "--json"]) == 0
        written = json.loads(capsys.readouterr().out)
        assert (written["format"], written["any_size"]) == ("ONNX", True)
        assert written["difference"] < 1e-4


def test_what_is_given_takes_the_place_of_what_is_known(tmp_path, capsys):
    model = "tests.auditing.small:Brightness"
    given = ["--pixels", "16", "--mean", "0.5", "--std", "0.25"]
    assert main(["export", model, "-o", str(tmp_path / "bright.pt2"), *given]) == 0
    subject = open_model(tmp_path / "bright.pt2", CPU)
    assert (subject.pixels, subject.normalisation) == (16, Normalisation((0.5,), (0.25,), "the file's own"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent", "-o", "a.onnx"], "'absent' is no model; give the folder of a run"),
        (["torch.nn:Identity", "-o", "a.xyz"], "a.xyz names no format; write one of NAME.onnx (ONNX)"),
        (["torch.nn:Identity", "-o", "a.pt2"], "the size of its images is not known; give pixels (--pixels)"),
        (["torch.nn:Identity", "-o", "a.pt2", "--mean", "grey"], "--mean takes numbers"),
        (["torch.nn:Identity", "-o", "here"], "holds other files"),
        (["tests.auditing.small:Brightness"], "missing option '--out' / '-o'"),
        (["exported.pt2", "-o", "a.onnx"], "exported.pt2 was exported already"),
    ],
)
def test_what_the_user_must_fix_is_told_in_one_line(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.txt").write_text("mine")
    program = torch.export.export(torch.nn.AvgPool2d(2), (torch.ones(1, 3, 4, 4),))
    torch.export.save(program, tmp_path / "exported.pt2")
    before = set(tmp_path.rglob("*"))
    assert main(["export", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert set(tmp_path.rglob("*")) == before


def test_what_is_missing_is_told_with_its_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    model = ["export", "tests.auditing.small:Brightness", "--pixels", "16"]
    assert main([*model, "-o", str(tmp_path / "a.onnx")]) == 2
    assert 'install it with: pip install "xcnorm[export]"' in capsys.readouterr().err
