"""The methods of the tables on Digits, each by its published recipe: the numbers on the pages in docs/methods.

    xcnorm sweep methods/ada_digits --data DIR --device cuda --out runs --set run.graph=true
    xcnorm report runs --records results
    python -m benchmarks.methods results docs/methods

Writes the scores into the page of each method and all of them into ``index.md``, in the order of the paper's table 1,
between ``<!-- numbers -->`` and ``<!-- end numbers -->``.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.places import fill
from xcnorm.engine import load_preset
from xcnorm.engine.presets import PresetArm
from xcnorm.report import find_runs
from xcnorm.report.arms import asked_for
from xcnorm.report.runs import Run

NAMES = {"svhn": "SVHN", "mnist_m": "MNIST-M", "syn": "SYN", "syn_rendered": "SYN rendered", "usps": "USPS"}
SELECTIONS = {"last": "last weights", "best_on_source": "best on source"}


def write_pages(runs: Sequence[Run], folder: Path) -> None:
    """Put the scores of each method on its page, and the last weights' of all of them on ``index.md``.

    Raises:
        UserError: A page has no place for them.
    """
    overview: list[str] = []
    for row in load_preset("paper/table1_digits").arms:
        method = str(row.values.get("method", {}).get("name", "erm"))
        if row.values["model"].get("layer", "conv") != "conv" or row.values["model"].get("options"):
            continue  # the paper's own rows, and the control
        preset = load_preset(f"methods/{method}_digits")
        exact = asked_for(runs, preset)
        own = sorted((run for run in runs if run.folder in exact and _on_a_gpu(run)), key=lambda run: run.seed)
        if not own:
            continue
        fill(folder / f"{method}.md", _section(method, preset.arms[0], own), "numbers")
        columns = [name for name in NAMES if name in row.paper and name in own[0].targets("last")]
        overview = overview or [_line(["", *(NAMES[n] for n in columns)]), "|---" * (len(columns) + 1) + "|"]
        cells = [f"{_cell(_scores(own, 'last', name))} ({row.paper[name]:.1f})" for name in columns]
        overview.append(_line([f"[{row.label}]({method}.md)", *cells]))
    fill(folder / "index.md", "\n".join(overview), "numbers")


def _on_a_gpu(run: Run) -> bool:
    """One machine's runs make a row; a CPU adds numbers in another order."""
    return "NVIDIA" in str(run.environment["device"])


def _section(method: str, published: PresetArm, runs: Sequence[Run]) -> str:
    tested = runs[0].targets("last")
    columns = [name for name in NAMES if name in published.paper or name in tested]
    lines = [_line(["", *(NAMES[name] for name in columns), "MNIST"]), "|---|" + "---|" * (len(columns) + 1)]
    for rule, words in SELECTIONS.items():
        if all(rule in run.metrics["selection"] for run in runs):
            source = [100 * run.metrics["selection"][rule]["source"]["accuracy"] for run in runs]
            lines.append(_line([words, *(_cell(_scores(runs, rule, name)) for name in columns), _cell(source)]))
    printed = (f"{published.paper[name]:.1f}" if name in published.paper else "" for name in columns)
    lines.append(_line(["published", *printed, ""]))
    graph = " --set run.graph=true" if any(run.settings["run.graph"] for run in runs) else ""
    machine, seeds = runs[0].environment, ", ".join(str(run.seed) for run in runs)
    origin = (
        f"`xcnorm sweep methods/{method}_digits --data DIR{graph}`, seeds {seeds}, mean and standard deviation in "
        f"percent; {machine['device']}, torch {machine['torch']}, commit {machine['commit']}. SVHN is the "
        "28-pixel copy, brought back to 32; SYN itself was not at hand, SYN rendered is our own look-alike."
    )
    return "\n".join(lines) + "\n\n" + origin


def _scores(runs: Sequence[Run], rule: str, target: str) -> list[float]:
    found: list[Mapping[str, float]] = [run.targets(rule) for run in runs]
    return [targets[target] for targets in found if target in targets]


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="folder of records")
    parser.add_argument("folder", type=Path, help="the pages of the methods")
    given = parser.parse_args()
    write_pages(find_runs(given.records).finished, given.folder)


if __name__ == "__main__":
    main()
