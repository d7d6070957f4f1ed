"""Records: a finished run in one small file, to be published and to be reported on like the run itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xcnorm.files import write_text
from xcnorm.report.runs import NO_RESULT, RECORD, Run

_POINTS = 100  # of the training loss: enough for its curve
_PATH = re.compile(r"(?<![\w/:.])/(?!/)[\w.+-]+(?:/[\w.+-]+)+")  # of a machine; not the slashes of an address


def write_record(run: Run, folder: Path) -> Path:
    """Write the record of a run: its experiment, all of its scores, its machine and versions, its training loss.

    Its name says what the experiment is, so that the same run replaces its older record. Paths of the machine that
    made it are left out: they say nothing to anybody else.

    Args:
        run: The run.
        folder: Where records lie; the file goes into a folder of the benchmark's name in it.

    Returns:
        The file.
    """
    config, model, method = run.config, run.config["model"], run.config["method"]
    what = [method["name"], method.get("augment", "none"), model["layer"]]
    label = re.sub(r"[^a-z0-9]+", "-", str(config.get("label") or "-".join(w for w in what if w != "none")).lower())
    digest = hashlib.sha256(run.key(("seed", *NO_RESULT)).encode()).hexdigest()[:6]
    path = folder / run.benchmark / f"{label.strip('-')}-{digest}-seed{run.seed}{RECORD}"
    record = {
        "config": config,
        "environment": run.environment,
        "losses": _thinned(run.losses),
        "metrics": {**run.metrics, "missing": _portable(run.metrics["missing"])},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(record, indent=1) + "\n")
    return path


def _thinned(losses: Mapping[int, float]) -> dict[int, float]:
    """Some of the losses, evenly, the last one among them."""
    steps = list(losses)
    every = max(1, -(-len(steps) // _POINTS))
    kept = steps[::-1][::every][::-1]
    return {step: float(f"{losses[step]:.5g}") for step in kept}


def _portable(reasons: Mapping[str, Any]) -> dict[str, str]:
    """Why parts are missing, without the paths of this machine."""
    return {name: _PATH.sub("DIR", str(reason)) for name, reason in reasons.items()}
