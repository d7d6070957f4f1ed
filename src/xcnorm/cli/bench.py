"""`xcnorm bench`: how fast layers, networks and corruptions are on this machine."""

import json as json_format
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer

from xcnorm.cli import _output
from xcnorm.errors import UserError, unknown_name

app = typer.Typer(help="Measure how fast things are on this machine.")

Device = Annotated[str, typer.Option(help="What to measure: auto, cpu or cuda.")]


@app.command()
def corruptions(
    device: Device = "cpu",
    images: Annotated[int, typer.Option(min=1, help="Images of each corruption and severity.")] = 10_000,
    pixels: Annotated[int, typer.Option(min=4, max=400, help="Height and width of the images.")] = 32,
    quick: Annotated[bool, typer.Option("--quick", help="Just 500 images of each.")] = False,
    json: _output.Json = False,
) -> None:
    """Time the corruption engine: 10,000 images at 32 pixels are the grid of CIFAR-10-C."""
    device = _measured(device)
    from xcnorm.bench.corruptions import GRID, crops, measure, summary

    batch = crops(500 if quick else images, pixels).to(device)
    progress = _output.progress()
    seconds = {}
    for name, found in measure(batch):
        progress.print(f"{name:20} {sum(found):8.2f} s")
        seconds[name] = found
    result = summary(seconds, batch)
    if json:
        _output.print_json(result)
        return
    title = f"Corruptions on {device}: {len(batch):,} images of {pixels} pixels, milliseconds an image"
    rows = ([name, *(f"{1e3 * value / len(batch):.3f}" for value in found)] for name, found in seconds.items())
    _output.print_table(title, ["severity", *"12345"], rows)
    print(
        f"{result['images_per_second']:,.0f} images a second; the whole grid, 19 x 5 x {GRID:,} images, takes "
        f"{result['grid_seconds']:.0f} s at this rate."
    )


def _comparison(subject: str, quick_networks: str) -> Callable[..., None]:
    """The command that compares cases of a module of `xcnorm.bench`."""

    def command(
        device: Device = "cpu",
        quick: Annotated[bool, typer.Option("--quick", help=f"{quick_networks}, fewer timings.")] = False,
        networks: Annotated[
            list[str] | None,
            typer.Option("--network", help="Measure this one only; can be repeated.", show_default=False),
        ] = None,
        precisions: Annotated[
            list[str] | None,
            typer.Option(
                "--precision", help="On a GPU bf16 or tf32; can be repeated. Both unless given.", show_default=False
            ),
        ] = None,
        modes: Annotated[
            list[str] | None,
            typer.Option(
                "--mode",
                help="eager, compiled or, on a GPU, graph; can be repeated. On a GPU graph unless given, else eager.",
                show_default=False,
            ),
        ] = None,
        threads: Annotated[int, typer.Option(min=1, help="Threads of a CPU.")] = 1,
        channels_last: Annotated[
            bool, typer.Option("--channels-last", help="Channels come last in memory on a CPU too; on a GPU they do.")
        ] = False,
        out: Annotated[Path | None, typer.Option(help="JSON file to write the result to.", show_default=False)] = None,
        json: _output.Json = False,
    ) -> None:
        device = _measured(device)
        from xcnorm.bench import layers, models
        from xcnorm.bench.compare import compare
        from xcnorm.bench.conditions import PRECISIONS, Conditions
        from xcnorm.bench.shapes import NETWORKS, QUICK
        from xcnorm.bench.summary import tables
        from xcnorm.bench.timing import MODES
        from xcnorm.models import list_models

        usual = QUICK if quick else models.MEASURED if subject == "models" else tuple(NETWORKS)
        networks = _chosen("network", networks, list_models(), usual)
        precisions = _chosen("precision", precisions, PRECISIONS[device], PRECISIONS[device])
        modes = _chosen("mode", modes, MODES[device], MODES[device][:1])
        if out is not None:
            out.open("a").close()  # a file that cannot be written should not cost the measurement first
        conditions = Conditions(device, precisions[0], threads, channels_last)
        cases = (models if subject == "models" else layers).cases(networks, device)
        progress, start = _output.progress(), time.monotonic()
        for line, result in compare(subject, cases, conditions, precisions, modes, 3 if quick else 7):
            progress.print(f"{time.monotonic() - start:5.0f} s  {line}", soft_wrap=True)
            if out is not None:
                out.write_text(json_format.dumps(result) + "\n", encoding="utf-8")
        if json:
            _output.print_json(result)
            return
        for table in tables(result):
            _output.print_table(*table)

    return command


app.command("layers", help="Time our layers beside Conv2d, BatchNorm2d and ReLU in every shape of our networks.")(
    _comparison("layers", "The layers of two networks")
)
app.command("models", help="Time training steps and inference of our networks beside the published ones.")(
    _comparison("models", "Two small networks")
)


def _chosen(what: str, given: Sequence[str] | None, known: Collection[str], usual: Sequence[str]) -> list[str]:
    for name in given or ():
        if name not in known:
            raise UserError(unknown_name(what, name, known))
    return list(given or usual)


def _measured(device: str) -> str:
    """The kind of device that is measured."""
    from xcnorm.engine import world

    with world(device) as here:
        return here.device.type
