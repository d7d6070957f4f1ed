"""`xcnorm demo`: three small networks, compared on embedded digits."""

from pathlib import Path
from typing import Annotated

import typer

from xcnorm.cli import _output


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
    from xcnorm import demo
    from xcnorm.report import renderers

    report, page = demo.run(out, iterations=iterations, seed=seed, console=_output.progress())
    if json:
        _output.print_json(report.to_dict() | {"page": str(page)})
        return
    console = _output.results()
    for part in renderers.terminal(report):
        console.print(part)
    console.print(f"Report: {page}", soft_wrap=True, markup=False)
