"""How near a converted network starts to the one it was: clean accuracy right after a conversion, and calibrated.

    python -m benchmarks.starts run RUN --runs runs --data DIR --device cuda --out benchmarks/results/starts_h200.json
    python -m benchmarks.starts page benchmarks/results/starts_cpu.json docs/convert.md

``RUN`` is a finished run of a plain network, such as the original of `benchmarks.finetune`. ``page`` writes the table
into a page, between ``<!-- NAME -->`` and ``<!-- end NAME -->``, for the file's NAME.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.places import fill
from benchmarks.results_file import write
from xcnorm import data
from xcnorm.data import Benchmark
from xcnorm.engine import Experiment, RunFolder, World, make_experiment, world
from xcnorm.engine.experiment import merge
from xcnorm.engine.networks import build_model, build_network, start_weights
from xcnorm.engine.precision import precision
from xcnorm.engine.testing import predict
from xcnorm.environment import environment
from xcnorm.metrics import score
from xcnorm.models import Network

CONVERSIONS: dict[str, dict[str, Any]] = {
    "default": {},
    '`gain="after_norm"`': {"gain": "after_norm"},
    '`norm="batch"`': {"norm": "batch"},
    '`norm="batch", gain="after_norm"`': {"norm": "batch", "gain": "after_norm"},
    '`norm="none"`': {"norm": "none"},
    '`stages="model"`': {"stages": "model"},
}
LAYERS = ("xcnorm", "r_xcnorm")


def measure(run: RunFolder, runs: Path, here: World, root: Path | None) -> dict[str, Any]:
    """Convert the network of a run in every way, and test it on clean images.

    Args:
        run: A finished run of a plain network.
        runs: The folder of runs that it is in.
        here: Where to compute.
        root: The folder that holds the data.
    """
    before = run.experiment()
    benchmark = data.load(before.benchmark, root, **before.benchmark_options)
    plain = before.model.model_dump(mode="json")
    values = before.model_dump(mode="json", exclude={"start"})
    start = {"run": run.path.relative_to(runs).as_posix(), "model": plain}
    rows = []
    with precision(before.run.precision):
        original = make_experiment(merge(values, {"start": start}))
        weights = start_weights(original, runs)
        clean = _clean(build_model(original, benchmark, here.device, weights), original, benchmark)
        for layer in LAYERS:
            for name, options in CONVERSIONS.items():
                model = {**plain, "layer": layer, "options": options}
                experiment = make_experiment({**values, "start": start, "model": model})
                bare = build_network(experiment, len(benchmark.classes), here.device, weights)
                calibrated = build_model(experiment, benchmark, here.device, weights)
                accuracies = [_clean(each, experiment, benchmark) for each in (bare, calibrated)]
                rows.append(
                    {"layer": layer, "conversion": name, "converted": accuracies[0], "calibrated": accuracies[1]}
                )
                print(rows[-1], flush=True)
    return {
        "benchmark": benchmark.title,
        "model": plain,
        "original": clean,
        "rows": rows,
        "environment": environment(here.device.type),
    }


def _clean(model: Network, experiment: Experiment, benchmark: Benchmark) -> float:
    accuracy = score(predict(model, benchmark.validation.images, experiment), benchmark.validation.labels)["accuracy"]
    return round(100 * (accuracy or 0.0), 2)


def table(result: Mapping[str, Any]) -> str:
    """The rows of a page, and where they come from."""
    names = {"xcnorm": "XCNorm", "r_xcnorm": "R-XCNorm"}
    lines = [
        "| | " + " | ".join(f"{names[layer]} | {names[layer]}, calibrated" for layer in LAYERS) + " |",
        "|---" * (1 + 2 * len(LAYERS)) + "|",
    ]
    for name in dict.fromkeys(row["conversion"] for row in result["rows"]):
        found = {row["layer"]: row for row in result["rows"] if row["conversion"] == name}
        cells = [f"{found[layer][when]:.1f}" for layer in LAYERS for when in ("converted", "calibrated")]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    model, machine = result["model"], result["environment"]
    options = "".join(f", {name}={value!r}" for name, value in model["options"].items())
    origin = (
        f"{result['benchmark']}, {model['name']}{options}: clean accuracy in percent, not trained any further; the "
        f"plain network has {result['original']:.1f}. {machine['device']}, torch {machine['torch']}."
    )
    return "\n".join(lines) + "\n\n" + origin


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="convert the network of a run in every way")
    run.add_argument("run", type=Path, help="its folder")
    run.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of runs")
    run.add_argument("--data", type=Path, default=os.environ.get("XCNORM_DATA"), help="the data root")
    run.add_argument("--device", default="auto")
    run.add_argument("--out", type=Path, help="JSON file for the results")
    page = commands.add_parser("page", help="write the table into a page")
    page.add_argument("results", type=Path)
    page.add_argument("page", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "page":
        fill(given.page, table(json.loads(given.results.read_text(encoding="utf-8"))), given.results.stem)
        return
    with world(given.device) as here:
        result = measure(RunFolder(given.run), given.runs, here, given.data)
    print(table(result))
    write(given.out, result)


if __name__ == "__main__":
    main()
