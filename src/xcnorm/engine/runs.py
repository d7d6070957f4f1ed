"""The folder of a run: its files, which say what it was asked, what it did, and what came out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from xcnorm.engine.checkpoint import REMEDY
from xcnorm.engine.experiment import Experiment, make_experiment, parse
from xcnorm.engine.tensorboard import TensorBoard
from xcnorm.engine.toml import parse_toml
from xcnorm.errors import UserError
from xcnorm.files import disk_errors, replacing
from xcnorm.locks import locked
from xcnorm.metrics import average
from xcnorm.tensors import load_tensors, save_tensors


class Trained(NamedTuple):
    """What came of a training.

    Attributes:
        selected: For each selection rule, the step that its weights are from.
        steps: The number of training steps.
        seconds: How long they took, interruptions left out.
    """

    selected: dict[str, int]
    steps: int
    seconds: float


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
        with disk_errors(self.path, "choose another --out"):
            self.path.mkdir(parents=True, exist_ok=True)
            for part in self.path.glob(".*part"):  # of a process that was killed
                part.unlink()
            (self.path / "failed.txt").unlink(missing_ok=True)
        if (self.path / "config.toml").exists():
            found = parse(read_config(self.path / "config.toml"))
            if found.hash != experiment.hash or found.seed != experiment.seed:
                raise UserError(f"{self.path} belongs to another experiment; choose another --out")
        else:
            self.write("config.toml", experiment.to_toml())
        self.write("environment.json", json.dumps(environment, indent=1) + "\n")

    def experiment(self) -> Experiment:
        """The experiment in its ``config.toml``.

        Raises:
            UserError: There is none, or it cannot be read.
        """
        if not (self.path / "config.toml").exists():
            raise UserError(f"{self.path} is no run: it has no config.toml")
        return make_experiment(read_config(self.path / "config.toml"))

    @contextmanager
    def metrics(self) -> Iterator[dict[str, Any]]:
        """What came out: the content of ``metrics.json``, for a block that looks things up in it.

        Raises:
            UserError: It is not finished, or the file cannot be read, or lacks what the block looks for.
        """
        path = self.path / "metrics.json"
        try:
            yield json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UserError(f"{self.path} is not finished; finish it with xcnorm train") from error
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"cannot read {path}: {error}; delete it and train again") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} lacks {error}; delete it and train again") from error

    def trained(self) -> Trained:
        """What came of its training.

        Raises:
            UserError: As `metrics`.
        """
        with self.metrics() as metrics:
            selected = {rule: numbers["step"] for rule, numbers in metrics["selection"].items()}
            return Trained(selected, metrics["steps"], metrics["seconds"])

    def claimed(self) -> AbstractContextManager[None]:
        """Keep other processes off this run. The claim ends with the process, however that ends.

        Raises:
            UserError: Another process is at it.
        """
        return locked(self.path / "lock", f"{self.path} is being worked on by another process")

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Where to write one of its files; it gets its name when all of it is on the disk.

        Raises:
            UserError: The disk is full or cannot be written.
        """
        with disk_errors(self.path / name, REMEDY), replacing(self.path / name) as part:
            yield part

    def write(self, name: str, text: str) -> None:
        """Write one of its files whole or not at all.

        Raises:
            UserError: The disk is full or cannot be written.
        """
        with self.writing(name) as part:
            part.write_text(text, encoding="utf-8")

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line to ``log.jsonl``."""
        if self.board is not None:
            self.board.log(line)
        path = self.path / "log.jsonl"
        with disk_errors(path, REMEDY), path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(line) + "\n")

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
        self.write("log.jsonl", "".join(f"{line}\n" for line in kept))

    def fail(self, reason: str) -> None:
        """Write down why it ended early, if that can still be written."""
        with suppress(UserError):  # a full disk: the caller is about to tell the reason anyway
            self.write("failed.txt", " ".join(reason.split()) + "\n")

    def save_weights(self, rule: str, weights: Mapping[str, Tensor]) -> None:
        """Keep the weights that a selection rule chose."""
        with self.writing(f"{rule}.safetensors") as part:
            save_tensors(weights, part)

    def weights(self, rule: str) -> dict[str, Tensor]:
        """The weights that a selection rule chose.

        Raises:
            UserError: There are none, or they are damaged.
        """
        path = self.path / f"{rule}.safetensors"
        if not path.exists():
            raise UserError(f"{self.path} has no weights for {rule!r}; finish it first: xcnorm train does")
        try:
            return load_tensors(path)
        except (OSError, ValueError) as error:
            raise UserError(
                f"cannot read {path}: {error}; delete {self.path / 'metrics.json'} and train again"
            ) from error


def mean_over_targets(metrics: Mapping[str, Any], rule: str) -> float | None:
    """The mean of the benchmark's score over the targets that have one, as AUROC of a single class has not.

    Args:
        metrics: The content of ``metrics.json``.
        rule: Which weights were tested.
    """
    scores = {name: numbers[metrics["metric"]] for name, numbers in metrics["selection"][rule]["targets"].items()}
    known = {name: score for name, score in scores.items() if score is not None}
    return average(known) if known else None


def read_config(path: Path) -> dict[str, Any]:
    """The values in a file of an experiment.

    Raises:
        UserError: It cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return parse_toml(text, path)
