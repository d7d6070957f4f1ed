"""The long form: ``python -m tests.fuzzing FOLDER``, every target under a fuzzer, one after the other."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tests.fuzzing.targets import TARGETS
from xcnorm.environment import environment


def fuzz(name: str, folder: Path, cases: int, seconds: int) -> dict[str, object]:
    """Fuzz a target in a process of its own, as a crash of its interpreter is one to be counted."""
    folder.mkdir(parents=True, exist_ok=True)
    module = [sys.executable, "-m", "tests.fuzzing.coverage_guided", name, folder, cases, seconds]
    with (folder / "log.txt").open("w") as log:
        done = subprocess.run(list(map(str, module)), stdout=log, stderr=subprocess.STDOUT, check=False)
    result = json.loads((folder / "result.json").read_text())
    if done.returncode:
        result["crashes"] += 1
        result["kinds"][f"the process ended with {done.returncode}; see {folder / 'log.txt'}"] = "log.txt"
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where inputs are kept for the next time")
    parser.add_argument("--only", help="targets whose name has this in it")
    parser.add_argument("--cases", type=int, default=100_000, help="of each target")
    parser.add_argument("--seconds", type=int, default=600, help="of each target, if that comes first")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    rows = []
    for name in TARGETS:
        if options.only and options.only not in name:
            continue
        rows.append(fuzz(name, options.folder / name.replace(" ", "_"), options.cases, options.seconds))
        print(json.dumps(rows[-1]), flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps({"environment": environment("cpu"), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
