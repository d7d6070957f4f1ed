"""`xcnorm report`: tables, figures and a page from finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from xcnorm.cli import _arguments, _output
from xcnorm.errors import UserError, unknown_name

FORMATS = ("html", "markdown", "latex", "csv", "terminal")


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUNS...", help="Folders with runs, or with records of runs.", show_default=False),
    ],
    preset: Annotated[
        str | None, typer.Option(help="Table or figure to make: the name of a preset, or a file.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write: .html, .md, .tex or .csv.", show_default=False),
    ] = None,
    how: Annotated[
        str | None,
        typer.Option("--format", help=f"One of {', '.join(FORMATS)}; by the ending of -o.", show_default=False),
    ] = None,
    selection: Annotated[
        str, typer.Option(help="Which weights: last, best_on_source, best_on_probe, or oracle, which is a diagnostic.")
    ] = "last",
    records: Annotated[
        Path | None,
        typer.Option(help="Write each run as one small file below this folder, to publish it.", show_default=False),
    ] = None,
    root: _arguments.Data = None,
    json: _output.Json = False,
) -> None:
    """Make tables, figures and an HTML page from finished runs. Runs that are broken or not finished are listed."""
    if how is not None and how not in FORMATS:
        raise UserError(unknown_name("format", how, FORMATS))
    if how == "html" and out is None:
        raise UserError("--format html needs a file to write: -o report.html")
    if how == "terminal" and out is not None:
        raise UserError("--format terminal is for the screen; leave out -o, or choose another format")

    from xcnorm.engine.presets import load_preset
    from xcnorm.report import build, find_runs, renderers
    from xcnorm.report.records import write_record
    from xcnorm.report.write import TEXTS, format_of, write

    if how is None:
        how = "terminal" if out is None else format_of(out)
    found = find_runs(*runs)
    report = build(found, None if preset is None else load_preset(preset), selection)
    files = [] if out is None else write(report, out, how, root)
    if records is not None:
        files += [write_record(run, records) for run in found.finished]
    console = _output.results(wide=True)
    if json:
        _output.print_json(report.to_dict() | {"files": list(map(str, files))})
    elif out is not None:
        console.print(f"{out}: {len(report.tables)} tables; {len(report.broken)} runs left out", soft_wrap=True)
    elif how in TEXTS:
        print(TEXTS[how](report), end="")
    else:
        for part in renderers.terminal(report):
            console.print(part)
