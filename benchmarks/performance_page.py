"""The page on performance, made from results: its tables, and a roofline of the layers.

    python -m benchmarks.performance_page benchmarks/results/layers_h200.json docs/performance.md

A page has a place for each subject and device, between ``<!-- layers cuda -->`` and ``<!-- end layers cuda -->``, and
one like ``<!-- layers cpu, 2 threads -->`` for what was measured otherwise than by default, which gets the means alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bars import BARS, bars_table, verdicts
from benchmarks.places import fill
from benchmarks.roofline import draw_roofline
from xcnorm.bench.summary import QUANTITIES, TextTable, tables

_MEANS = ("Bars", "Geometric means")  # how titles of tables begin that have no row for every case


def write_page(result: Mapping[str, Any], page: Path) -> None:
    """Put a result in its place on a page, and the roofline of layers beside the page."""
    apart = _apart(result)
    name = ", ".join([f"{result['subject']} {result['device']}", *apart])
    figure = page.with_name(f"{page.stem}_{result['device']}.svg")
    drawn = result["subject"] == "layers" and not apart
    parts = [_origin(result)]
    if drawn:
        parts.append(f"![Roofline of the layers on {result['device']}]({figure.name})")
    found = [bars_table(verdicts(result, BARS[result["subject"]]))]
    found += [_growth(result["growth"])] if result.get("growth") else []
    found += reversed(tables(result))
    parts += [_markdown(table) for table in found if not apart or table.title.startswith(_MEANS)]
    fill(page, "\n\n".join(parts), name)
    if drawn:
        draw_roofline(result, figure)


def _apart(result: Mapping[str, Any]) -> list[str]:
    """What was measured otherwise than by default on a CPU."""
    if result["device"] != "cpu":
        return []
    threads = result["environment"]["threads"]
    return [
        *([f"{threads} threads"] if threads > 1 else []),
        *(["channels last"] if result.get("channels_last") else []),
    ]


def _origin(result: Mapping[str, Any]) -> str:
    on = result["environment"]
    threads = f", threads: {on['threads']}" if result["device"] == "cpu" else ""
    return (
        f"On {on['device']}{threads}; torch {on['torch']}, Python {on['python']}, commit {on['commit']}; "
        f"{result['turns']} timings of each."
    )


def _growth(growth: Sequence[Mapping[str, Any]]) -> TextTable:
    lines = [
        [
            f"{row['axis']}, {row['precision']}",
            row["side"],
            f"{row['sizes'][0]:,} to {row['sizes'][-1]:,}",
            f"{row['milliseconds'][0]:.3g} to {row['milliseconds'][-1]:.3g} ms",
            f"{row['slope']:.2f}",
            f"{row['r2']:.3f}",
            f"{row['largest_step']:.2f}",
        ]
        for row in growth
    ]
    header = ["", "side", "size", QUANTITIES["both"], "slope", "r2", "largest step"]
    return TextTable("Growth of one layer: time goes with size to the power of the slope", header, lines)


def _markdown(table: TextTable) -> str:
    rule = ["---", *["---:"] * (len(table.header) - 1)]
    lines = ["| " + " | ".join(cells) + " |" for cells in (table.header, rule, *table.rows)]
    return "\n".join([f"**{table.title}**", "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="JSON files of benchmarks.layers or xcnorm bench models")
    parser.add_argument("page", type=Path, help="Markdown file")
    arguments = parser.parse_args()
    for path in arguments.results:
        write_page(json.loads(path.read_text(encoding="utf-8")), arguments.page)


if __name__ == "__main__":
    main()
