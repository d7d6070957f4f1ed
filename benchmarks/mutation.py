"""Mutation testing: how many small mistakes in formulas, plain backend and metrics the tests notice.

    mutmut run "xcnorm.functional*" "xcnorm.metrics*"
    mutmut run $(python -m benchmarks.mutation --draw 300 "xcnorm.ops*")
    python -m benchmarks.mutation --out benchmarks/results/trust/mutation_cpu.json

What is mutated, and by which tests it is tried, is in ``pyproject.toml``. The second line tries a sample, because all
of the mutants there would take hours. Triton kernels are left out: a GPU runs them, and no test that is run here.
Mutants that no test reaches count as survivors.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from benchmarks import results_file
from xcnorm.environment import environment

MUTANTS = Path("mutants")
SEED = 0
PARTS = {
    "formulas": ("xcnorm.functional*", "xcnorm.ops.formulas*"),
    "plain backend": ("xcnorm.ops.plain*",),
    "metrics": ("xcnorm.metrics*",),
}
SURVIVED = (0, 5, 33)  # what its tests ended with: success, none selected, none that reaches it


def verdicts(folder: Path) -> dict[str, int | None]:
    """What became of every mutant by its name; None of those that were not tried."""
    found: dict[str, int | None] = {}
    for path in sorted(folder.rglob("*.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        found |= {name: code for name, code in codes.items() if "_kernel__mutmut" not in name}
    return found


def rows(found: Mapping[str, int | None]) -> Iterator[dict[str, object]]:
    """A row for each part."""
    for part, patterns in PARTS.items():
        codes = [code for name, code in found.items() if any(fnmatch(name, pattern) for pattern in patterns)]
        tried = [code for code in codes if code is not None]
        survived = sum(code in SURVIVED for code in tried)
        yield {
            "part": part,
            "mutants": len(codes),
            "tried": len(tried),
            "survived": survived,
            "survived in %": round(100 * survived / len(tried), 1) if tried else None,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", nargs=2, metavar=("COUNT", "PATTERN"), help="print the names of a sample")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args()
    found = verdicts(MUTANTS)
    if given.draw:
        count, pattern = given.draw
        names = [name for name in found if fnmatch(name, pattern)]
        print(*random.Random(SEED).sample(names, min(int(count), len(names))))
        return
    table = list(rows(found))
    survivors = sorted(name for name, code in found.items() if code in SURVIVED)
    result = {"environment": environment("cpu"), "seed": SEED, "rows": table, "survivors": survivors}
    results_file.write(given.out, result)
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
