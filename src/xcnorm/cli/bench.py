"""`xcnorm bench`."""

import json as json_format
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from xcnorm.cli import _output
from xcnorm.errors import UserError, unknown_name

app = typer.Typer(help="Measure how fast things are on this machine.")

Device = Annotated[str, typer.Option(help="What to measure: cpu or cuda.")]
Precisions = Annotated[
    list[str] | None,
    typer.Option("--precision", help="On a GPU bf16 or tf32; can be repeated. Both unless given.", show_default=False),
]
Modes = Annotated[
    list[str] | None,
    typer.Option(
        "--mode",
        help="eager, compiled or, on a GPU, graph; can be repeated. On a GPU graph unless given, else eager.",
        show_default=False,
    ),
]
Networks = Annotated[
    list[str] | None,
    typer.Option("--network", help="Measure this one only; can be repeated.", show_default=False),
]
Threads = Annotated[int, typer.Option(min=1, help="Threads of a CPU.")]
ChannelsLast = Annotated[
    bool, typer.Option("--channels-last", help="Channels come last in memory on a CPU too; on a GPU they do.")
]
Out = Annotated[Path | None, typer.Option(help="JSON file to write the result to.", show_default=False)]


@app.command()
def corruptions(
    device: Device = "cpu",
    images: Annotated[int, typer.Option(min=1, help="Images of each corruption and severity.")] = 10_000,
    pixels: Annotated[int, typer.Option(min=4, max=400, help="Height and width of the images.")] = 32,
    quick: Annotated[bool, typer.Option("--quick", help="Just 500 images of each.")] = False,
    json: _output.Json = False,
) -> None:
    """Time the corruption engine: 10,000 images at 32 pixels are the grid of CIFAR-10-C."""
    _check(device)
    from rich.table import Table

    from xcnorm.bench.corruptions import GRID, measure

    progress = _output.progress()

    def done(name: str, seconds: float) -> None:
        progress.print(f"{name:20} {seconds:8.2f} s")

    result = measure(device, 500 if quick else images, pixels, done)
    if json:
        _output.print_json(result)
        return
    table = Table(
        title=f"Corruptions on {device}: {result['images']:,} images of {pixels} pixels, milliseconds an image"
    )
    table.add_column("severity", no_wrap=True)
    for severity in range(1, 6):
        table.add_column(str(severity), justify="right")
    for name, seconds in result["seconds"].items():
        table.add_row(name, *(f"{1e3 * value / result['images']:.3f}" for value in seconds))
    console = _output.results()
    console.print(table)
    console.print(
        f"{result['images_per_second']:,.0f} images a second; the whole grid, 19 x 5 x {GRID:,} images, takes "
        f"{result['grid_seconds']:.0f} s at this rate."
    )


@app.command()
def data(
    device: Device = "cpu",
    root: Annotated[
        Path | None, typer.Option("--data", envvar="XCNORM_DATA", help="Folder with the data of the benchmark digits.")
    ] = None,
    json: _output.Json = False,
) -> None:
    """Time the loading of Digits, and a batch of CIFAR-10's pipeline beside a training step of wrn16_4."""
    _check(device)
    from xcnorm.bench.data import BATCH, measure

    result = measure(device, root)
    if json:
        _output.print_json(result)
        return
    console = _output.results()
    missing = f" (without {', '.join(result['missing'])})" if result["missing"] else ""
    memory = result["peak_memory_mib"]
    peak = f", peak memory of the process {memory:.0f} MiB" if memory else ""
    console.print(f"loading {result['loaded']}{missing}: {result['loading_seconds']:.2f} s{peak}")
    console.print(
        f"a batch of {BATCH} CIFAR-10 images: {result['batch_milliseconds']:.2f} ms; a training step of wrn16_4: "
        f"{result['step_milliseconds']:.2f} ms; ratio {result['batch_to_step']:.3f}"
    )


@app.command()
def layers(
    device: Device = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="The layers of two networks, fewer timings.")] = False,
    networks: Networks = None,
    precisions: Precisions = None,
    modes: Modes = None,
    threads: Threads = 1,
    channels_last: ChannelsLast = False,
    out: Out = None,
    json: _output.Json = False,
) -> None:
    """Time our layers beside Conv2d, BatchNorm2d and ReLU in every shape of our networks."""
    _check(device)
    from xcnorm.bench.layers import measure
    from xcnorm.bench.shapes import NETWORKS, QUICK

    chosen = _chosen("network", networks, NETWORKS, QUICK if quick else tuple(NETWORKS))
    _compare(measure, device, chosen, precisions, modes, quick, threads, channels_last, out, json)


@app.command()
def models(
    device: Device = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Two small networks, fewer timings.")] = False,
    networks: Networks = None,
    precisions: Precisions = None,
    modes: Modes = None,
    threads: Threads = 1,
    channels_last: ChannelsLast = False,
    out: Out = None,
    json: _output.Json = False,
) -> None:
    """Time training steps and inference of our networks beside the plain ones."""
    _check(device)
    from xcnorm.bench.models import MEASURED, QUICK, measure
    from xcnorm.bench.shapes import NETWORKS

    chosen = _chosen("network", networks, NETWORKS, QUICK if quick else MEASURED)
    _compare(measure, device, chosen, precisions, modes, quick, threads, channels_last, out, json)


@app.command()
def engine(
    device: Device = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps, for a first look.")] = False,
    json: _output.Json = False,
) -> None:
    """Time training steps of digits_cnn through the engine beside a loop written by hand."""
    _check(device)
    from xcnorm.bench.engine import measure

    steps = 1 if device == "cpu" else 50
    result = measure(device, steps, repeats=5 if quick else 101)
    if json:
        _output.print_json(result)
        return
    _output.results().print(
        f"a training step of digits_cnn on {device}, batch {result['batch']}: {result['engine_milliseconds']:.2f} ms "
        f"through the engine, {result['by_hand_milliseconds']:.2f} ms by hand; ratio {result['ratio']:.3f} "
        f"(at most {result['limit']:.2f} is allowed)",
        soft_wrap=True,
    )


@app.command()
def methods(
    device: Device = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer turns, for a first look.")] = False,
    names: Annotated[
        list[str] | None,
        typer.Option("--method", help="Measure this one only, beside erm; can be repeated.", show_default=False),
    ] = None,
    out: Out = None,
    json: _output.Json = False,
) -> None:
    """Time training steps of every method beside those of ERM."""
    _check(device)
    from rich.table import Table

    from xcnorm.bench.methods import measure
    from xcnorm.methods import list_methods

    chosen = _chosen("method", names, list_methods(), list_methods())
    if out is not None:
        out.open("a").close()  # a file that cannot be written should not cost the measurement first
    progress = _output.progress()
    result = measure(device, chosen, 3 if quick else 21, lambda line: progress.print(line, soft_wrap=True))
    if out is not None:
        out.write_text(json_format.dumps(result) + "\n", encoding="utf-8")
    if json:
        _output.print_json(result)
        return
    table = Table(title=f"A training step of digits_cnn on {device}, batch 32")
    for column in ("method", "milliseconds", "times ERM", "by counting passes", "between steps"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, row in result["rows"].items():
        pieces, seconds = row["pieces_of_work"], row["seconds_of_work"]
        work = f"{pieces} x {1e3 * seconds / pieces:.0f} ms" if pieces else ""
        table.add_row(name, f"{row['milliseconds']:.2f}", f"{row['ratio']:.2f}", f"{row['estimate']:g}", work)
    _output.results().print(table)


def _compare(
    measure: Callable[..., dict[str, Any]],
    device: str,
    networks: Sequence[str],
    precisions: Sequence[str] | None,
    modes: Sequence[str] | None,
    quick: bool,
    threads: int,
    channels_last: bool,
    out: Path | None,
    json: bool,
) -> None:
    """Measure sides beside each other, tell how it goes, and show or write what came out."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from xcnorm.bench.summary import tables
    from xcnorm.bench.timing import MODES, PRECISIONS

    precisions = _chosen("precision", precisions, PRECISIONS[device], PRECISIONS[device])
    modes = _chosen("mode", modes, MODES[device], MODES[device][:1])
    if out is not None:
        out.open("a").close()  # a file that cannot be written should not cost the measurement first
    progress = _output.progress()
    start = time.monotonic()

    def done(line: str) -> None:
        progress.print(f"{time.monotonic() - start:5.0f} s  {line}", soft_wrap=True)

    def keep(result: dict[str, Any]) -> None:
        if out is not None:
            out.write_text(json_format.dumps(result) + "\n", encoding="utf-8")

    result = measure(device, networks, precisions, modes, 3 if quick else 7, threads, channels_last, done, keep)
    keep(result)
    if json:
        _output.print_json(result)
        return
    console = _output.results()
    if not console.is_terminal:
        console.width = 1000  # a file is as wide as its tables
    for title, header, rows in tables(result):
        table = Table(*header, title=title, title_justify="left", box=SIMPLE_HEAD)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows:
            table.add_row(*row)
        console.print(table)


def _chosen(what: str, given: Sequence[str] | None, known: Collection[str], default: Sequence[str]) -> Sequence[str]:
    for name in given or ():
        if name not in known:
            raise UserError(unknown_name(what, name, known))
    return given or default


def _check(device: str) -> None:
    import torch

    if device not in ("cpu", "cuda"):
        raise UserError(f"device must be cpu or cuda, not {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("there is no CUDA device here; xcnorm doctor says why")
