"""The page on trust, made from the results of long runs: a table for each.

    python -m benchmarks.trust benchmarks/results/trust/*.json docs/trust.md

A result has its ``environment``, its ``seconds`` where they are known, and ``rows`` whose keys are the columns. The
page has a place for each, between ``<!-- faults_cpu -->`` and ``<!-- end faults_cpu -->`` for ``faults_cpu.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xcnorm.errors import UserError


def write_page(results: Mapping[str, Mapping[str, Any]], page: Path) -> None:
    """Put results in their places on a page.

    Args:
        results: By the name of the place.
        page: A Markdown file.

    Raises:
        UserError: The page has no place for one of them.
    """
    text = page.read_text(encoding="utf-8")
    for name, result in results.items():
        begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
        if begin not in text or end not in text:
            raise UserError(f"{page} has no place for this result: {begin} and {end}")
        before, rest = text.split(begin)
        text = "\n\n".join([before + begin, _origin(result), _table(result["rows"]), end + rest.split(end)[1]])
    page.write_text(text, encoding="utf-8")


def _origin(result: Mapping[str, Any]) -> str:
    on = result["environment"]
    took = f", {result['seconds'] / 60:.0f} minutes" if "seconds" in result else ""
    versions = f"torch {on['torch']}, Python {on['python']}, commit {on['commit']}"
    return f"On {on['device']}, {on['cores']} cores{took}; {versions}."


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(rows[0])
    numeric = [all(isinstance(row[column], int | float | None) for row in rows) for column in columns]
    lines = [columns, ["---:" if number else "---" for number in numeric]]
    lines += [[_cell(row[column]) for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="JSON files")
    parser.add_argument("page", type=Path, help="Markdown file")
    arguments = parser.parse_args()
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in arguments.results}
    write_page(found, arguments.page)


if __name__ == "__main__":
    main()
