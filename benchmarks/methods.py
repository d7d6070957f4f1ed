"""Every method of the tables on Digits, by its published recipe: the runs behind the numbers in docs/methods.

    xcnorm sweep methods/ada_digits --data DIR --device cuda --out runs --set run.graph=true
    python -m benchmarks.methods collect runs --out benchmarks/results/methods_digits_h200.json
    python -m benchmarks.methods pages benchmarks/results/methods_digits_h200.json docs/methods

``collect`` gathers finished runs of one machine into a file: each experiment's settings, seeds, scores and machine.
What the file has already stays in it, unless the same experiment is collected again.
``table`` writes the rows of a preset into a page, last weights on every target and the mean of the three real ones,
between ``<!-- PRESET -->`` and ``<!-- end PRESET -->``:

    python -m benchmarks.methods table beyond/digits benchmarks/results/beyond_digits_h200.json docs/methods/index.md

``pages`` writes the scores into the page of each method and all of them into ``index.md``, in the order of the paper's
table 1, between ``<!-- numbers -->`` and ``<!-- end numbers -->``.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xcnorm.engine import load_preset
from xcnorm.errors import UserError
from xcnorm.report.arms import Arm, group
from xcnorm.report.runs import find_runs, flatten

REAL = ("svhn", "mnist_m", "usps")
NAMES = {"svhn": "SVHN", "mnist_m": "MNIST-M", "syn": "SYN", "syn_rendered": "SYN rendered", "usps": "USPS"}
SELECTIONS = {"last": "last weights", "best_on_source": "best on source"}
HOW = ("run.precision", "run.compile", "run.graph", "run.channels_last")  # settings that change roundings and speed


def collect(folder: Path, commit: str | None) -> dict[str, Any]:
    """What finished runs below a folder say.

    Args:
        folder: The folder of runs.
        commit: Of the code that made them, where that machine had no git to ask.
    """
    runs = find_runs(folder)
    for broken in runs.broken:
        print(f"left out {broken.folder}: {broken.reason}")
    return {"arms": [_arm(arm, commit) for arm in group(runs.finished)]}


def _added(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Both results, without what was done anew of the older one."""
    anew = [arm["settings"] for arm in newer["arms"]]
    arms = [arm for arm in older["arms"] if arm["settings"] not in anew] + newer["arms"]
    return {"arms": sorted(arms, key=lambda arm: str(arm["label"]))}


def _arm(arm: Arm, commit: str | None) -> dict[str, Any]:
    first = arm.runs[0]
    rules = first.metrics["selection"]
    return {
        "label": first.config["label"],
        "settings": {name: value for name, value in first.settings.items() if name not in ("seed", "label")},
        "seeds": [run.seed for run in arm.runs],
        "targets": {rule: _columns([run.targets(rule) for run in arm.runs]) for rule in rules},
        "source": {
            rule: [round(100 * run.metrics["selection"][rule]["source"]["accuracy"], 2) for run in arm.runs]
            for rule in rules
        },
        "steps": first.metrics["steps"],
        "environment": {**first.environment, **({"commit": commit} if commit else {})},
        "notes": first.metrics["notes"],
    }


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {name: [round(row[name], 2) for row in rows] for name in rows[0]}


def write_pages(result: Mapping[str, Any], folder: Path) -> None:
    """Put the scores of each method on its page.

    Raises:
        UserError: A page has no place for them, or it is not clear which they are.
    """
    arms = [(str(arm["settings"]["method.name"]), arm) for arm in result["arms"] if _is_published(arm)]
    published = dict(arms)
    if len(published) < len(arms):
        raise UserError("a method's preset is there more than once, with other settings of run; keep one of them")
    for method, arm in published.items():
        fill(folder / f"{method}.md", _section(method, arm))
    fill(folder / "index.md", _overview(published))


def write_table(preset: str, result: Mapping[str, Any], page: Path) -> None:
    """Put the rows of a preset, as far as they were run, on a page."""
    arms = {arm["label"]: arm["targets"]["last"] for arm in result["arms"]}
    names = [name for name in NAMES if all(name in targets for targets in arms.values())]
    lines = ["| | " + " | ".join([*(NAMES[name] for name in names), "mean of the real three"]) + " |"]
    lines.append("|---" * (len(names) + 2) + "|")
    for label in (arm.label for arm in load_preset(preset).arms if arm.label in arms):
        targets = arms[label]
        means = [statistics.mean(seed) for seed in zip(*(targets[name] for name in REAL), strict=True)]
        lines.append(f"| {label} | " + " | ".join([*(_cell(targets[name]) for name in names), _cell(means)]) + " |")
    fill(page, "\n".join(lines), preset)


def fill(page: Path, section: str, what: str = "numbers") -> None:
    """Put something into a page, between ``<!-- WHAT -->`` and ``<!-- end WHAT -->``.

    Raises:
        UserError: The page has no such place.
    """
    text, begin, end = page.read_text(encoding="utf-8"), f"<!-- {what} -->", f"<!-- end {what} -->"
    if begin not in text or end not in text:
        raise UserError(f"{page} has no place for numbers: {begin} and {end}")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n\n{section}\n\n{end}{after}", encoding="utf-8")


def _overview(published: Mapping[str, Mapping[str, Any]]) -> str:
    """Last weights of every method beside what was published, on the targets that both have."""
    left, rows = dict(published), list[str]()
    for row in load_preset("paper/table1_digits").arms:
        method = row.values.get("method", {}).get("name", "erm")
        if (arm := left.pop(method, None)) is None:
            continue  # ERM on other layers, after ERM itself
        columns = [name for name in NAMES if name in row.paper and name in arm["targets"]["last"]]
        if not rows:
            rows = ["| | " + " | ".join(NAMES[name] for name in columns) + " |", "|---" * (len(columns) + 1) + "|"]
        cells = [f"{_cell(arm['targets']['last'][name])} ({row.paper[name]:.1f})" for name in columns]
        rows.append(f"| [{row.label}]({method}.md) | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _is_published(arm: Mapping[str, Any]) -> bool:
    """Whether an arm is that of its method's preset, however it was computed."""
    wanted = _settings(arm["settings"]["method.name"])
    ours = {name: value for name, value in arm["settings"].items() if not name.startswith("run.")}
    options = [name for name in wanted if name.startswith("method.options.")]  # one left out was another default
    return all(wanted.get(name) == value for name, value in ours.items()) and all(name in ours for name in options)


def _settings(method: str) -> dict[str, Any]:
    (experiment,) = load_preset(f"methods/{method}_digits").experiments({"seed": 0})
    return dict(flatten(json.loads(experiment.model_dump_json())))


def _section(method: str, arm: Mapping[str, Any]) -> str:
    (published,) = load_preset(f"methods/{method}_digits").arms
    columns = [name for name in NAMES if name in published.paper or name in arm["targets"]["last"]]
    lines = [
        "| | " + " | ".join(NAMES[name] for name in columns) + " | MNIST |",
        "|---|" + "---|" * (len(columns) + 1),
    ]
    for rule, words in SELECTIONS.items():
        if rule in arm["targets"]:
            cells = [_cell(arm["targets"][rule].get(name)) for name in columns]
            lines.append(f"| {words} | " + " | ".join(cells) + f" | {_cell(arm['source'][rule])} |")
    printed = [f"{published.paper[name]:.1f}" if name in published.paper else "" for name in columns]
    lines.append("| published | " + " | ".join(printed) + " | |")
    machine = arm["environment"]
    seeds = ", ".join(map(str, arm["seeds"]))
    preset = _settings(method)
    changed = {name: arm["settings"][name] for name in HOW if arm["settings"][name] != preset[name]}
    changes = "".join(f" --set {name}={json.dumps(value)}" for name, value in changed.items())
    origin = (
        f"`xcnorm sweep methods/{method}_digits --data DIR{changes}`, seeds {seeds}, mean and standard deviation in "
        f"percent; {machine['device']}, torch {machine['torch']}, commit {machine['commit']}. SVHN is the "
        "28-pixel copy, brought back to 32; SYN itself was not at hand, SYN rendered is our own look-alike."
    )
    return "\n".join(lines) + "\n\n" + origin


def _cell(values: Sequence[float] | None) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    gather = commands.add_parser("collect", help="gather finished runs into one file")
    gather.add_argument("runs", type=Path)
    gather.add_argument("--out", type=Path, required=True, help="JSON file to write, or to add to")
    gather.add_argument("--commit", help="of the code, where the machine that ran it had no git")
    table = commands.add_parser("table", help="write the rows of a preset into a page")
    table.add_argument("preset")
    table.add_argument("results", type=Path)
    table.add_argument("page", type=Path)
    pages = commands.add_parser("pages", help="write the scores into the pages of the methods")
    pages.add_argument("results", type=Path)
    pages.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "collect":
        result = collect(given.runs, given.commit)
        if given.out.exists():
            result = _added(json.loads(given.out.read_text(encoding="utf-8")), result)
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    elif given.command == "table":
        write_table(given.preset, json.loads(given.results.read_text(encoding="utf-8")), given.page)
    else:
        write_pages(json.loads(given.results.read_text(encoding="utf-8")), given.folder)


if __name__ == "__main__":
    main()
