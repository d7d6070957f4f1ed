"""The page: complete without a network, safe whatever labels say, and alive in a real browser."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.accessibility import everywhere
from tests.report.browser import Browser, find_chromium
from tests.report.folders import PRESET, broken_runs, digits_runs, settings, write_run
from xcnorm.engine.presets import load_preset
from xcnorm.report import build, find_runs
from xcnorm.report.charts import functions
from xcnorm.report.html import html
from xcnorm.report.sheets import Guess, Picture, Sheet

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("report_html")

VOID = {"meta", "link", "img"}


class Page(HTMLParser):
    """Checks that elements close in order, and gathers what they are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def page_of(report) -> str:
    return html(report, ["not wanted"] * len(report.sections), functions())


@pytest.fixture(scope="module")
def preset_page(tmp_path_factory):
    root = tmp_path_factory.mktemp("preset")
    (root / "table.toml").write_text(PRESET)
    digits_runs(root / "runs", notes={"mnist_m": "28-pixel copy, upsampled"})
    broken_runs(root / "runs")
    return page_of(build(find_runs(root / "runs"), load_preset(root / "table.toml")))


def test_the_page_is_well_formed_and_stands_alone(preset_page):
    page = Page(preset_page)
    assert page.open == []
    links = [value for _, attrs in page.found for name, value in attrs.items() if name in ("src", "href")]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "url(" not in preset_page
    assert sum(tag == "style" for tag, _ in page.found) == 1  # none of a chart, which would hold for the whole page
    names = [attrs["id"] for _, attrs in page.found if "id" in attrs]
    assert len(names) == len(set(names))
    assert {link[1:] for link in links if link[1:] and link.startswith("#")} <= set(names)
    assert "@import" not in preset_page
    (policy,) = [attrs["content"] for tag, attrs in page.found if "http-equiv" in attrs]
    assert policy.startswith("default-src 'none'")


def test_the_page_says_everything(preset_page):
    words = " ".join(" ".join(Page(preset_page).words).split())
    for piece in (
        "paper 75.25 −4.25",
        "4 of 8 numbers of the paper are reached",
        "28-pixel copy, upsampled",
        "published",
        "Not in this report: 8 runs",
        "failed: out of memory on cuda:0",
        "There is no contact sheet: not wanted.",
        "400 steps in 12.3 s",
        'layer = "r_xcnorm"',
        "torch: 2.13.0",
    ):
        assert piece in words
    assert re.search(r'<span class="missed">−4\.25</span>', preset_page)
    assert re.search(r'<span class="reached">\+14\.00</span>', preset_page)
    assert re.search(r'<span class="best">80\.00</span>', preset_page)


def test_labels_cannot_become_markup(tmp_path):
    nasty = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
    why = "<b>none</b>"
    for layer in ("conv", "xcnorm"):
        config = settings(seed=0, label=nasty, model__layer=layer)
        write_run(
            tmp_path, config, {nasty: 0.5}, title=nasty, warnings=[nasty], missing={"x": why}, notes={nasty: nasty}
        )
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "failed.txt").write_text(nasty)
    text = page_of(build(find_runs(tmp_path)))
    page = Page(text)
    assert page.open == []
    assert {tag for tag, _ in page.found}.isdisjoint({"img"})
    assert "<script>alert" not in text
    assert why not in text
    assert sum(tag == "script" for tag, _ in page.found) == 2 + 1 + 1  # two functions, one chart, one for the page


def test_every_chart_says_what_it_is(preset_page):
    charts = [attrs for tag, attrs in Page(preset_page).found if tag == "svg"]
    titles = ["Convergence", "The Welsch function for several c", "Sharpening for several τ"]
    assert [(attrs["role"], attrs["aria-label"]) for attrs in charts] == [("img", title) for title in titles]


def test_the_oracle_is_announced(tmp_path):
    folder = write_run(tmp_path, settings(seed=0), {"optdigits": 0.5})
    path = folder / "metrics.json"
    path.write_text(path.read_text().replace('"last"', '"oracle"'))
    text = page_of(build(find_runs(tmp_path), selection="oracle"))
    assert "<b>Diagnostic.</b> These weights were chosen by looking at the targets." in text


def order(browser, table: int) -> list[str]:
    rows = f"[...document.querySelectorAll('table')[{table}].tBodies[0].rows]"
    labels: list[str] = browser.evaluate(f"{rows}.map(row => row.cells[0].dataset.value)")
    return labels


def test_the_page_lives_in_a_browser(preset_page, tmp_path):
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium here (looked for chromium, chromium-browser and google-chrome)")
    path = tmp_path / "report.html"
    path.write_text(preset_page, encoding="utf-8")
    with Browser(chromium, tmp_path / "profile") as browser:
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        browser.open(path)

        # Dark because the system says so; light because the reader does.
        ground = "getComputedStyle(document.body).backgroundColor"
        assert browser.evaluate(ground) == "rgb(21, 24, 29)"
        browser.click("#theme")
        assert browser.evaluate(ground) == "rgb(244, 246, 248)"
        browser.click("#theme")
        assert browser.evaluate(ground) == "rgb(21, 24, 29)"

        # Sorting by a click: best first, then worst first; what is missing stays last.
        assert order(browser, 0) == ["MetaCNN", "ERM", "R-XCNorm", "R-XCNorm + RC"]
        browser.click("table th:nth-child(2) button")
        assert order(browser, 0) == ["R-XCNorm + RC", "R-XCNorm", "MetaCNN", "ERM"]
        browser.click("table th:nth-child(2) button")
        assert order(browser, 0) == ["ERM", "MetaCNN", "R-XCNorm", "R-XCNorm + RC"]
        assert browser.evaluate("document.querySelector('table th:nth-child(2)').ariaSort") == "ascending"
        browser.click("table th:nth-child(3) button")
        assert order(browser, 0) == ["MetaCNN", "R-XCNorm", "ERM", "R-XCNorm + RC"]
        # By the keyboard: the names.
        browser.evaluate("document.querySelector('table th:first-child button').focus()")
        browser.press("Enter", 13, "\r")
        assert order(browser, 0) == ["ERM", "MetaCNN", "R-XCNorm", "R-XCNorm + RC"]

        # Hovering over the curves shows the values of the nearest step, as the runs have them.
        tip = "document.querySelector('.chart .tip')"
        assert browser.evaluate(f"{tip}.hidden")
        x, y = browser.middle(".chart svg")
        browser.hover(x, y)
        assert not browser.evaluate(f"{tip}.hidden")
        title, erm, ours = browser.evaluate(f"[...{tip}.children].map(line => line.textContent)")
        step = int(title.removeprefix("training step "))
        assert 180 <= step <= 240
        assert re.fullmatch(r"● ERM: [01]\.\d{4} \([01]\.\d{4} to [01]\.\d{4}\)", erm)
        assert ours.startswith("● R-XCNorm: 0.")
        # The line stands where the step is on the axis: as far behind 200 as it is in steps.
        ticks = "[...document.querySelectorAll('.chart svg text')].map(t => [t.textContent, t.getBoundingClientRect()])"
        places = browser.evaluate(f"{ticks}.map(([name, box]) => [name, box.x + box.width / 2])")
        at = {int(name): x for name, x in places if name in ("100", "200", "300")}
        line = browser.evaluate("document.querySelector('.chart .cross').getBoundingClientRect().x")
        assert line == pytest.approx(at[200] + (step - 200) * (at[300] - at[100]) / 200, abs=1.5)
        browser.evaluate("document.querySelector('.chart').focus()")
        browser.press("ArrowRight", 39)
        assert browser.evaluate(f"{tip}.firstChild.textContent") == f"training step {step + 20}"
        browser.hover(x, y + 2000)
        browser.press("Escape", 27)
        assert browser.evaluate(f"{tip}.hidden")

        # Nothing sticks out of the page on a telephone.
        browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390

        assert browser.complaints == []
        assert {url.split(":")[0] for url in browser.requests} <= {"file", "data"}
        assert [url for url in browser.requests if url.startswith("file:")] == [path.as_uri()]


def test_the_page_is_accessible(preset_page, tmp_path):
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium here (looked for chromium, chromium-browser and google-chrome)")
    write_run(tmp_path / "runs", settings(seed=0), {"optdigits": 0.5})
    picture = Picture(
        np.zeros((32, 32, 3), np.uint8), "3", (Guess("ERM", "8", 0.9, False), Guess("ours", "3", 1, True))
    )
    sheet = Sheet("ERM (above) and ours (below)", {"source": (picture,) * 8, "mnist_m": (picture,) * 8})
    pages = {"table": preset_page, "sheet": html(build(find_runs(tmp_path / "runs")), [sheet], functions())}
    with Browser(chromium, tmp_path / "profile") as browser:
        for name, text in pages.items():
            (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
            browser.open(tmp_path / f"{name}.html")
            assert everywhere(browser) == []
