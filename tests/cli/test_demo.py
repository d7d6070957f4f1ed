"""The demonstration end to end, with a few steps."""

import json
import sys

import pytest

from tests.test_commands_in_docs import read
from xcnorm.cli import main

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("demo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished demonstration of two steps for each network."""
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    assert main(["demo", "--iterations", "2", "--out", str(out)]) == 0
    return out


def test_it_writes_runs_and_a_report(folder):
    page = (folder / "report.html").read_text()
    for word in ("plain convolutions", "XCNorm", "R-XCNorm", "optdigits", "syn_rendered", "inverted", "low_contrast"):
        assert word in page
    assert {path.parent.name.partition("-")[0] for path in folder.glob("runs/digits-mini/*/seed0")} == {
        "erm+conv",
        "erm+xcnorm",
        "erm+r_xcnorm",
    }


def test_again_it_prints_the_same_without_training(folder, capsys):
    logs = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/*/*/*")}
    assert main(["demo", "--iterations", "2", "--out", str(folder)]) == 0
    printed = capsys.readouterr()
    for word in ("convolutions", "R-XCNorm", "optdigits", "report.html"):
        assert word in printed.out
    assert "R-XCNorm: 2 steps" in printed.err
    assert "is finished already" in printed.err
    check_the_end(printed.out, folder)
    assert {path: path.stat().st_mtime_ns for path in logs} == logs
    assert main(["demo", "--iterations", "2", "--json", "--out", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["page"].endswith("report.html")


def check_the_end(said, folder):
    """It ends with what to open, and with two commands to try, which the command line takes."""
    *_, what, playground, _, audit, _ = said.splitlines()
    assert what == f"The report is {folder / 'report.html'}: open it in a browser. Then try:"
    for line, name in ((playground, "playground"), (audit, "audit")):
        assert f"xcnorm {name} " in line
        read(line)
    assert str(folder) in playground


def test_packages_that_are_missing_are_told_before_training(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 2
    assert 'pip install "xcnorm[demo]"' in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_an_unwritable_folder_fails_before_training(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file" / "below")]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "Not a directory" in complaint


def test_a_misspelt_backend_is_the_users_to_fix(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XCNORM_BACKEND", "plian")
    assert main(["demo", "--iterations", "1", "--out", str(tmp_path)]) == 2
    assert "did you mean 'plain'" in capsys.readouterr().err
