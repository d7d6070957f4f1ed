"""Run folders written by hand, in the format that training writes."""

import json
from pathlib import Path

import numpy as np

from xcnorm.data import corruptions
from xcnorm.engine.experiment import Experiment, make_experiment, merge, override, to_toml

DIGITS = ("optdigits", "mnist_m", "syn_rendered", "inverted", "low_contrast")


def settings(**dotted) -> dict:
    """An experiment's values; ``model__layer`` stands for ``model.layer``."""
    values = override({key.replace("__", "."): value for key, value in dotted.items()})
    return make_experiment(merge({"schedule": {"iterations": 400}}, values)).model_dump(mode="json")


def scores(value: float) -> dict:
    return {
        "count": 1000,
        "accuracy": value,
        "balanced_accuracy": value,
        "auroc": min(1.0, value + 0.1),
        "calibration_error": 0.03,
    }


def write_run(root: Path, config: dict, targets: dict[str, float], rate: float = 0.01, **changes) -> Path:
    """A finished run; `changes` replace parts of ``metrics.json``."""
    folder = root / Experiment.model_validate(config).folder
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(to_toml(config))
    environment = {"xcnorm": "0.3.0", "commit": "e56405c", "torch": "2.13.0", "device": "x86_64", "cores": 2}
    (folder / "environment.json").write_text(json.dumps(environment))
    write_log(folder, config["seed"], rate)
    tested = {"step": 400, "source": scores(0.97), "targets": {name: scores(v) for name, v in targets.items()}}
    metrics = {
        "format": 1,
        "benchmark": config["benchmark"],
        "title": "Digits (mini)",
        "metric": "accuracy",
        "classes": [str(digit) for digit in range(10)],
        "notes": {},
        "missing": {},
        "warnings": [],
        "steps": 400,
        "seconds": 12.3,
        "selection": {"last": tested, "best_on_source": tested},
    }
    (folder / "metrics.json").write_text(json.dumps(metrics | changes))
    return folder


def write_log(folder: Path, seed: int = 0, rate: float = 0.01) -> None:
    """A log as a killed process leaves it: with a broken last line."""
    noise = np.random.default_rng(seed)
    lines = []
    for step in range(20, 401, 20):
        loss = 2.3 * np.exp(-rate * step) + 0.05 + 0.05 * noise.random()
        lines.append(json.dumps({"step": step, "epoch": 1, "loss": loss, "learning_rate": 1e-3, "seconds": 0.1}))
        if step % 100 == 0:
            lines.append(json.dumps({"step": step, "validation": 0.9 + step / 5000}))
    (folder / "log.jsonl").write_text("\n".join([*lines, '{"step": 420, "lo']))


def digits_runs(root: Path, seeds=(0, 1, 2), labels=("ERM", "XCNorm", "R-XCNorm"), **changes) -> None:
    """Three arms on digits-mini."""
    for arm, (label, layer) in enumerate(zip(labels, ("conv", "xcnorm", "r_xcnorm"), strict=True)):
        for seed in seeds:
            values = {name: 0.5 + 0.1 * arm + 0.03 * i + 0.01 * seed for i, name in enumerate(DIGITS)}
            config = settings(benchmark="digits-mini", seed=seed, label=label, model__layer=layer)
            write_run(root, config, values, rate=0.005 * (arm + 1), **changes)


def grid(start: float, slope: float) -> dict[str, float]:
    """The scores of a whole corruption grid, falling with severity."""
    return {
        f"{name}/{severity}": start - slope * severity - 0.004 * index
        for index, name in enumerate(corruptions.names())
        for severity in range(1, 6)
    }


def grid_runs(root: Path, seeds=(0, 1)) -> None:
    """Two arms on cifar10c-mini, with robustness scores."""
    for label, layer, slope in (("BN", "conv", 0.1), ("R-XCNorm", "r_xcnorm", 0.04)):
        for seed in seeds:
            values = grid(0.93 + 0.01 * seed, slope)
            tested = {"step": 400, "source": scores(0.95), "targets": {name: scores(v) for name, v in values.items()}}
            tested["robustness"] = {
                name: 10 * slope + 0.02 * index + 0.01 * seed for index, name in enumerate(corruptions.names())
            }
            config = settings(benchmark="cifar10c-mini", seed=seed, label=label, model__layer=layer)
            title = "CIFAR-10-C (regenerated)"
            write_run(root, config, values, title=title, selection={"last": tested})


def hospital_runs(root: Path, seeds=(0, 1)) -> None:
    """Two arms, each trained on each of five hospitals."""
    for label, layer, start in (("ERM", "conv", 0.6), ("XCNorm", "xcnorm", 0.75)):
        for source in range(5):
            for seed in seeds:
                others = [f"centre{centre}" for centre in range(5) if centre != source]
                values = dict.fromkeys(others, start + 0.02 * source + 0.01 * seed)
                config = settings(benchmark="camelyon17-mini", seed=seed, label=label, model__layer=layer)
                config = merge(config, {"benchmark_options": {"source": source}})
                write_run(root, config, values, title="Camelyon17 (mini)", metric="auroc", classes=["normal", "tumour"])


def write_predictions(folder: Path, labels: dict[str, np.ndarray], right: float, seed: int = 0) -> None:
    """Predictions of ten classes, of which about a share is right."""
    noise = np.random.default_rng(seed)
    arrays = {}
    for name, true in labels.items():
        guesses = np.where(noise.random(len(true)) < right, true, (true + 1) % 10)
        probabilities = np.full((len(true), 10), 0.02, np.float16)
        probabilities[np.arange(len(true)), guesses] = 0.82
        arrays |= {f"labels/{name}": true, f"last/{name}": probabilities}
    np.savez(folder / "predictions.npz", **arrays)


def broken_runs(root: Path) -> dict[str, str]:
    """One run of each kind that cannot be reported on, and a word that its reason must have."""
    config = settings(benchmark="digits-mini", seed=7)
    healthy = json.dumps({"format": 1})
    contents = {
        "failed": {"config.toml": to_toml(config), "failed.txt": "out of memory on cuda:0\n"},
        "half": {"config.toml": to_toml(config)},
        "damaged": {"config.toml": to_toml(config), "metrics.json": '{"format": 1, "benchm'},
        "future": {"config.toml": to_toml(config), "metrics.json": '{"format": 99}'},
        "list": {"config.toml": to_toml(config), "metrics.json": "[]"},
        "no-config": {"metrics.json": healthy},
        "bad-config": {"config.toml": "seed = = 3", "metrics.json": healthy},
        "lacking": {"config.toml": to_toml(config), "metrics.json": healthy},
    }
    for name, files in contents.items():
        folder = root / "digits-mini" / f"erm+conv-{name}" / "seed7"
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    write_log(root / "digits-mini" / "erm+conv-half" / "seed7")
    return {
        "failed": "failed: out of memory on cuda:0",
        "half": "not finished: the log ends at step 400",
        "damaged": "metrics.json is damaged",
        "future": "format 99",
        "list": "does not hold a table",
        "no-config": "config.toml is missing",
        "bad-config": "config.toml is damaged",
        "lacking": "lacks 'title'",
    }


PRESET = """
title = "Table 1: Digits (mini)"
kind = "table"
seeds = [0, 1, 2]
columns = ["optdigits", "mnist_m", "inverted"]
[base]
benchmark = "digits-mini"
schedule.iterations = 400
[[arms]]
label = "ERM"
[arms.set]
"model.layer" = "conv"
[arms.paper]
optdigits = 50.0
mnist_m = 60.0
inverted = 59.5
average = 56.5
[[arms]]
label = "R-XCNorm"
[arms.set]
"model.layer" = "r_xcnorm"
[arms.paper]
optdigits = 75.25
mnist_m = 60.0
inverted = 82.0
average = 72.42
[[arms]]
label = "R-XCNorm + RC"
[arms.set]
"model.layer" = "r_xcnorm"
"method.name" = "randconv"
[arms.paper]
optdigits = 77.0
[[published]]
label = "MetaCNN"
optdigits = 66.5
mnist_m = 88.27
inverted = 70.0
average = 74.92
"""
