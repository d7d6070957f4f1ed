"""Gates: what an audit must reach, for a build to fail when it does not; also as a JUnit file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from xcnorm.auditing.result import Audit
from xcnorm.errors import printable


@dataclass(frozen=True)
class Checked:
    """What a model must reach, and whether it does.

    Attributes:
        model: The model.
        what: What must be reached.
        failure: Why it is not; empty where it is.
    """

    model: str
    what: str
    failure: str = ""


def check(audit: Audit, fail_under: float | None = None, max_drop: float | None = None) -> list[Checked]:
    """Compare every model with thresholds.

    Args:
        audit: The audit.
        fail_under: The least accuracy over all corruptions and severities, in percent.
        max_drop: How many points it may lie below the accuracy on clean pictures.
    """
    checked = []
    for model in audit.models:
        if fail_under is not None:
            found = 100 * model.corrupted
            failure = (
                f"accuracy under corruptions is {found:.2f} %, less than {fail_under:g} %" if found < fail_under else ""
            )
            checked.append(Checked(model.name, f"accuracy under corruptions of {fail_under:g} % or more", failure))
        if max_drop is not None:
            found = 100 * model.drop
            failure = f"corruptions cost {found:.2f} points, more than {max_drop:g}" if found > max_drop else ""
            checked.append(Checked(model.name, f"a drop of {max_drop:g} points or less", failure))
    return checked


def junit(audit: Audit, checked: Sequence[Checked]) -> str:
    """A JUnit file: a suite for each model with its numbers, and a case for each threshold, or one that it was audited.

    Args:
        audit: The audit.
        checked: What `check` has found.
    """
    root = ElementTree.Element("testsuites", name="xcnorm audit")
    for model in audit.models:
        own = [one for one in checked if one.model == model.name] or [Checked(model.name, "was audited")]
        failures = str(sum(bool(one.failure) for one in own))
        suite = ElementTree.SubElement(
            root, "testsuite", name=printable(model.name), tests=str(len(own)), failures=failures, errors="0"
        )
        properties = ElementTree.SubElement(suite, "properties")
        numbers = {"clean": model.clean.accuracy, "corrupted": model.corrupted, **model.by_corruption}
        for name, value in numbers.items():
            ElementTree.SubElement(properties, "property", name=f"accuracy.{name}", value=f"{100 * value:.2f}")
        for one in own:
            case = ElementTree.SubElement(suite, "testcase", classname=printable(model.name), name=one.what)
            if one.failure:
                ElementTree.SubElement(case, "failure", message=one.failure)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
