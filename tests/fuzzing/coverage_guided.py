"""One target under a fuzzer that looks which lines its bytes reach: ``python -m tests.fuzzing.coverage_guided NAME``.

It goes on after a crash, and keeps one input of each kind of crash, so that all are found in one go.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["xcnorm", "tarfile", "zipfile", "pickle", "tomllib", "csv", "json", "typer"]):
    from tests.fuzzing.targets import TARGETS

from tests.fuzzing.target import answer


def main(name: str, folder: Path, cases: int, seconds: int) -> None:
    """Fuzz a target, and write what came of it.

    Args:
        name: The target.
        folder: Where its inputs are kept, for the next time, and ``result.json``.
        cases: How many inputs to try at most.
        seconds: For how long at most.
    """
    inputs, crashes = folder / "inputs", folder / "crashes"
    for each in (inputs, crashes):
        each.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as work:
        target = TARGETS[name](Path(work))
        for number, seed in enumerate(target.seeds):
            (inputs / f"seed{number}").write_bytes(seed)
        words = folder / "words.txt"
        spelt = ("".join(rf"\x{byte:02x}" for byte in token) for token in target.tokens)
        words.write_text("".join(f'"{word}"\n' for word in spelt))
        result = {"what": name, "cases": 0, "refused": 0, "crashes": 0, "kinds": {}, "seconds": 0.0}
        begin = time.monotonic()

        def feed(data: bytes) -> None:
            result["cases"] += 1
            try:
                result["refused"] += answer(target, data) is not None
            except Exception as error:
                result["crashes"] += 1
                kind = _kind(error)
                if kind not in result["kinds"]:
                    result["kinds"][kind] = f"crash{len(result['kinds'])}"
                    (crashes / result["kinds"][kind]).write_bytes(data)
            if result["cases"] % 100 == 0 or result["cases"] >= cases:  # it ends the process without coming back
                result["seconds"] = round(time.monotonic() - begin, 1)
                (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")

        options = [f"-runs={cases}", f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=6000", "-verbosity=0"]
        options += ["-max_len=65536", "-len_control=0", *([f"-dict={words}"] if target.tokens else []), f"-artifact_prefix={crashes}/"]
        atheris.Setup([sys.argv[0], *options, str(inputs)], feed)
        atheris.Fuzz()


def _kind(error: Exception) -> str:
    """The type of a crash and the line of ours that it came through last."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "xcnorm" in frame.filename]
    last = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{last}: {str(error)[-300:]}"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
