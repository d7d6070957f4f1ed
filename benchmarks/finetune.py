"""Fine-tuning after a conversion: a trained network converted and trained on, beside itself trained on as long.

    python -m benchmarks.finetune run --data DIR --device cuda --runs runs --out benchmarks/results/finetune_h200.json
    python -m benchmarks.finetune run --mini --runs runs --out benchmarks/results/finetune_cpu.json
    python -m benchmarks.finetune page benchmarks/results/finetune_cpu.json docs/finetune.md

The first trains a plain wrn16_4 on CIFAR-10 (recipe ``fast``: 40 epochs of batches of 128, SGD 0.1, cosine) and every
arm from its weights (recipe ``finetune``: 10 epochs, SGD 0.02), in bf16, each step as a CUDA graph, and tests all of
them under 19 corruptions at 5 severities. Everything is an ordinary run: what was interrupted goes on when the command
is given again, and what is finished is left alone. ``--mini`` is the same with the digits network on embedded digits.
``page`` writes the table into a page, between ``<!-- NAME -->`` and ``<!-- end NAME -->``, for the file's NAME.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.places import fill
from benchmarks.results_file import write
from xcnorm.data.corruptions import CATEGORIES
from xcnorm.engine import Experiment, RunFolder, World, load_recipe, make_experiment, run_experiment, world
from xcnorm.engine.experiment import merge
from xcnorm.metrics import average, by_category

ORIGINAL = "original"
ARMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "XCNorm": {"layer": "xcnorm", "options": {"stages": "model"}},
    "R-XCNorm": {"layer": "r_xcnorm", "options": {"stages": "model"}},
    "XCNorm, first stage": {"layer": "xcnorm", "options": {"stages": "model", "policy": "first_stage"}},
    "XCNorm, its own stages": {"layer": "xcnorm", "options": {"norm": "batch"}},
    "XCNorm, its own stages, per image": {"layer": "xcnorm", "options": {"norm": "instance"}},
}
"""What becomes of the original before it is trained on."""

_ON_GPU = {"precision": "bf16", "graph": True, "channels_last": True}
_MINI = {"model": {"options": {"norm": "batch"}}}  # its small network has no norm of its own


def original(mini: bool, seed: int, run: Mapping[str, Any]) -> Experiment:
    """The plain network that everything starts from.

    Args:
        mini: Whether on embedded digits.
        seed: Its seed.
        run: How it is computed.
    """
    benchmark = "cifar10c-mini" if mini else "cifar10c"
    own = {"benchmark": benchmark, "seed": seed, "label": ORIGINAL, "run": {"selection": ["last"], **run}}
    return make_experiment(merge(load_recipe("fast", benchmark), _MINI if mini else {}, own))


def fine_tuned(label: str, before: Experiment) -> Experiment:
    """An arm: the original as it is or converted, trained on."""
    values = before.model_dump(mode="json", include={"benchmark", "seed", "run"})
    plain = before.model.model_dump(mode="json")
    model = plain | ARMS[label]  # the options of a conversion take the place of those of the plain network
    start = {"run": before.folder.as_posix(), "model": plain}
    recipe = load_recipe("finetune", before.benchmark)
    return make_experiment(merge(recipe, values, {"label": label, "model": model, "start": start}))


def measure(
    mini: bool, seeds: Sequence[int], arms: Sequence[str], here: World, runs: Path, data: Path | None
) -> dict[str, Any]:
    """Run what is not finished yet, and gather what came of it.

    Args:
        mini: Whether on embedded digits.
        seeds: One original for each.
        arms: Some of `ARMS`.
        here: Where to compute.
        runs: The folder of runs.
        data: The folder that holds the data.
    """
    how: Mapping[str, Any] = _ON_GPU if here.device.type == "cuda" else {}
    found: dict[str, list[RunFolder]] = {name: [] for name in (ORIGINAL, *arms)}
    for seed in seeds:
        before = original(mini, seed, how)
        for name in found:
            clock = time.monotonic()
            experiment = before if name == ORIGINAL else fine_tuned(name, before)
            found[name].append(run_experiment(experiment, runs, here, data=data))
            print(f"seed {seed}, {name}: {time.monotonic() - clock:.0f} s", flush=True)
    first = found[ORIGINAL][0]
    with first.metrics() as metrics:
        title = metrics["title"]
    environment = json.loads((first.path / "environment.json").read_text(encoding="utf-8"))
    return {
        "benchmark": title,
        "seeds": list(seeds),
        "environment": environment,
        "arms": {name: _gathered(folders) for name, folders in found.items()},
    }


def _gathered(folders: Sequence[RunFolder]) -> dict[str, Any]:
    experiment = folders[0].experiment()
    rows = []
    for folder in folders:
        with folder.metrics() as metrics:
            found = metrics["selection"]["last"]
            targets = {name: 100 * numbers["accuracy"] for name, numbers in found["targets"].items()}
            worst = by_category(targets, CATEGORIES["sdg4"], severity=5)
            row = {"clean": 100 * found["source"]["accuracy"], "corrupted": average(targets)}
            rows.append(row | {"sdg4": average(worst), **worst, "seconds": metrics["seconds"]})
    settings = experiment.model_dump(mode="json", include={"model", "optimiser", "schedule", "data", "run"})
    return {"settings": settings} | {name: [round(row[name], 2) for row in rows] for name in rows[0]}


def table(result: Mapping[str, Any]) -> str:
    """The rows of a page, and where they come from."""
    arms = result["arms"]
    columns = {"clean": "clean", "corrupted": "mean of 19 x 5", "sdg4": "level 5, four groups"}
    lines = ["| | " + " | ".join(columns.values()) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, arm in arms.items():
        told = name if name == ORIGINAL else f"{name}, fine-tuned"
        lines.append(f"| {told} | " + " | ".join(_cell(arm[each]) for each in columns) + " |")
    machine = result["environment"]
    schedules = [arms[name]["settings"]["schedule"] for name in (ORIGINAL, "plain")]
    lengths = [f"{s['epochs']} epochs" if s["epochs"] else f"{s['iterations']} steps" for s in schedules]
    told = ", ".join(f"{number}" for number in result["seeds"])
    seeds = f"seed{'s' if len(result['seeds']) > 1 else ''} {told}"
    origin = (
        f"{result['benchmark']}, {arms[ORIGINAL]['settings']['model']['name']}: {lengths[0]}, and {lengths[1]} of "
        f"fine-tuning; accuracy in percent, {seeds}; {machine['device']}, torch {machine['torch']}."
    )
    return "\n".join(lines) + "\n\n" + origin


def _cell(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run what is not finished yet, and gather the scores")
    run.add_argument("--mini", action="store_true", help="embedded digits in place of CIFAR-10")
    run.add_argument("--data", type=Path, default=os.environ.get("XCNORM_DATA"), help="the data root")
    run.add_argument("--device", default="auto")
    run.add_argument("--seeds", type=int, nargs="+", default=[0])
    run.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), metavar="NAME")
    run.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of runs")
    run.add_argument("--out", type=Path, help="JSON file for the results")
    page = commands.add_parser("page", help="write the table into a page")
    page.add_argument("results", type=Path)
    page.add_argument("page", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "page":
        fill(given.page, table(json.loads(given.results.read_text(encoding="utf-8"))), given.results.stem)
        return
    with world(given.device) as here:
        result = measure(given.mini, given.seeds, given.arms, here, given.runs, given.data)
    print(table(result))
    write(given.out, result)


if __name__ == "__main__":
    main()
