"""`xcnorm evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from xcnorm.cli import _arguments, _output, _runs


def command(
    run: Annotated[Path, typer.Argument(help="Folder of a run, such as runs/digits/erm+conv-1a2b3c/seed0.")],
    data: _arguments.Data = None,
    device: _arguments.Device = "auto",
    json: _output.Json = False,
) -> None:
    """Test the weights of a run again, for example on targets that were missing when it was trained."""
    from xcnorm.engine import RunFolder, evaluate_run, world

    folder = RunFolder(run)
    with world(device) as here:
        evaluate_run(folder, here, data=data)
    _runs.print_run(folder, json)
