"""The long form: ``python -m tests.soak FOLDER --seconds 2400``, which goes on where the one before it ended."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from tests.soak.training import UNSHADOWED, Soak
from tests.soak.variants import VARIANTS
from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.environment import environment

_CHUNK = 100  # steps between checkpoints, and between the two precisions


def resumed(folder: Path, precision: str) -> tuple[Soak, float]:
    """A soak where it was left, and the seconds that it took until then."""
    soak = Soak(VARIANTS, precision)
    if (found := load_checkpoint(folder / precision)) is None:
        return soak, 0.0
    step, state = found
    soak.load(step, state["soak"])
    return soak, state["seconds"]


def rows(soaks: dict[str, Soak]) -> list[dict[str, object]]:
    """What came out, for each variant."""
    found = []
    for name in VARIANTS:
        row: dict[str, object] = {"layer": name}
        for precision, soak in soaks.items():
            row[f"steps in {precision}"] = soak.step
            row[f"averages off by, {precision}"] = None if name in UNSHADOWED else soak.worst[name]
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where it is kept how far it has come")
    parser.add_argument("--steps", type=int, default=100_000, help="of each variant in each precision")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    torch.set_num_threads(1)
    end, here = time.monotonic() + options.seconds, environment("cpu")
    soaks = [resumed(options.folder, precision) for precision in ("float32", "bf16")]
    while time.monotonic() < end and min(soak.step for soak, _ in soaks) < options.steps:
        for place, (soak, seconds) in enumerate(soaks):
            begin = time.monotonic()
            for _ in range(min(_CHUNK, options.steps - soak.step)):
                soak.advance()
            seconds += time.monotonic() - begin
            soaks[place] = soak, seconds
            save_checkpoint(options.folder / soak.precision, soak.step, {"soak": soak.state(), "seconds": seconds})
            print(f"{soak.precision}: {soak.step} steps, {seconds:.0f} s", flush=True)
    if options.out is not None:
        seconds = round(sum(seconds for _, seconds in soaks))
        found = rows({soak.precision: soak for soak, _ in soaks})
        options.out.parent.mkdir(parents=True, exist_ok=True)
        result = {"environment": here, "seconds": seconds, "rows": found}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
