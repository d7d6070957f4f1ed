"""Figures show what the runs say, in every form, and come out the same twice."""

import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from tests.report.folders import DIGITS, digits_runs, grid_runs, write_predictions
from xcnorm import data
from xcnorm.errors import UserError
from xcnorm.report import build, charts, figures, find_runs
from xcnorm.report.palette import DARK, LIGHT
from xcnorm.report.sheets import make_sheet

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("report_figures")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Runs on digits-mini, of which ERM's predictions are half right and R-XCNorm's all."""
    root = tmp_path_factory.mktemp("runs")
    digits_runs(root, seeds=(0,))
    benchmark = data.load("digits-mini")
    labels = {"source": benchmark.validation.labels.numpy()}
    labels |= {f"targets/{name}": domain.labels.numpy() for name, domain in benchmark.targets.items()}
    for run in find_runs(root).finished:
        right = {"conv": 0.5, "xcnorm": 0.7, "r_xcnorm": 1.0}[run.config["model"]["layer"]]
        write_predictions(run.folder, labels, right)
    return root


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def test_a_chart_is_drawn_for_light_and_dark_pages(tmp_path):
    grid_runs(tmp_path / "runs", seeds=(0,))
    chart = build(find_runs(tmp_path / "runs")).sections[0].charts[1]
    paths = figures.draw_chart(chart, tmp_path / "mrs")
    assert [path.name for path in paths] == ["mrs.png", "mrs.svg", "mrs_dark.png", "mrs_dark.svg"]
    for path, palette in ((paths[0], LIGHT), (paths[2], DARK)):
        picture = Image.open(path).convert("RGB")
        assert picture.getpixel((2, 2)) == rgb(palette.page)
        colours = {colour for _, colour in picture.getcolors(1 << 20)}
        assert {rgb(palette.series[0]), rgb(palette.series[1])} <= colours
        assert min(picture.size) >= 600
    assert ElementTree.parse(paths[1]).getroot().tag.endswith("svg")


def test_the_same_chart_gives_the_same_files(tmp_path):
    chart = charts.functions()[0]
    first = [path.read_bytes() for path in figures.draw_chart(chart, tmp_path / "welsch")]
    again = [path.read_bytes() for path in figures.draw_chart(chart, tmp_path / "welsch")]
    assert first == again


def test_the_functions_are_the_papers():
    welsch, sharpening = charts.functions()
    for series in welsch.series:
        c = float(series.name.removeprefix("c = "))
        z = np.array(series.x)
        assert np.allclose(series.y, c * (1 - np.exp(-(z**2) / (2 * c**2))), atol=1e-6)
    for series in sharpening.series:
        tau = float(series.name.removeprefix("τ = "))
        assert np.allclose(series.y, np.maximum(0, np.array(series.x)) ** tau, atol=1e-5)


def test_a_contact_sheet_shows_the_first_arm_and_the_best(digits, tmp_path):
    section = build(find_runs(digits)).sections[0]
    sheet = make_sheet(section, "last")
    assert list(sheet.rows) == ["source", *DIGITS]
    for pictures in sheet.rows.values():
        assert [picture.truth for picture in pictures] == list("01234567")
        for picture in pictures:
            erm, ours = picture.guesses
            assert (erm.arm, ours.arm) == ("ERM", "R-XCNorm")
            assert ours.right
            assert ours.name == picture.truth
            assert erm.right == (erm.name == picture.truth)
            assert ours.confidence == pytest.approx(0.82, abs=1e-3)
            assert picture.pixels.shape == (32, 32, 3)
    assert any(not picture.guesses[0].right for pictures in sheet.rows.values() for picture in pictures)
    paths = figures.draw_sheet(sheet, tmp_path / "sheet")
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_a_contact_sheet_needs_fitting_predictions(tmp_path):
    digits_runs(tmp_path, seeds=(0,))
    section = build(find_runs(tmp_path)).sections[0]
    with pytest.raises(UserError, match=r"predictions\.npz is missing"):
        make_sheet(section, "last")
    for arm in section.arms:
        write_predictions(arm.runs[0].folder, {"source": np.zeros(1000, np.int64)}, 1.0)
    with pytest.raises(UserError, match="was made on other images of source"):
        make_sheet(section, "last")
    (section.arms[0].runs[0].folder / "predictions.npz").write_bytes(b"PK nothing")
    with pytest.raises(UserError, match=r"predictions\.npz is damaged"):
        make_sheet(section, "last")


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match=r'pip install "xcnorm\[report\]"'):
        figures.require_matplotlib()
