"""The folder of a run: what it was asked, what it did, what came out."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from xcnorm.engine.checkpoint import flush
from xcnorm.engine.experiment import Experiment, make_experiment
from xcnorm.engine.tensorboard import TensorBoard
from xcnorm.errors import UserError


class RunFolder:
    """The files of one run.

    Args:
        path: The folder, named after the experiment.

    Attributes:
        path: The folder.
        checkpoints: Where its checkpoints are.
        board: Is also told what is logged; None for nobody.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoint"
        self.board: TensorBoard | None = None

    @classmethod
    def of(cls, experiment: Experiment, runs: Path) -> RunFolder:
        """The folder of an experiment below the folder of runs."""
        return cls(runs / experiment.folder)

    @property
    def finished(self) -> bool:
        """Whether it was trained and tested to the end."""
        return (self.path / "metrics.json").exists()

    def begin(self, experiment: Experiment, environment: Mapping[str, Any]) -> None:
        """Write down what is going to be done, and where.

        Raises:
            UserError: The folder cannot be written, or belongs to another experiment.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            config = self.path / "config.toml"
            if config.exists():
                found = self.experiment()
                if found.hash != experiment.hash or found.seed != experiment.seed:
                    raise UserError(f"{self.path} belongs to another experiment; choose another --out")
            else:
                write(config, experiment.to_toml())
            write(self.path / "environment.json", json.dumps(environment, indent=1) + "\n")
            (self.path / "failed.txt").unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}; choose another --out") from error

    def experiment(self) -> Experiment:
        """The experiment in its ``config.toml``.

        Raises:
            UserError: There is none, or it cannot be read.
        """
        if not (self.path / "config.toml").exists():
            raise UserError(f"{self.path} is no run: it has no config.toml")
        return make_experiment(read_config(self.path / "config.toml"))

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes off this run. The claim ends with the process, however that ends.

        Raises:
            UserError: Another process is at it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a") as handle:
            try:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:  # Windows
                pass
            except BlockingIOError as error:
                raise UserError(f"{self.path} is being worked on by another process") from error
            yield

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line to ``log.jsonl``."""
        if self.board is not None:
            self.board.log(line)
        path = self.path / "log.jsonl"
        try:
            with path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(line) + "\n")
        except OSError as error:
            raise _cannot_write(path, error) from error

    def cut_log(self, step: int) -> None:
        """Forget what was logged after a step, because it is going to be done again."""
        path = self.path / "log.jsonl"
        if not path.exists():
            return
        kept = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line)
            except ValueError:  # the process was killed in the middle of it
                continue
        write(path, "".join(f"{line}\n" for line in kept))

    def fail(self, reason: str) -> None:
        """Write down why it ended early, if that can still be written."""
        with suppress(UserError):  # a full disk: the caller is about to tell the reason anyway
            write(self.path / "failed.txt", " ".join(reason.split()) + "\n")

    def save_weights(self, rule: str, weights: Mapping[str, Tensor]) -> None:
        """Keep the weights that a selection rule chose."""
        with whole(self.path / f"{rule}.safetensors") as part:
            save_file({name: tensor.contiguous() for name, tensor in weights.items()}, part)

    def weights(self, rule: str) -> dict[str, Tensor]:
        """The weights that a selection rule chose.

        Raises:
            UserError: There are none.
        """
        path = self.path / f"{rule}.safetensors"
        if not path.exists():
            raise UserError(f"{self.path} has no weights for {rule!r}; finish it first: xcnorm train does")
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            raise UserError(
                f"cannot read {path}: {error}; delete {self.path / 'metrics.json'} and train again"
            ) from error


def read_config(path: Path) -> dict[str, Any]:
    """The values in a file of an experiment.

    Raises:
        UserError: It cannot be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        UserError: The disk is full or cannot be written.
    """
    with whole(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """The name to write a file under; it gets its own when all of it is on the disk.

    Raises:
        UserError: The disk is full or cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        flush(part)
        part.replace(path)
    except (OSError, SafetensorError) as error:
        part.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: Exception) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"cannot write {path}: {reason}; free some space and run the same command again")
