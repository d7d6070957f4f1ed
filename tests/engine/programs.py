"""Whole training programs, started in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

STEPS = 24
SETTINGS = {
    "benchmark_options.source": "source",
    "benchmark_options.validation": 0.2,
    "model.name": "digits_cnn",
    "schedule.epochs": 0,
    "schedule.iterations": STEPS,
    "schedule.batch": 16,
    "run.evaluate_every": 4,
}
EXACT = {
    "method.name": "randconv",
    "model.layer": "xcnorm",
    "data.augment": '["flip","crop"]',
    "run.checkpoint_every": 3,
}


def start(pictures: Path, out: Path, settings: dict[str, object], processes: int = 1):
    """Start to train on the folder of pictures; like the same command typed again, if it is the same."""
    command = [sys.executable, "-m"]
    if processes > 1:
        command += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    command += ["xcnorm", "train", "--benchmark", "folder", "--data", str(pictures), "--out", str(out)]
    command += ["--device", "cpu"]
    for key, value in {**SETTINGS, **settings}.items():
        command += ["--set", f"{key}={value}"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process) -> tuple[int, str]:
    """The exit code of a program, and what it complained about."""
    _, complaints = process.communicate(timeout=120)
    return process.returncode, complaints


def folder(out: Path) -> Path:
    """The only run below a folder of runs."""
    (config,) = out.glob("**/config.toml")
    return config.parent


def log(run: Path) -> list[dict[str, float]]:
    """The log without the time that things took."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def results(run: Path) -> dict[str, object]:
    """All that a run left behind, but for the time that it took."""
    metrics = json.loads((run / "metrics.json").read_text())
    del metrics["seconds"]
    predictions = np.load(run / "predictions.npz")
    return {
        "metrics": metrics,
        "log": log(run),
        "weights": {rule: load_file(run / f"{rule}.safetensors") for rule in metrics["selection"]},
        "predictions": {name: predictions[name] for name in predictions},
    }
