"""The playground's page in a real browser: what a visitor does, and what she gets to see."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.accessibility import everywhere
from tests.playground.conftest import CLASSES, LABELS, TARGET
from tests.playground.test_pictures import BAD
from tests.report.browser import Browser, find_chromium
from xcnorm.playground import PlaygroundServer
from xcnorm.playground.controls import CONTROLS, PRESETS

pytestmark = [
    pytest.mark.xdist_group("playground"),
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium here; install Debian's package chromium"),
]

GUESSES = "[...document.querySelectorAll('.network')].map(n => n.querySelector('.guess').firstChild?.textContent)"
CHECKS = "[...document.querySelectorAll('.check')].map(check => check.textContent)"
READY = "document.querySelector('.check:not(:empty)')?.textContent"
MOVED = "[...document.querySelectorAll('.responses b')].map(moved => moved.textContent)"
VALUES = (
    "Object.fromEntries([...document.querySelectorAll('#controls input')].map(i => [i.id.slice(8), i.valueAsNumber]))"
)
TROUBLE = "document.querySelector('#trouble').textContent"


@contextmanager
def serving(playground, port: int = 0) -> Iterator[PlaygroundServer]:
    with PlaygroundServer(playground, port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(find_chromium() or "", tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture
def page(playground, browser):
    """The page, when a one has been looked at."""
    with serving(playground) as server:
        visit(browser, server)
        yield browser


def visit(browser, server) -> None:
    browser.open(server.address)
    settled(browser, [READY])
    browser.evaluate("document.querySelectorAll('[name=sample]')[1].click()")
    settled(browser, ["document.querySelector('#truth').textContent === 'As it was: 1'"])


def settled(browser, conditions) -> None:
    """Wait until the page is as it should be."""
    for condition in conditions:
        browser.wait_for(condition)


def press(browser, preset: str) -> None:
    places = "[...document.querySelectorAll('#presets button')]"
    browser.evaluate(f"{places}.find(button => button.textContent === {json.dumps(preset)}).click()")


def test_one_click_shows_what_it_is_about(page):
    """An inverted digit: the plain network is wrong, and ours does not even notice."""
    assert page.evaluate(GUESSES) == ["1", "1"]
    assert page.evaluate(CHECKS) == ["✓ right", "✓ right"]
    press(page, "Inverted")
    settled(page, [f"{MOVED}[0] !== '0 %'"])
    assert page.evaluate(CHECKS) == ["✗ wrong: it is 1", "✓ right"]
    assert page.evaluate(MOVED)[1] == "0 %"
    assert page.evaluate("document.querySelectorAll('#presets [aria-pressed=true]').length") == 1
    assert page.evaluate("document.querySelector('#before').src !== document.querySelector('#now').src")
    page.click("#reset")
    settled(page, [f"{MOVED}[0] === '0 %'"])
    assert page.evaluate(VALUES) == {name: control.rest for name, control in CONTROLS.items()}
    # Told to those who do not see it, once the sliders rest.
    told = page.wait_for("document.querySelector('#told').textContent")
    assert re.search(r"plain: 1, \d+ % ✓; R-XCNorm.*: 1, \d+ % ✓", told)


def test_every_preset_sets_its_sliders(page):
    for preset, changes in PRESETS.items():
        press(page, preset)
        assert page.evaluate(VALUES) == {name: control.rest for name, control in CONTROLS.items()} | dict(changes)


def test_everything_can_be_reached_and_moved_by_the_keyboard(page):
    reached = []
    for _ in range(40):
        page.press("Tab", 9)
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.name"))
    wanted = {"theme", "canvas", "clear", "file", "sample", "reset", *(f"control-{name}" for name in CONTROLS)}
    assert wanted <= set(reached)
    page.evaluate("document.querySelector('#control-inversion').focus()")
    page.press("End", 35)
    settled(page, [f"{CHECKS}[0].startsWith('✗')"])
    assert page.evaluate("document.querySelector('#control-inversion').getAttribute('aria-valuetext')") == "100 %"
    page.press("Home", 36)
    page.evaluate("document.querySelector('[name=sample]:checked').focus()")
    page.press("ArrowRight", 39)
    settled(page, [f"document.querySelector('#truth').textContent === 'As it was: ' + {json.dumps(CLASSES[2])}"])
    # A drawing: the pen down in the middle, then upwards.
    page.evaluate("document.querySelector('#canvas').focus()")
    page.press(" ", 32, " ")
    for _ in range(8):
        page.press("ArrowUp", 38)
    settled(page, ["document.querySelector('#truth').textContent === 'As it was'"])
    assert page.evaluate("document.querySelector('[name=sample]:checked')") is None


def test_what_is_drawn_is_looked_at(page):
    x, y = page.middle("#canvas")
    before = page.evaluate("document.querySelector('#before').src")
    for kind, dy in (("mousePressed", -50), ("mouseMoved", 0), ("mouseMoved", 50), ("mouseReleased", 50)):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y + dy, button="left", buttons=1, clickCount=1)
    settled(page, [f"document.querySelector('#before').src !== {json.dumps(before)}", f"{GUESSES}[0] === '1'"])
    assert page.evaluate(GUESSES) == ["1", "1"]  # a stroke is a one
    assert page.evaluate(CHECKS) == ["", ""]  # but who knows what was meant
    page.click("#clear")
    settled(page, ["document.querySelector('#before').naturalWidth"])


def upload(browser, path) -> None:
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    node = browser.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])


def test_a_file_is_looked_at_and_a_bad_one_is_one_line(page, tmp_path, runs):
    (tmp_path / "<img src=x onerror=alert(4)>.png").write_bytes(BAD["a bomb"])
    upload(page, tmp_path / "<img src=x onerror=alert(4)>.png")
    settled(page, [TROUBLE])
    assert page.evaluate(TROUBLE) == (
        "That did not work: this file is a picture of more than 40,000,000 pixels; make it smaller."
    )
    upload(page, sorted((runs.parent / "data" / "digits" / "0").iterdir())[0])
    settled(page, [f"{GUESSES}.join() === '0,0'", f"!{TROUBLE}"])


def test_hostile_names_are_words_and_nothing_else(page):
    page.evaluate("document.querySelectorAll('[name=sample]')[2].click()")
    settled(page, [f"document.querySelector('#truth').textContent.includes({json.dumps(CLASSES[2])})"])
    words = page.evaluate("document.body.textContent")
    for name in (CLASSES[2], TARGET, LABELS["conv"], "R-XCNorm\N{REPLACEMENT CHARACTER}[2J"):
        assert name in words
    assert (
        page.evaluate("document.querySelectorAll('main script, main b[onclick], img[onerror], img[src=x]').length") == 0
    )


def test_nothing_is_loaded_from_elsewhere_and_nothing_complains(page):
    settled(page, ["[...document.images].every(image => image.complete)"])
    addresses = {url for url in page.requests if url.startswith("http")}
    assert {re.sub(r":\d+/.*", "", url) for url in addresses} == {"http://127.0.0.1"}
    assert page.complaints == []
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert page.evaluate("window.ran") is None  # the policy, of which the browser now complains
    assert "Content Security Policy" in str(page.complaints)


def test_nothing_sticks_out_on_a_telephone(page):
    page.call("Emulation.setDeviceMetricsOverride", width=320, height=640, deviceScaleFactor=1, mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.evaluate("getComputedStyle(document.querySelector('#seen')).position") == "sticky"
    page.call("Emulation.clearDeviceMetricsOverride")


def test_the_page_is_accessible(page):
    assert everywhere(page) == []
    press(page, "Inverted")
    settled(page, [f"{CHECKS}[0].startsWith('✗')"])
    assert everywhere(page) == []


def test_a_server_that_has_gone_is_told_and_one_that_is_back_goes_on(playground, browser):
    with serving(playground) as server:
        visit(browser, server)
        port = server.server_port
    press(browser, "Inverted")
    settled(browser, [TROUBLE])
    assert browser.evaluate(TROUBLE).startswith("The server does not answer any more. Start xcnorm playground again")
    with serving(playground, port):
        settled(browser, [f"{CHECKS}[0].startsWith('✗')", f"!{TROUBLE}"])
