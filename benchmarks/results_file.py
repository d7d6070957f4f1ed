"""Results of measurements as JSON files, and the options that scripts which write them share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def add_options(parser: argparse.ArgumentParser) -> None:
    """``--device``, ``--quick`` and ``--out``."""
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer timings, for a first look")
    parser.add_argument("--out", type=Path, help="JSON file to write")


def write(path: Path | None, result: Mapping[str, Any]) -> None:
    """Write a result where somebody asked for it."""
    if path is not None:
        path.write_text(json.dumps(result) + "\n", encoding="utf-8")
