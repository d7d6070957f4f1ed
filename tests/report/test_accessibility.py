"""The accessibility check that pages go through: it finds what a page should not have."""

import pytest

from tests.accessibility import violations
from tests.report.browser import Browser, find_chromium

pytestmark = pytest.mark.xdist_group("report_html")

PAGE = """<!doctype html><html><head><title>Bad</title></head><body><main><h1>Bad</h1><p style="color: #aaa">pale</p>
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><button></button><input><table><tr><td>1</td></tr></table>
<a href="#">here</a></main></body></html>"""


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium here; install Debian's package chromium")
def test_it_finds_what_is_wrong(tmp_path):
    (tmp_path / "bad.html").write_text(PAGE)
    with Browser(find_chromium() or "", tmp_path / "profile") as browser:
        browser.open(tmp_path / "bad.html")
        rules = {violation.split(":")[0] for violation in violations(browser)}
    assert {"color-contrast", "image-alt", "button-name", "label", "html-has-lang"} <= rules
