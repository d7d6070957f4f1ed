"""Accessibility of a page that a browser shows, as axe-core finds it."""

import json
from importlib.resources import files

from tests.report.browser import Browser

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa")


def violations(browser: Browser) -> list[str]:
    """What breaks WCAG 2.1, level A or AA, on the page that is open: the rule, and an element that breaks it."""
    browser.evaluate((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8") + "; true")
    options = json.dumps({"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]})
    found = browser.evaluate(f"axe.run(document, {options})")
    assert len(found["passes"]) > 5  # it has looked
    return [
        f"{one['id']}: {node['html']}: {node['failureSummary']}" for one in found["violations"] for node in one["nodes"]
    ]


def everywhere(browser: Browser) -> list[str]:
    """The same, of the page on a wide screen, where it is light, and on a telephone, where it is dark."""
    found = []
    for width, light in ((1280, "light"), (360, "dark")):
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": light}])
        browser.wait_for(f"innerWidth === {width} && document.documentElement.dataset.theme === '{light}'")
        found += [f"{light}, {width} pixels: {violation}" for violation in violations(browser)]
    browser.call("Emulation.clearDeviceMetricsOverride")
    return found
