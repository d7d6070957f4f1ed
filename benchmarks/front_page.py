"""The front page: the picture and the table of README.md, from the runs of the demo.

    make demo
    python -m benchmarks.front_page xcnorm-demo/runs

writes the records of the runs into ``results``, the table between ``<!-- demo -->`` and
``<!-- end demo -->``, and ``docs/front.png``: one held-out digit in four looks, and what the plain and the R-XCNorm
network take it for. It is the first digit that shows the difference: both networks know it as it is and pale, the plain
one is wrong about the other two, R-XCNorm is right. How often each of them is right on all such digits stands below.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.places import fill
from xcnorm.data import Domain, load
from xcnorm.engine import load_preset
from xcnorm.report.palette import LIGHT
from xcnorm.report.records import write_record
from xcnorm.report.runs import Run, find_runs

TARGETS = {
    "optdigits": "optdigits",
    "mnist_m": "blended into photographs",
    "syn_rendered": "rendered from fonts",
    "inverted": "inverted",
    "low_contrast": "low contrast",
}
LOOKS = {
    "source": "as in training",
    "low_contrast": "low contrast",
    "inverted": "inverted",
    "mnist_m": "on a photograph",
}
SHOWN = {"plain convolutions": "Plain network", "R-XCNorm": "R-XCNorm network"}


def table(runs: Iterable[Run]) -> str:
    """The table of the front page: percent right on every target."""
    found = {str(run.config["label"]): run for run in runs}
    lines = ["| network | " + " | ".join(TARGETS.values()) + " |", "|---" * (len(TARGETS) + 1) + "|"]
    for label in (arm.label for arm in load_preset("demo").arms):
        scores = found[label].targets("last")
        lines.append(f"| {label} | " + " | ".join(f"{scores[name]:.1f}" for name in TARGETS) + " |")
    run = found["R-XCNorm"]
    steps, machine = run.metrics["steps"], run.environment
    origin = (
        f"`xcnorm demo`: {steps} training steps, seed {run.seed}, percent of each target; one thread of an "
        f"{machine['device']}, torch {machine['torch']}, commit {machine['commit']}."
    )
    return "\n".join(lines) + "\n\n" + origin


def draw(runs: Iterable[Run], out: Path) -> None:
    """The picture: looks from left to right, networks from top to bottom, and how often each is right."""
    mpl.use("Agg")
    from matplotlib import pyplot

    benchmark = load("digits-mini")
    domains = {look: benchmark.validation if look == "source" else benchmark.targets[look] for look in LOOKS}
    shown = {SHOWN[str(run.config["label"])]: run for run in runs if run.config["label"] in SHOWN}
    found = {name: dict(np.load(run.folder / "predictions.npz")) for name, run in shown.items()}
    names = list(SHOWN.values())
    answers = {name: {look: _of(found[name], look) for look in LOOKS} for name in names}
    number = _telling(answers, names, domains)
    label = int(domains["source"].labels[number])
    mpl.rcParams["font.family"] = "DejaVu Sans"
    figure, axes = pyplot.subplots(
        1 + len(names), len(LOOKS), figsize=(9.6, 4.7), height_ratios=[2.9, 1, 1], facecolor=LIGHT.page
    )
    for column, (look, words) in enumerate(LOOKS.items()):
        image = domains[look].images[number].movedim(0, 2).expand(-1, -1, 3).numpy()
        axes[0, column].imshow(image, interpolation="nearest", vmin=0, vmax=255)
        axes[0, column].set(xticks=[], yticks=[])
        axes[0, column].spines[:].set_color(LIGHT.faint)
        axes[0, column].set_title(words, fontsize=14, color=LIGHT.ink, pad=7)
        for axis, name in zip(axes[1:, column], names, strict=True):
            answer = answers[name][look][number]
            _write(axis, int(answer.argmax()), float(answer.max()), label, _score(shown[name], look))
    for axis, name in zip(axes[1:, 0], names, strict=True):
        words = name.replace(" ", "\n")
        axis.text(-0.14, 0.5, words, ha="right", va="center", fontsize=13, fontweight="bold", color=LIGHT.ink)
    figure.subplots_adjust(left=0.155, right=0.995, bottom=0.0, top=0.93, wspace=0.06, hspace=0.03)
    figure.savefig(out, dpi=120)
    pyplot.close(figure)


def _write(axis: Any, taken: int, sure: float, label: int, score: float) -> None:
    """What a network takes the digit for, how sure it is, and how often it is right."""
    axis.set_axis_off()
    colour = LIGHT.right if taken == label else LIGHT.wrong
    mark = "✓" if taken == label else "✗"
    axis.text(0.26, 0.64, f"{mark} {taken}", ha="right", va="center", fontsize=21, fontweight="bold", color=colour)
    axis.text(0.34, 0.64, f"{100 * sure:.0f} % sure", ha="left", va="center", fontsize=13, color=colour)
    axis.text(0.5, 0.2, f"right on {score:.1f} % of 1,000", ha="center", va="center", fontsize=11, color=LIGHT.ink)


def _score(run: Run, look: str) -> float:
    if look == "source":
        return float(100 * run.metrics["selection"]["last"]["source"]["accuracy"])
    return run.targets("last")[look]


def _of(predictions: Mapping[str, Any], look: str) -> Any:
    return predictions["last/source" if look == "source" else f"last/targets/{look}"]


def _telling(answers: Mapping[str, Any], names: list[str], domains: Mapping[str, Domain]) -> int:
    """The first digit that both know as it is and pale, and of whose other looks only the second network knows any."""
    plain, ours = ({look: rows.argmax(1) for look, rows in answers[name].items()} for name in names)
    labels = domains["source"].labels.numpy()
    known = np.all([plain[look] == labels for look in ("source", "low_contrast")], axis=0)
    missed = np.all([plain[look] != labels for look in ("inverted", "mnist_m")], axis=0)
    held = np.all([ours[look] == labels for look in LOOKS], axis=0)
    return int(np.flatnonzero(known & missed & held)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of the demo's runs")
    runs = find_runs(parser.parse_args().runs).finished
    for run in runs:
        write_record(run, Path("results"))
    fill(Path("README.md"), table(runs), "demo")
    draw(runs, Path("docs/front.png"))


if __name__ == "__main__":
    main()
