"""The long form: ``python -m tests.faults --rounds 40 --out FILE``, which goes on from what it wrote there before."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.faults.fault import FAULTS, Tally
from tests.faults.run import inject_all
from xcnorm.environment import environment
from xcnorm.files import write_text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="how often each fault is injected")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further round after so many")
    parser.add_argument("--only", default="", help="faults whose names hold this")
    parser.add_argument("--short", action="store_true", help="without those that take long")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write after each round")
    return parser.parse_args()


def earlier(path: Path) -> dict[str, Any]:
    """What was found before; delete the file to begin anew."""
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    return {"seconds": 0, "rounds": 0, "rows": []}


def main() -> int:
    options = arguments()
    before, here = earlier(options.out), environment("cpu")
    if "environment" in before and here["commit"] not in before["environment"]["commit"]:
        here["commit"] = f"{before['environment']['commit']}, {here['commit']}"
    faults = [each for each in FAULTS.values() if options.only in each.name and not (options.short and each.long)]
    tallies = {each.name: Tally(each) for each in faults}
    for row in before["rows"]:
        tallies[row["fault"]].take(row)
    begin, root = time.monotonic() - before["seconds"], Path(tempfile.mkdtemp())
    rounds = range(before["rounds"], options.rounds)
    try:
        for done in inject_all(root, list(tallies.values()), rounds, options.seconds):
            rows, seconds = [tally.row() for tally in tallies.values()], round(time.monotonic() - begin)
            result = {"environment": here, "seconds": seconds, "rounds": done, "rows": rows}
            write_text(options.out, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
            print(f"{done} rounds, {seconds} s: {sum(row['recovered'] for row in rows)} recovered", flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    failures = [f"{name}: {failure}" for name, tally in tallies.items() for failure in tally.failures]
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
