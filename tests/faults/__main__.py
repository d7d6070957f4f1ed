"""The long form: ``python -m tests.faults --rounds 40 --out FILE``; it writes down what it found after each round."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.run import inject_all
from xcnorm.environment import environment
from xcnorm.files import write_text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="how often each fault is injected")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further round after so many")
    parser.add_argument("--only", default="", help="faults whose names hold this")
    parser.add_argument("--short", action="store_true", help="without those that take long")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    options = parser.parse_args()
    begin, root, here = time.monotonic(), Path(tempfile.mkdtemp()), environment("cpu")
    failures: list[str] = []
    try:
        for tallies in inject_all(root, options.rounds, options.only, options.seconds, options.short):
            seconds = round(time.monotonic() - begin)
            result = {"environment": here, "seconds": seconds, "rows": [tally.row() for tally in tallies]}
            write_text(options.out, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
            failures = [failure for tally in tallies for failure in tally.failures]
            print(f"{seconds} s: {sum(tally.injected for tally in tallies)} faults, {len(failures)} not recovered from")
            sys.stdout.flush()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
