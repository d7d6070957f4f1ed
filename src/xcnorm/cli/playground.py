"""`xcnorm playground`: a local page to play with networks."""

import os
import sys
from typing import Annotated

import typer

from xcnorm.cli import _arguments, _output


def command(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Runs, folders of runs, or other models that xcnorm audit takes; those of xcnorm demo unless given.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")] = 0,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    data: _arguments.Data = None,
) -> None:
    """Play with networks: draw a digit or open a picture, let it go wrong, and see what each of them makes of it.

    The page is served to this machine only, until Ctrl-C.
    """
    import webbrowser

    from xcnorm.playground import PlaygroundServer, open_playground

    _output.progress().print("opening the networks ...", markup=False)
    with PlaygroundServer(open_playground(models or (), data), port) as server:
        _output.results().print(f"Playground: {server.address} (Ctrl-C ends it)", soft_wrap=True, markup=False)
        if show and _has_screen():
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            _output.progress().print("ended", markup=False)


def _has_screen() -> bool:
    """Elsewhere, what opens may be a browser for the terminal, which takes it away."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
