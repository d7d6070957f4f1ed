"""The pages of results: tables and figures of presets, from the records of runs in ``results/``.

    xcnorm sweep paper/table1_digits --data DIR --out runs
    xcnorm report runs --records results
    python -m benchmarks.reproduction results docs/reproduction.md docs/methods/index.md

Between ``<!-- preset NAME -->`` and ``<!-- end NAME -->`` a page gets the preset's own table and figure, the seeds of
its rows, the command and the machine. A row that has not been run is listed as such; a run that carries a row's name
but was made by other settings is left out.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

from xcnorm.engine import load_preset
from xcnorm.engine.presets import Preset
from xcnorm.errors import UserError
from xcnorm.report import build, find_runs
from xcnorm.report.arms import Arm, arrange, asked_for
from xcnorm.report.figures import save_chart
from xcnorm.report.renderers import markdown_table
from xcnorm.report.runs import Runs

_MARK = re.compile(r"<!-- preset (\S+) -->.*?<!-- end \1 -->", re.DOTALL)


def fill(page: Path, runs: Runs) -> str:
    """The text of a page with the results of the presets that it has a place for; their figures go beside it."""
    text = page.read_text(encoding="utf-8")
    if not _MARK.search(text):
        raise UserError(f"{page} has no place for a preset: <!-- preset NAME --> and <!-- end NAME -->")

    def filled(place: re.Match[str]) -> str:
        name = place[1]
        return f"<!-- preset {name} -->\n\n{section(load_preset(name), runs, page.parent)}\n\n<!-- end {name} -->"

    return _MARK.sub(filled, text)


def section(preset: Preset, runs: Runs, folder: Path) -> str:
    """The results of a preset in Markdown.

    Args:
        preset: Which rows, and what the paper says.
        runs: All that there are.
        folder: Where the page lies; its figure goes into the folder ``reproduction`` in it.
    """
    exact = asked_for(runs.finished, preset)  # by its recipe, that is, and not only under its name
    runs = Runs(tuple(run for run in runs.finished if run.folder in exact), ())
    arms, _ = arrange(runs.finished, preset)
    planned = f"`xcnorm sweep {preset.name} --data DIR`, {len(preset.experiments())} experiments"
    if not any(arm.runs for arm in arms):
        return f"**Not run yet**: {planned}."
    made = build(runs, preset).sections[0]
    parts = [markdown_table(made.tables[0])]
    for chart in made.charts:
        if chart.name == preset.kind:
            (folder / "reproduction").mkdir(exist_ok=True)
            stem = f"{preset.name.replace('/', '_')}_{chart.name}"
            files = [path.name for path in save_chart(chart, folder / "reproduction" / stem)]
            light, dark = (
                next(name for name in files if name.endswith(end)) for end in (f"{chart.name}.svg", "_dark.svg")
            )
            parts.append(
                f"![{chart.title}](reproduction/{light}#only-light)\n![{chart.title}](reproduction/{dark}#only-dark)"
            )
    return "\n\n".join([*parts, _origin(preset, arms)])


def _origin(preset: Preset, arms: Sequence[Arm]) -> str:
    """Where the numbers come from: the command, the seeds, the machines, the time."""
    runs = [run for arm in arms for run in arm.runs]
    graph = " --set run.graph=true" if any(run.settings["run.graph"] for run in runs) else ""
    seeds = {arm.label: ", ".join(map(str, sorted({run.seed for run in arm.runs}))) for arm in arms if arm.runs}
    usual = statistics.mode(seeds.values())
    unlike = "".join(f", of {label} {own}" for label, own in seeds.items() if own != usual)
    machines = dict.fromkeys(
        f"{run.environment['device']}, torch {run.environment['torch']}, commit {run.environment['commit']}"
        for run in runs
    )
    seconds = [float(run.metrics["seconds"]) for run in runs if "seconds" in run.metrics]
    time = f", {statistics.median(seconds):.0f} seconds each (median, several at a time)" if seconds else ""
    return (
        f"`xcnorm sweep {preset.name} --data DIR{graph}`; seeds {usual}{unlike}; "
        f"{len(runs)} of {len(preset.experiments())} experiments run{time}; "
        f"{'; '.join(machines)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="folder of records")
    parser.add_argument("pages", type=Path, nargs="+", help="pages with places for presets")
    given = parser.parse_args()
    runs = find_runs(given.records)
    for broken in runs.broken:
        print(f"left out {broken.folder}: {broken.reason}")
    for page in given.pages:
        page.write_text(fill(page, runs), encoding="utf-8")


if __name__ == "__main__":
    main()
