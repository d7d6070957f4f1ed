"""The model card of a network: what a person reads first in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xcnorm.errors import one_line
from xcnorm.models.about import About

_MANY = 20  # names of classes that one may want to read


def write_card(description: Mapping[str, Any], about: About, parameters: int, metrics: Mapping[str, float]) -> str:
    """The card, in Markdown with the lines in front that model hubs read.

    Args:
        description: Of the network.
        about: What else is known of it.
        parameters: How many numbers it has learnt.
        metrics: Scores between 0 and 1, by the name of what they were measured on.
    """
    network = description["network"]
    rows = [
        ("Network", f"`{network['name']}`, `layer={network['layer']!r}`" if network else about.network or "your own")
    ]
    if network:
        fixed = ("name", "layer", "num_classes", "in_channels")
        options = {name: value for name, value in network.items() if name not in fixed and value is not None}
        rows += [("Options", ", ".join(f"`{name}={value!r}`" for name, value in options.items()))] * bool(options)
    rows += [("Converted layers", str(len(description["layers"])))] * bool(description["layers"])
    rows += [("Learnt numbers", f"{parameters:,}")]
    rows += [("Trained on", about.trained_on)] * bool(about.trained_on)
    rows += [("Pixels", f"{about.pixels} x {about.pixels}")] * bool(about.pixels)
    if about.mean is not None and about.std is not None:
        rows.append(("Normalisation", f"mean {_listed(about.mean)}, std {_listed(about.std)}, of values from 0 to 1"))
    if about.classes:
        more = f" and {len(about.classes) - _MANY} more" if len(about.classes) > _MANY else ""
        rows.append(("Classes", ", ".join(about.classes[:_MANY]) + more))
    lines = ["---", "library_name: xcnorm", "tags:", "- image-classification", "- domain-generalization", "---", ""]
    lines += [f"# {_cell(about.network) or 'A network'}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(text)} |" for name, text in rows]
    if metrics:
        lines += ["", "| tested on | percent |", "|---|---|"]
        lines += [f"| {_cell(name)} | {100 * value:.2f} |" for name, value in metrics.items()]
    given = '"FOLDER"' if network else '"FOLDER", model=before'  # its conversion
    lines += [
        "",
        "```python",
        "import xcnorm",
        "",
        f"network = xcnorm.from_pretrained({given})",
    ]
    lines += ["```", "", f"Written by xcnorm {about.version}. Loading it runs no code of this folder."]
    return "\n".join(lines) + "\n"


def _listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def _cell(text: str) -> str:
    """A text as a cell of a table: a name may be anybody's."""
    return one_line(text, 1000).replace("|", "\\|").replace("<", "&lt;")
