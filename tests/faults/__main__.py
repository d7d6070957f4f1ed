"""The long form: ``python -m tests.faults --rounds 40 --out FILE``, and what it found, fault by fault."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.run import inject_all
from xcnorm.environment import environment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="how often each fault is injected")
    parser.add_argument("--only", default="", help="faults whose names hold this")
    parser.add_argument("--short", action="store_true", help="without those that take long")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    begin, root = time.monotonic(), Path(tempfile.mkdtemp())
    try:
        tallies = inject_all(
            root, options.rounds, options.only, lambda line: print(line, flush=True), short=options.short
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    result = {
        "environment": environment("cpu"),
        "seconds": round(time.monotonic() - begin),
        "rows": [tally.row() for tally in tallies],
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if any(tally.failures for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
