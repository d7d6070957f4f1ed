"""`xcnorm report` from the user's side."""

import json

import pytest

from tests.report.folders import PRESET, broken_runs, digits_runs
from xcnorm.cli import main


@pytest.fixture
def runs(tmp_path):
    digits_runs(tmp_path / "runs", seeds=(0, 1))
    broken_runs(tmp_path / "runs")
    (tmp_path / "table.toml").write_text(PRESET)
    return tmp_path / "runs"


def complaint(capsys) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_tables_on_the_screen(runs, capsys):
    assert main(["report", str(runs)]) == 0
    out = capsys.readouterr().out
    assert "R-XCNorm" in out
    assert ["R-XCNorm", "70.50", "±", "0.71"] in [line.split()[:4] for line in out.splitlines()]
    assert "Not in this report: 8 runs" in out
    assert "failed: out of memory on cuda:0" in out


@pytest.mark.parametrize(
    ("form", "words"),
    [("markdown", "| R-XCNorm |"), ("latex", r"\toprule"), ("csv", "section,table"), ("terminal", "ERM")],
)
def test_other_forms_on_the_screen(form, words, runs, capsys):
    assert main(["report", str(runs), "--format", form]) == 0
    assert words in capsys.readouterr().out


def test_a_page_with_everything_beside_it(runs, capsys, tmp_path):
    page = tmp_path / "new" / "report.html"
    assert main(["report", str(runs), "--preset", str(tmp_path / "table.toml"), "-o", str(page), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    beside = {path.name for path in (tmp_path / "new" / "report_files").iterdir()}
    assert {"table_targets.md", "table_targets.tex", "tables.csv", "table_convergence.png"} <= beside
    assert {"table_convergence.svg", "table_convergence_dark.svg", "welsch.png", "sharpening.svg"} <= beside
    assert result["files"][0] == str(page)
    assert {path.rsplit("/")[-1] for path in result["files"]} == {"report.html", *beside}
    text = page.read_text()
    assert "There is no contact sheet" in text
    assert "Table 1: Digits (mini)" in text
    assert len(result["broken"]) == 8
    erm = next(row for row in result["sections"][0]["tables"][0]["rows"] if row["label"] == "ERM")
    assert erm["cells"]["optdigits"]["gap"] == pytest.approx(0.5)


@pytest.mark.parametrize(("name", "words"), [("t.md", "| R-XCNorm |"), ("t.tex", r"\toprule"), ("t.csv", "section,")])
def test_the_ending_decides(name, words, runs, tmp_path):
    assert main(["report", str(runs), "-o", str(tmp_path / name)]) == 0
    assert words in (tmp_path / name).read_text()
    assert not list(tmp_path.glob("*_files"))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere"], "nowhere is not a folder of runs"),
        ([".", "--preset", "paper/table9"], "unknown preset 'paper/table9'"),
        ([".", "--preset", "no.toml"], "no.toml"),
        ([".", "--format", "pdf"], "unknown format 'pdf'"),
        ([".", "--format", "html"], "-o report.html"),
        ([".", "--format", "terminal", "-o", "x.txt"], "leave out -o"),
        ([".", "-o", "report.docx"], "unknown ending '.docx'"),
        ([".", "--selection", "first"], "unknown selection 'first'"),
        ([], "issing argument"),
    ],
)
def test_mistakes_are_one_line(args, words, runs, capsys, monkeypatch):
    monkeypatch.chdir(runs)
    assert main(["report", *args]) == 2
    assert words in complaint(capsys)


def test_no_runs(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "there is no finished run" in complaint(capsys)
    broken_runs(tmp_path)
    assert main(["report", str(tmp_path)]) == 2
    assert "8 unfinished or broken; the first: " in complaint(capsys)


def test_a_place_that_cannot_be_written(runs, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["report", str(runs), "-o", str(tmp_path / "file" / "report.html")]) == 2
    assert str(tmp_path / "file") in complaint(capsys)
    assert main(["report", str(runs), "-o", str(runs), "--format", "html"]) == 2
    assert f"Is a directory: {runs}" in complaint(capsys)


def test_a_preset_with_a_bad_number(runs, capsys, tmp_path):
    path = tmp_path / "table.toml"
    path.write_text(PRESET.replace("66.5", '"66,5"'))
    assert main(["report", str(runs), "--preset", str(path)]) == 2
    assert "optdigits of 'MetaCNN' must be a number, not '66,5'" in complaint(capsys)
