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


def in_both_lights(browser: Browser) -> list[str]:
    """The same, of the page when it is light and when it is dark."""
    found = []
    for light in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": light}])
        browser.wait_for(f"document.documentElement.dataset.theme === '{light}'")
        found += [f"{light}: {violation}" for violation in violations(browser)]
    return found
