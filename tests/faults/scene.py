"""The scene of a fault: a training so small that it takes a moment, and what it must come to."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from tests.engine import small
from tests.engine.programs import folder, results
from xcnorm.cli import main
from xcnorm.engine.checkpoint import load_checkpoint

PLUGIN = Path(__file__).with_name("networks.py")
NOBODY = 65534
STEPS, EVERY = 16, 3
SETTINGS = {
    "benchmark_options.source": "source",
    "benchmark_options.validation": 0.2,
    "model.name": "tiny",
    "model.layer": "r_xcnorm",
    "method.name": "randconv",
    "data.augment": '["flip","crop"]',
    "schedule.epochs": 0,
    "schedule.iterations": STEPS,
    "schedule.batch": 16,
    "run.evaluate_every": 4,
    "run.checkpoint_every": EVERY,
}

Sabotage = Callable[[], object]


class Program:
    """The command line in a process of its own, forked: nothing has to be imported again.

    Args:
        args: Of the command line.
        said: The file that gets what it says.
        sabotage: Is called in the process before anything else.
        after: Is called in the process at its end.
    """

    def __init__(
        self, args: list[str], said: Path, sabotage: Sabotage | None = None, after: Sabotage | None = None
    ) -> None:
        self._said = said
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            code = 70
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray, in the process that is forked, has taken it
            try:
                with said.open("wb", buffering=0) as file:
                    os.dup2(file.fileno(), 1)
                    os.dup2(file.fileno(), 2)
                if sabotage is not None:
                    sabotage()
                code = main(args)
                sys.stderr.flush()
                if after is not None:
                    after()
            finally:
                os._exit(code)

    def send(self, number: int) -> None:
        """A signal."""
        os.kill(self.pid, number)

    def wait(self) -> tuple[int, str]:
        """The exit code, negative for a signal, and the last line that it said."""
        _, status = os.waitpid(self.pid, 0)
        lines = self._said.read_text(errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        return os.waitstatus_to_exitcode(status), said[-1] if said else ""

    def said(self) -> str:
        """All that it said."""
        return self._said.read_text(errors="replace")


class Scene:
    """Pictures, and what a training on them leaves behind that nobody disturbs.

    Args:
        root: A folder that everybody may look into.

    Attributes:
        seconds: How long it takes.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.pictures = root, root / "pictures"
        small.pictures(self.pictures)
        _import_what_is_needed(self.arguments(root / "first"), root / "modules")
        begin = time.monotonic()
        code, said = self.start(root / "whole").wait()
        self.seconds = time.monotonic() - begin
        if code:
            raise RuntimeError(said)
        self.expected = results(folder(root / "whole"))

    def arguments(self, out: Path, pictures: Path | None = None) -> list[str]:
        """Of the one command of this scene."""
        data = str(pictures or self.pictures)
        args = ["train", "--benchmark", "folder", "--data", data, "--out", str(out), "--device", "cpu"]
        return [*args, *(part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}"))]

    def start(self, out: Path, sabotage: Sabotage | None = None, pictures: Path | None = None) -> Program:
        """Start the command."""
        out.mkdir(exist_ok=True)
        handle, said = tempfile.mkstemp(".said", dir=self.root)
        os.close(handle)
        return Program(self.arguments(out, pictures), Path(said), sabotage)

    def partly(self, out: Path, step: int) -> Path:
        """The folder of a run that was asked to stop after a step."""

        def stop_there() -> None:
            from xcnorm.engine.trainer import Trainer

            advance = Trainer.advance

            def advance_and_ask(self: Trainer) -> torch.Tensor | None:
                loss = advance(self)
                if self.step == step:
                    os.kill(os.getpid(), signal.SIGTERM)
                return loss

            Trainer.advance = advance_and_ask  # type: ignore[method-assign]

        code, said = self.start(out, stop_there).wait()
        assert (code, said) == (130, "xcnorm: interrupted"), (code, said)
        return folder(out)

    def lost(self, out: Path) -> int:
        """The steps that were done and have to be done again; fails if what is on the disk cannot be loaded."""
        if not list(out.glob("**/config.toml")):
            return 0
        run = folder(out)
        found = load_checkpoint(run / "checkpoint")
        if not (run / "log.jsonl").exists():
            return 0
        complete = [line for line in (run / "log.jsonl").read_text().splitlines() if line.endswith("}")]
        logged = [int(line.split('"step": ')[1].split(",")[0]) for line in complete]
        return max(0, max(logged, default=0) - (found[0] if found else 0))

    def check(self, out: Path, sabotage: Sabotage | None = None) -> None:
        """The same command again comes to what it should, bit for bit, and nothing else is left."""
        code, said = self.start(out, sabotage).wait()
        assert code == 0, said
        self.compare(out)

    def compare(self, out: Path) -> None:
        """A finished run is what it should be."""
        found, expected = results(folder(out)), self.expected
        for name in ("metrics", "log"):
            assert found[name] == expected[name], name
        torch.testing.assert_close(found["weights"], expected["weights"], rtol=0, atol=0)
        assert found["predictions"].keys() == expected["predictions"].keys()
        assert all(np.array_equal(array, expected["predictions"][name]) for name, array in found["predictions"].items())
        assert list(out.rglob(".*part")) == []
        shutil.rmtree(out)


def _import_what_is_needed(args: list[str], names: Path) -> None:
    """Import here what a program imports on its way, so that those forked from here are quick and need no rights to."""
    code, said = Program(
        args, names.with_suffix(".said"), None, lambda: names.write_text("\n".join(sys.modules))
    ).wait()
    if code:
        raise RuntimeError(said)
    for name in names.read_text().split("\n"):
        with suppress(ImportError):
            import_module(name)


def as_nobody() -> None:
    """Give up the rights of root, who may read and write everything."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
