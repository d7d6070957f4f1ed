"""Figures show what the runs say, in every form, and come out the same twice."""

import re
import sys
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from tests.report.folders import DIGITS, digits_runs, grid_runs, write_predictions
from xcnorm import data
from xcnorm.errors import UserError
from xcnorm.report import build, charts, figures, find_runs
from xcnorm.report.charts import Chart, Series
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
    paths = figures.save_chart(chart, tmp_path / "mrs")
    assert [path.name for path in paths] == ["mrs.png", "mrs.svg", "mrs_dark.png", "mrs_dark.svg"]
    for path, palette in ((paths[0], LIGHT), (paths[2], DARK)):
        picture = Image.open(path).convert("RGB")
        assert picture.getpixel((2, 2)) == rgb(palette.page)
        colours = {colour for _, colour in picture.getcolors(1 << 20)}
        assert {rgb(palette.series[0]), rgb(palette.series[1])} <= colours
        assert min(picture.size) >= 600
    assert ElementTree.parse(paths[1]).getroot().tag.endswith("svg")


CURVE = Chart(
    "curve",
    "A <curve>",
    "x",
    "y",
    (
        Series("<b>ours</b>", (0, 1, 3), (1.0, 4.0, 2.0), (1.0, 4.0, 2.0), (1.0, 4.0, 2.0)),
        Series("paper", (0, 3), (2.0, 1.5), (2.0, 1.5), (2.0, 1.5), colour=9, dashed=True),
    ),
    ticks=("zero", "<one>", "two\x07", "$three$"),
)


def lines(svg: str) -> dict[str, np.ndarray]:
    """The curves of a chart by colour: their points, in the units of the element."""
    found = {}
    for path in ElementTree.fromstring(svg).iter("path"):
        if "fill: none" in path.get("style", "") and "--s" in path.get("style", ""):
            colour = path.get("style").split("stroke: ")[1].split(";")[0]
            found[colour] = np.array(path.get("d").replace("M", "").replace("L", "").split(), float).reshape(-1, 2)
    return found


def test_a_chart_on_the_page_shows_the_numbers():
    svg, places = figures.inline_chart(CURVE, "one")
    drawn = lines(svg)
    assert list(drawn) == ["var(--s0)", "var(--s1)"]  # colours start over
    assert np.allclose(drawn["var(--s0)"][:, 0], places, atol=0.1)
    x = np.concatenate([np.array(series.x) for series in CURVE.series])
    y = np.concatenate([np.array(series.y) for series in CURVE.series])
    points = np.concatenate(list(drawn.values()))
    for numbers, drawn_at, upwards in ((x, points[:, 0], 1), (y, points[:, 1], -1)):
        slope, start = np.polyfit(numbers, drawn_at, 1)
        assert slope * upwards > 10
        assert np.allclose(slope * numbers + start, drawn_at, atol=0.01)


def test_a_chart_on_the_page_has_the_pages_colours_and_takes_texts_literally():
    svg, _ = figures.inline_chart(CURVE, "one")
    root = ElementTree.fromstring(svg)
    styles = " ".join(element.get("style", "") for element in root.iter())
    assert "#" not in styles
    assert {"var(--s0)", "var(--s1)", "var(--ink)", "var(--faint)"} <= set(re.findall(r"var\(--\w+\)", styles))
    texts = [text.text for text in root.iter("text")]
    assert {"zero", "<one>", "two\N{REPLACEMENT CHARACTER}", "$three$", "x", "y"} <= set(texts)
    assert root.find(".//one") is None
    assert root.get("aria-label") == "A <curve>"
    assert {element.tag for element in root.iter()}.isdisjoint({"style", "metadata", "script", "b"})
    names = {element.get("id") for element in root.iter() if "id" in element.attrib}
    assert names == {reference.get("href").removeprefix("#") for reference in root.iter("use")}
    other, _ = figures.inline_chart(CURVE, "two")
    assert names.isdisjoint(element.get("id") for element in ElementTree.fromstring(other).iter())
    assert figures.inline_chart(CURVE, "one")[0] == svg


@pytest.mark.parametrize(
    ("losses", "shown"),
    [
        ((2.0, 0.06), {"0.1", "0.2", "0.5", "1", "2"}),
        ((0.9, 0.5), {"0.5", "0.6", "0.9"}),
        ((5.0, 1e-5), {"0.0001", "1"}),
    ],
)
def test_losses_are_marked_by_plain_numbers(losses, shown):
    chart = Chart("c", "c", "step", "loss", (Series("a", (1, 2), losses, losses, losses),), logarithmic=True)
    svg, _ = figures.inline_chart(chart, "c")
    texts = {text.text for text in ElementTree.fromstring(svg).iter("text")}
    assert shown <= texts
    assert all(re.fullmatch(r"[\d.e-]+|step|loss", text) for text in texts)


def test_the_same_chart_gives_the_same_files(tmp_path):
    chart = charts.functions()[0]
    first = [path.read_bytes() for path in figures.save_chart(chart, tmp_path / "welsch")]
    again = [path.read_bytes() for path in figures.save_chart(chart, tmp_path / "welsch")]
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
    paths = figures.save_sheet(sheet, tmp_path / "sheet")
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


def test_predictions_of_objects_and_bombs_are_refused(tmp_path):
    digits_runs(tmp_path, seeds=(0,))
    section = build(find_runs(tmp_path)).sections[0]
    for arm in section.arms:
        write_predictions(arm.runs[0].folder, {"source": np.zeros(1000, np.int64)}, 1.0)
    path = section.arms[0].runs[0].folder / "predictions.npz"
    np.savez(path, **{"labels/source": np.array([{}], object)})
    with pytest.raises(UserError, match="holds Python objects"):
        make_sheet(section, "last")
    with zipfile.ZipFile(path, "w") as archive, archive.open("labels/source.npy", "w") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (2**40,)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(UserError, match=r"has 0 bytes for an array .*; test the run again: xcnorm evaluate"):
        make_sheet(section, "last")
