"""The command line: one module per command, found by name.

A module of this package whose name does not start with an underscore is a command, called like the module unless
`NAME` says otherwise. It holds a function `command`, whose signature is the command's options, as typer reads them, and
whose docstring is the help; or, for a command that has commands of its own, a typer `app`. The function returns
nothing, or an exit code: 0 all is well, 1 the run failed, 2 the user must fix something. Command modules import what is
heavy inside the function, so that `--help` stays quick.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, cast

import typer

from xcnorm._version import __version__
from xcnorm.allocator import keep_freed_memory
from xcnorm.errors import UserError, printable
from xcnorm.registry import discover

__all__ = ["main"]

INTERRUPTED = 130

# The base of all that typer raises about arguments. It has no public name that every supported typer shares.
_ArgumentError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[2])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: The arguments after the program's name; those of this process unless given.
    """
    code = _run(list(sys.argv[1:] if argv is None else argv) or ["--help"])
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes once more on its way out and would print a second complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or _os_error(error)
    return code


def _run(args: list[str]) -> int:
    settings = SimpleNamespace(traceback=False)
    command = typer.main.get_command(_app())
    try:
        code = command.main(args, prog_name="xcnorm", standalone_mode=False, obj=settings)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except _ArgumentError as error:
        return _complain(_usage(error), 2)
    except UserError as error:
        return _complain(str(error), 2)
    except OSError as error:
        return _os_error(error)
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
        if settings.traceback:
            traceback.print_exc()
        else:
            message += " (run with XCNORM_TRACEBACK=1 or xcnorm --traceback for the details)"
        return _complain(message, 1)
    if code == INTERRUPTED:
        return _complain("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _app() -> typer.Typer:
    app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})
    app.callback()(_options)
    for module in discover(__name__):
        name = getattr(module, "NAME", module.__name__.rpartition(".")[2].replace("_", "-"))
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"xcnorm {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    traceback: Annotated[
        bool, typer.Option("--traceback", envvar="XCNORM_TRACEBACK", help="Show the traceback of a bug.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Normalised cross-correlation convolutions for single domain generalization."""
    context.obj.traceback = traceback
    keep_freed_memory()


def _usage(error: typer.BadParameter) -> str:
    """Phrase an error of typer's the way we phrase ours, and say where to read on."""
    message = error.format_message().rstrip(".").replace(". Did you mean", "; did you mean")
    program = error.ctx.command_path if error.ctx else "xcnorm"
    return f"{message[:1].lower()}{message[1:]} (see {program} --help)"


def _os_error(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
        return 1
    name = f": {error.filename}" if error.filename else ""
    return _complain(f"{error.strerror or error}{name}", 2)


def _complain(message: str, code: int) -> int:
    print("xcnorm:", printable(" ".join(message.split())), file=sys.stderr)
    return code
