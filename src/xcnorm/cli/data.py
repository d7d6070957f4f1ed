"""`xcnorm data`: which benchmarks there are, and their files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from xcnorm.cli import _arguments, _output
from xcnorm.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from xcnorm.data.download import RemoteFile

app = typer.Typer(help="See which benchmarks there are, fetch their data, and check it.")


@app.command("list")
def list_benchmarks(
    name: Annotated[
        str | None, typer.Argument(metavar="[BENCHMARK]", help="Name of one, to see its card; all unless given.")
    ] = None,
    root: _arguments.Data = None,
    json: _output.Json = False,
) -> None:
    """Show the benchmarks, and which parts of their data are here."""
    from rich.table import Table

    from xcnorm.data.catalogue import card, list_benchmarks
    from xcnorm.folders import data_root

    folder = data_root(root)
    rows: list[dict[str, Any]] = []
    for benchmark in [name] if name else list_benchmarks():
        described = card(benchmark)
        rows.append(
            {
                "name": benchmark,
                "title": described.title,
                "summary": described.summary,
                "classes": list(described.classes),
                "pixels": described.pixels,
                "metric": described.metric,
                "licence": described.licence,
                "citation": described.citation,
                "files": [{"path": file.path, "size": file.size, "urls": file.urls} for file in described.files],
                **_presence(benchmark, folder),
            }
        )
    if json:
        _output.print_json({"data": str(folder), "benchmarks": rows})
        return
    console = _output.results()
    if name:
        grid = Table.grid(padding=(0, 2))
        for key in ("title", "summary", "metric", "licence", "citation", "data"):
            grid.add_row(key, rows[0][key])
        for file in rows[0]["files"]:
            size = f"{file['size']:,} bytes" if file["size"] else "size unknown"
            grid.add_row("file", f"{file['path']} ({size}) {', '.join(file['urls']) or 'to be fetched by hand'}")
        console.print(grid)
        return
    table = Table(title=f"Benchmarks; data in {escape(str(folder))}", show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", ratio=1)
    table.add_column("data")
    for row in rows:
        table.add_row(row["name"], row["summary"], row["data"])
    console.print(table)


def _presence(name: str, root: Path) -> dict[str, Any]:
    """Which parts are here, without reading them."""
    from xcnorm.data.catalogue import BENCHMARKS
    from xcnorm.data.parts import MissingPartError

    here, missing = [], []
    for part in BENCHMARKS[name].parts:
        try:
            part.find(root, name)
        except MissingPartError:
            missing.append(part.name)
        else:
            here.append(part.name)
    if not here and not missing:
        text = "your own" if name == "folder" else "needs none"
    elif not missing:
        text = "here"
    else:
        text = f"missing: {', '.join(missing)}" if here else "not here"
    return {"data": text, "here": here, "missing": missing}


@app.command()
def download(
    name: Annotated[
        str | None, typer.Argument(metavar="[BENCHMARK]", help="Name of the benchmark; all of them unless given.")
    ] = None,
    root: _arguments.Data = None,
    from_folder: Annotated[
        Path | None, typer.Option(help="Take files that you fetched by hand from this folder.", show_default=False)
    ] = None,
) -> None:
    """Fetch a benchmark's files, check them, and unpack archives. What is there already is left alone.

    With --from-folder nothing is fetched over the network.
    """
    from xcnorm.data.catalogue import BENCHMARKS, card, list_benchmarks
    from xcnorm.folders import data_root

    if from_folder is not None and not from_folder.is_dir():
        raise UserError(f"--from-folder {from_folder} is not a folder")
    console = _output.results()
    files = [file for benchmark in ([name] if name else list_benchmarks()) for file in card(benchmark).files]
    if name and not files:
        for part in BENCHMARKS[name].parts:
            part.find(data_root(root), name)  # says what to do if it is missing
        console.print(f"{name} needs no download.")
        return
    failures = _download(files, data_root(root), from_folder, console)
    if failures:
        whose = f" of {name}" if name else ""
        raise UserError(f"{len(failures)} of {len(files)} files{whose} are not here: {', '.join(failures)}")


def _download(files: Sequence["RemoteFile"], folder: Path, from_folder: Path | None, console: "Console") -> list[str]:
    """Fetch files one after the other, telling of each; the paths of those that could not be had."""
    from xcnorm.data.download import adopt, bytes_bar, fetch, unpack

    failures = []
    for file in files:
        if file.unpacks_to and (folder / file.unpacks_to).exists():
            console.print(f"{file.unpacks_to}: already here")
            continue
        try:
            if (folder / file.path).exists():
                path = fetch(file, folder)  # which looks whether it is the right one
            elif from_folder is not None:
                path = adopt(file, folder, from_folder)
            else:
                with bytes_bar(file.path) as progress:
                    path = fetch(file, folder, progress=progress)
            if file.unpacks_to:
                with bytes_bar(f"unpacking {file.path}") as progress:
                    unpack(path, path.parent, progress=progress)
                if not (folder / file.unpacks_to).exists():
                    raise UserError(f"{path} was unpacked, but holds no {file.unpacks_to}; it is not what was expected")
        except UserError as error:
            failures.append(file.path)
            console.print(f"[red]{file.path}[/]: {escape(str(error))}", soft_wrap=True)
            if file.urls and file.manual:
                console.print(escape(file.manual.replace("{root}", str(folder))), soft_wrap=True)
        else:
            console.print(f"[green]{file.path}[/]: here")
    return failures


@app.command()
def verify(
    name: Annotated[
        str | None, typer.Argument(metavar="[BENCHMARK]", help="Name of the benchmark; all of them unless given.")
    ] = None,
    root: _arguments.Data = None,
    json: _output.Json = False,
) -> int:
    """Check the data that is here: checksums where they were published, and reading every file.

    The exit code is 2 when something is damaged, or when the source of the named benchmark is missing.
    """
    from dataclasses import asdict

    from xcnorm.data.catalogue import list_benchmarks
    from xcnorm.data.verify import verify
    from xcnorm.folders import data_root

    folder = data_root(root)
    names = [name] if name else [known for known in list_benchmarks() if known != "folder"]
    console = _output.results()
    colours = {"ok": "green", "missing": "yellow", "damaged": "red"}
    found: dict[str, list[dict[str, Any]]] = {}
    bad = 0
    for benchmark in names:
        found[benchmark] = []
        for finding in verify(benchmark, folder):
            found[benchmark].append(asdict(finding))
            bad += finding.state == "damaged" or (finding.state == "missing" and bool(name) and not finding.target)
            if not json:
                state = f"[{colours[finding.state]}]{finding.state}[/]"
                console.print(f"{benchmark}: {finding.part}: {state}: {escape(finding.detail)}", soft_wrap=True)
    if json:
        _output.print_json({"data": str(folder), "benchmarks": found})
    return 2 if bad else 0
