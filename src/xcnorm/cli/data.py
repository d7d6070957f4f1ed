"""`xcnorm data`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from xcnorm.cli import _output
from xcnorm.errors import UserError

app = typer.Typer(help="See which benchmarks there are, fetch their data, and check it.")

Name = Annotated[str, typer.Argument(metavar="BENCHMARK", help="Name of the benchmark; xcnorm data list shows them.")]
Root = Annotated[
    Path | None, typer.Option("--data", envvar="XCNORM_DATA", help="Folder that holds the data.", show_default=False)
]


@app.command("list")
def list_benchmarks(root: Root = None, json: _output.Json = False) -> None:
    """Show the benchmarks, and which parts of their data are here."""
    from rich.table import Table

    from xcnorm.data.places import data_root
    from xcnorm.data.registry import card, list_benchmarks

    folder = data_root(root)
    rows: list[dict[str, Any]] = []
    for name in list_benchmarks():
        described = card(name)
        rows.append(
            {
                "name": name,
                "title": described.title,
                "summary": described.summary,
                "metric": described.metric,
                "licence": described.licence,
                "citation": described.citation,
                **_presence(name, folder),
            }
        )
    if json:
        _output.print_json({"data": str(folder), "benchmarks": rows})
        return
    console = _output.results()
    table = Table(title=f"Benchmarks; data in {folder}", show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", ratio=1)
    table.add_column("data")
    for row in rows:
        table.add_row(row["name"], row["summary"], row["data"])
    console.print(table)


def _presence(name: str, root: Path) -> dict[str, Any]:
    """Which parts are here, without reading them."""
    from xcnorm.data.parts import MissingPartError
    from xcnorm.data.registry import find_benchmark

    here, missing = [], []
    for part in find_benchmark(name).PARTS:
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
    name: Name,
    root: Root = None,
    from_folder: Annotated[
        Path | None, typer.Option(help="Take files that you fetched by hand from this folder.", show_default=False)
    ] = None,
) -> int:
    """Fetch a benchmark's files, check them, and unpack archives. What is there already is left alone."""
    from xcnorm.data.download import adopt, bytes_bar, fetch, unpack
    from xcnorm.data.places import data_root
    from xcnorm.data.registry import card

    folder = data_root(root)
    files = card(name).files
    console = _output.results()
    if from_folder is not None and not from_folder.is_dir():
        raise UserError(f"--from-folder {from_folder} is not a folder")
    if not files:
        console.print(f"{name} needs no download.")
        return 0
    failures = []
    for file in files:
        if file.unpacks_to and (folder / file.unpacks_to).exists():
            console.print(f"{file.unpacks_to}: already here")
            continue
        try:
            if from_folder is not None and _offered(file.path, from_folder):
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
            console.print(f"[red]{file.path}[/]: {error}", soft_wrap=True)
            if file.urls and file.manual:
                console.print(file.manual, soft_wrap=True)
        else:
            console.print(f"[green]{file.path}[/]: here")
    if failures:
        raise UserError(f"{len(failures)} of {len(files)} files of {name} are not here: {', '.join(failures)}")
    return 0


def _offered(path: str, folder: Path) -> bool:
    return any(place.is_file() for place in (folder / path, folder / Path(path).name))


@app.command()
def verify(
    name: Annotated[
        str | None, typer.Argument(metavar="[BENCHMARK]", help="Name of the benchmark; all of them unless given.")
    ] = None,
    root: Root = None,
    json: _output.Json = False,
) -> int:
    """Check the data that is here: checksums where they were published, and reading every file.

    The exit code is 2 when something is damaged, or when the source of the named benchmark is missing.
    """
    from dataclasses import asdict

    from xcnorm.data.places import data_root
    from xcnorm.data.registry import list_benchmarks
    from xcnorm.data.verify import verify

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
                console.print(f"{benchmark}: {finding.part}: {state}: {finding.detail}", soft_wrap=True)
    if json:
        _output.print_json({"data": str(folder), "benchmarks": found})
    return 2 if bad else 0
