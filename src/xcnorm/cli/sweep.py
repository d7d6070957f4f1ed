"""`xcnorm sweep`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from xcnorm.cli import _arguments, _output

if TYPE_CHECKING:
    from xcnorm.sweep import Board


def command(
    preset: Annotated[
        str, typer.Argument(help="A preset of the package, such as paper/table1_digits, or a .toml file of yours.")
    ],
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many experiments at a time; unless given, one for each GPU, or one on the CPU (on Ray: one for "
            "each core).",
            show_default=False,
        ),
    ] = None,
    on: Annotated[
        Literal["local", "ray"],
        typer.Option(
            help="This machine, or a Ray cluster, all of whose machines must see the folders of runs and data."
        ),
    ] = "local",
    changes: _arguments.Changes = None,
    data: _arguments.Data = None,
    out: _arguments.Runs = Path("runs"),
    device: _arguments.Device = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the experiments and where they would go.")] = False,
    json: _output.Json = False,
) -> int:
    """Train and test every experiment of a preset, several at a time.

    The same command again goes on where it was interrupted and tries again what failed; what is finished is left
    alone. Several sweeps may share one folder of runs. The exit code is 1 when an experiment has failed.
    """
    from contextlib import closing

    from xcnorm.engine import load_preset
    from xcnorm.sweep import Board, Display, Job, LocalPool, RayPool, conduct

    chosen = load_preset(preset)
    # Processes on other machines start in other folders.
    out, data = out.absolute(), data and data.absolute()
    experiments = chosen.experiments(_arguments.parse_changes(changes))
    board = Board(Job(experiment, out, data, device) for experiment in experiments)
    if not dry_run and board.among("waiting"):
        pool = RayPool(device, workers) if on == "ray" else LocalPool(device, workers)
        with closing(pool), Display(board, _output.progress()) as display:
            conduct(board, pool, display)
    if json:
        _output.print_json({"preset": chosen.name, "runs": str(out), **_summary(board)})
    elif dry_run:
        for entry in board.entries:
            print(f"{entry.state}: {entry.label}, seed {entry.seed}: {entry.job.folder.path}")
    else:
        _render(board, chosen.title)
    return 1 if board.among("failed") else 0


def _summary(board: "Board") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "arms": [asdict(arm) for arm in board.arms()],
        "experiments": [
            {
                "label": entry.label,
                "seed": entry.seed,
                "folder": str(entry.job.folder.path),
                "state": entry.state,
                "reason": entry.reason,
                "score": entry.score,
            }
            for entry in board.entries
        ],
    }


def _render(board: "Board", title: str) -> None:
    from rich.text import Text

    from xcnorm.sweep import arms_table

    console = _output.results()
    table = arms_table(board)
    table.title = title
    console.print(table)
    for entry in board.among("failed"):
        log = entry.job.folder.path / "train.log"
        line = f": {entry.label}, seed {entry.seed}: {entry.reason} (see {log})"
        console.print(Text.assemble(("failed", "red"), line), soft_wrap=True)
