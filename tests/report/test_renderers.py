"""The same table in every form: what is printed is what was measured, and no label can break the form."""

import csv
import io
import re

import pytest
from rich.console import Console

from tests.report.folders import PRESET, broken_runs, digits_runs, settings, write_run
from xcnorm.engine.presets import load_preset
from xcnorm.report import build, find_runs, renderers

NASTY = r"a|b_c & 50% <script>$x$ \best{1} #~^"


@pytest.fixture
def report(tmp_path):
    (tmp_path / "table.toml").write_text(PRESET)
    digits_runs(tmp_path / "runs", notes={"mnist_m": "28-pixel copy, upsampled"})
    broken_runs(tmp_path / "runs")
    return build(find_runs(tmp_path / "runs"), load_preset(tmp_path / "table.toml"))


@pytest.fixture
def nasty(tmp_path):
    write_run(tmp_path, settings(seed=0, label=NASTY), {"opt_digits|": 0.5})
    return build(find_runs(tmp_path))


def printed(report, width=140, **options) -> str:
    console = Console(file=io.StringIO(), width=width, **options)
    for part in renderers.terminal(report):
        console.print(part)
    return console.file.getvalue()


def test_terminal(report):
    out = printed(report)
    lines = [line.split() for line in out.replace(" ± ", "±").splitlines()]
    assert ["R-XCNorm", "71.00±1.00", "74.00±1.00", "80.00±1.00", "75.00±1.00"] in lines
    assert ["paper", "75.25", "60.00", "82.00", "72.42"] in lines
    assert ["gap", "−4.25", "+14.00", "−2.00", "+2.58"] in lines
    assert "MetaCNN (published)" in out
    assert "R-XCNorm + RC (not run)" in out
    assert "28-pixel copy, upsampled" in out
    assert "Not in this report: 8 runs" in out
    assert "out of memory on cuda:0" in out


def test_terminal_marks_the_best(report):
    out = printed(report, force_terminal=True, color_system="standard")
    assert re.search(r"\x1b\[1;4m80\.00 ± 1\.00", out)  # bold and underlined
    assert re.search(r"\x1b\[4m74\.00 ± 1\.00", out)  # underlined


def test_a_narrow_terminal_cuts_no_number(report):
    words = printed(report, width=60).split()
    for number in ("71.00", "74.00", "80.00", "75.00", "72.42", "+14.00"):
        assert number in words


def test_terminal_takes_labels_literally(tmp_path):
    write_run(tmp_path, settings(seed=0, label="[red]x[/nope]"), {"optdigits": 0.5})
    assert "[red]x[/nope]" in printed(build(find_runs(tmp_path)))


def test_terminal_takes_no_orders_from_labels(tmp_path):
    write_run(tmp_path, settings(seed=0, label="\x1b]0;run\x07"), {"opt\x1b[2J": 0.5})
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "failed.txt").write_text("no \x1b[8m")
    text = printed(build(find_runs(tmp_path)))
    assert "�]0;run" in text
    assert "\x1b" not in text


def test_markdown(report):
    text = renderers.markdown(report)
    assert "| R-XCNorm | <u>71.00 ± 1.00</u> | <u>74.00 ± 1.00</u> | <u>**80.00 ± 1.00**</u> |" in text
    assert "| *gap* | *−4.25* | *+14.00* | *−2.00* | *+2.58* |" in text
    assert "- ¹ 28-pixel copy, upsampled" in text
    assert "## Not in this report: 8 runs" in text


def test_markdown_tables_keep_their_columns(nasty):
    table = [line for line in renderers.markdown_table(nasty.tables[0]).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {4}
    assert "<script>" not in "".join(table).replace(r"\<", "")


def test_latex(report):
    text = renderers.latex_table(report.tables[0])
    assert r"MetaCNN\textsuperscript{2} & 66.50 & \best{88.27} & \second{70.00} & \second{74.92} \\" in text
    assert r"\second{71.00 $\pm$ 1.00}" in text
    assert r"\quad gap & $-$4.25 & +14.00 & $-$2.00 & +2.58 \\" in text
    assert text.count(r"\midrule") == 2  # below the head, and between published rows and ours
    for command in (r"\toprule", r"\bottomrule", r"\begin{tabular}{lrrrr}", r"\end{table}"):
        assert command in text


def test_latex_escapes_everything(nasty):
    row = next(line for line in renderers.latex_table(nasty.tables[0]).splitlines() if line.startswith("a|b"))
    assert row.startswith(
        r"a|b\_c \& 50\% \textless{}script\textgreater{}\$x\$ \textbackslash{}best\{1\} "
        r"\#\textasciitilde{}\textasciicircum{} & 50.00"
    )


def test_csv_has_every_number_unrounded(report):
    rows = list(csv.DictReader(io.StringIO(renderers.csv(report))))
    row = next(row for row in rows if (row["row"], row["column"]) == ("R-XCNorm", "average"))
    assert float(row["value"]) == pytest.approx(75.0, abs=1e-9)
    assert float(row["gap"]) == pytest.approx(2.58, abs=1e-9)
    assert (row["seeds"], row["origin"], row["unit"]) == ("3", "measured", "accuracy in percent")
    unmeasured = next(row for row in rows if (row["row"], row["column"]) == ("R-XCNorm + RC", "mnist_m"))
    assert unmeasured["value"] == ""
    assert unmeasured["origin"] == "not run"
    assert "28-pixel copy, upsampled" in unmeasured["notes"]


def test_csv_survives_any_label(nasty):
    rows = list(csv.DictReader(io.StringIO(renderers.csv(nasty))))
    assert {row["row"] for row in rows} == {NASTY}
