"""The page on results: how far the paper's numbers were reproduced, and every file of results with its machine.

python -m benchmarks.results_page docs/results.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.methods import NAMES, REAL, is_published
from xcnorm.engine import load_preset

RESULTS = Path(__file__).parent / "results"
OURS = {  # arms of the paper's table on its own operators, and what was measured of them
    "XCNorm": ("xcnorm paper", "xcnorm"),
    "R-XCNorm": ("r_xcnorm paper", "influence, patch 3"),
}
SHOWN = {  # how the name of a file begins, what it is, and the page that shows it
    "beyond_digits": ("methods of later years by one short recipe", "methods/index.md#by-one-recipe"),
    "cifar10c": ("plain training on CIFAR-10-C, beside published numbers", "corruptions.md"),
    "corruptions": ("time of the corruptions", "corruptions.md"),
    "demo": ("the demo", "tutorial.md"),
    "digits": ("which options work, on Digits", "operator.md#which-options-work"),
    "exponentials": ("exponentials of the robust functions", "performance.md"),
    "layers": ("time and memory of layers", "performance.md"),
    "methods_digits": ("methods by their published recipes, on Digits", "methods/index.md#on-digits"),
    "methods": ("time of methods", "methods/index.md"),
    "models": ("time and memory of networks", "performance.md"),
    "softened": ("targets of softened pictures", "methods/randconv.md"),
    "versions": ("time of two versions of this package", "performance.md"),
}


def page() -> str:
    """The whole page."""
    return "\n\n".join([_HEAD, _reproduction(), _CIFAR, _cifar(), _FILES, _files()]) + "\n"


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _reproduction() -> str:
    """The rows of the paper's Digits table: ours, the paper's, and the gap, over the real targets that are here."""
    methods = {arm["settings"]["method.name"]: arm for arm in _read("methods_digits_h200")["arms"] if is_published(arm)}
    variants, rows = _read("digits_h200")["variants"], list[tuple[str, ...]]()
    for arm in load_preset("paper/table1_digits").arms:
        method, layer = arm.values.get("method", {}), arm.values.get("model", {}).get("layer", "conv")
        name = method.get("name", "erm")
        if not arm.paper or method.get("augment"):
            continue
        if arm.label in OURS:
            for words, key in zip(("as printed", "default"), OURS[arm.label], strict=True):
                runs = variants[key]["runs"]
                rows.append(_row(f"{arm.label}, {words}", {t: [run[t] for run in runs] for t in REAL}, arm.paper))
        elif layer == "conv" and name in methods:
            rows.append(_row(f"[{arm.label}](methods/{name}.md)", methods[name]["targets"]["last"], arm.paper))
    head = ("", *(NAMES[target] for target in REAL), "mean", "the paper's mean", "gap")
    return _table(head, rows)


def _row(label: str, targets: Mapping[str, list[float]], paper: Mapping[str, float]) -> tuple[str, ...]:
    means = [fmean(targets[target]) for target in REAL]
    ours, theirs = fmean(means), fmean(paper[target] for target in REAL)
    return label, *(f"{mean:.1f}" for mean in means), f"{ours:.1f}", f"{theirs:.1f}", f"{ours - theirs:+.1f}"


def _cifar() -> str:
    found = _read("cifar10c_h200")
    ours, theirs = found["accuracy"], found["published"]
    rows = [(name.replace("_", " "), f"{ours[name]:.1f}", f"{theirs[name]:.1f}") for name in ours]
    means = ("**mean of 19**", f"{fmean(ours.values()):.1f}", f"{fmean(theirs.values()):.1f}")
    return _table(("severity 5", "ours", "published"), [*rows, means])


def _files() -> str:
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        begins = max((name for name in SHOWN if path.stem.startswith(name)), key=len, default="")
        what = "[{}]({})".format(*SHOWN[begins]) if begins else ""
        found = json.loads(path.read_text(encoding="utf-8"))
        on = found.get("environment") or found["arms"][0]["environment"]
        commits = ", ".join(found.get("commits") or [on["commit"]])
        rows.append((f"`{path.name}`", what, str(on["device"]), str(on["torch"]), commits))
    return _table(("file", "what", "on", "torch", "commit"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ("---",) * len(head), *rows])


_HEAD = """# Results

What was measured, on which machine, by which commit, and how far it is from what was published. This page is written by
`python -m benchmarks.results_page docs/results.md` from files in the repository; the commands that made those stand on
the pages that show them, and at the top of the scripts in `benchmarks`.

## The paper's Digits table

Percent right, learned from the first 10,000 MNIST digits, last weights, means of three seeds, over the three real
targets that were at hand (SVHN is its 28-pixel copy, SYN was not there). ERM and the methods are trained by the recipe
each was published with, XCNorm and R-XCNorm by 2,500 steps of 128
([recipe and controls](operator.md#which-options-work)). The presets of the paper have not been run at full length
yet."""

_CIFAR = """## Plain training on CIFAR-10-C

A plain WRN-16-4, 40 epochs, one seed, under our own corruptions, beside the numbers that ERM has in the tables of the
literature: are our corruptions as hard? ([More](corruptions.md).)"""

_FILES = """## Every file"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.parse_args().page.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
