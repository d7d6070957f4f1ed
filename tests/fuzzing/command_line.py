"""The command line as an entrance: arguments, one a line, to commands that train nothing and fetch nothing."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.fuzzing.entrance import Entrance, Prepared
from tests.report.folders import settings, write_run
from xcnorm.cli import main
from xcnorm.engine.experiment import Experiment
from xcnorm.errors import UserError

_OPTIONS = """--benchmark --method --augment --model --layer --recipe --seed --set --config --data --out --device --json
--dry-run --help --version --traceback --preset --format --selection --workers --on -o -h --"""
_VALUES = """digits-mini folder erm randconv conv r_xcnorm fast paper 0 -1 1e9 nan auto cuda cpu html last ray local
schedule.iterations=3 model.options.tau=2 seed=1 paper/table1_digits_mini config.toml runs . .. / nowhere"""


def _called(command: Sequence[str], folder: Path, seeds: Sequence[str]) -> Entrance:
    write_run(folder / "runs", settings(benchmark="digits-mini"), {"mnist_m": 0.7})
    (folder / "config.toml").write_text(Experiment().to_toml())

    def run(data: bytes) -> None:
        # No argument of a process can hold a zero.
        given = data.replace(b"\0", b"").decode("utf-8", "surrogateescape").split("\n")
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out, _silence() as complaint:
            code = main([*command, *given] if data else list(command))
        said = complaint.getvalue()
        assert "internal error" not in said, said
        assert "Traceback" not in said, said
        assert code in (0, 2) or (code == 1 and out.getvalue()), f"exit code {code}: {said}"
        if code == 2:
            raise UserError(said.removesuffix("\n") or "said on stdout")

    return Entrance(tuple(seed.replace(" ", "\n").encode() for seed in seeds), run, _tokens())


@contextlib.contextmanager
def _silence():
    """Standard error as a text, with tracebacks on, so that a crash says where it was."""
    before = os.environ.get("XCNORM_TRACEBACK")
    os.environ["XCNORM_TRACEBACK"] = "1"
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            yield said
    finally:
        if before is None:
            del os.environ["XCNORM_TRACEBACK"]


def _tokens() -> tuple[bytes, ...]:
    return tuple(f"\n{word}\n".encode() for word in f"{_OPTIONS} {_VALUES}".split())


_SEEDS = {
    "train --dry-run": ["--method erm --layer xcnorm", "--config config.toml --set seed=3", "--recipe paper --json"],
    "sweep --dry-run": ["paper/table1_digits_mini", "paper/table1_digits_mini --set schedule.iterations=3 --json"],
    "report": ["runs", "runs --format csv", "runs --preset paper/table1_digits_mini --format markdown", "runs --json"],
    "evaluate": ["runs", "runs/digits-mini --json"],
    "data list": ["", "digits-mini", "--json"],
    "data verify": ["digits --data nowhere", "camelyon17 --data runs --json"],
}
COMMANDS: dict[str, Prepared] = {
    "xcnorm": partial(_called, (), seeds=["--version", "train --help", "data --help", "report -h"]),
    **{f"xcnorm {name}": partial(_called, name.split(), seeds=seeds) for name, seeds in _SEEDS.items()},
}
