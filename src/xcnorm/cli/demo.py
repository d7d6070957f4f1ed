"""`xcnorm demo`."""

from pathlib import Path
from typing import Annotated

import typer

from xcnorm.cli import _output


def command(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("xcnorm-demo"),
    iterations: Annotated[int, typer.Option(min=1, help="Training steps of each network.")] = 120,
    seed: Annotated[int, typer.Option(min=0, help="Seed of training.")] = 0,
    json: _output.Json = False,
) -> None:
    """Train plain, XCNorm and R-XCNorm networks on the embedded digits and compare them on unseen domains."""
    from xcnorm import demo

    result = demo.run(out, iterations=iterations, seed=seed, console=_output.progress())
    if json:
        _output.print_json(result.to_dict())
    else:
        result.render(_output.results())
