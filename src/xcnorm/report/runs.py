"""Runs on disk: finding and reading them.

One that cannot be used is listed with the reason, and never stops the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from xcnorm.engine.toml import parse_toml
from xcnorm.errors import UserError

FORMAT = 1
NO_RESULT = ("label", "run.checkpoint_every")  # settings that change nothing about what comes out
RECORD = ".run.json"  # how the name of a record ends, which is a whole run in one file
_FILES = {"config.toml", "metrics.json", "failed.txt"}  # a folder with one of these is a run, or was to become one


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: Where it lies; of a record, the file.
        config: The experiment, as nested tables.
        metrics: The content of ``metrics.json``.
        environment: The content of ``environment.json``; empty where there is none.
        losses: The training loss by step, as far as it was logged.
    """

    folder: Path
    config: Mapping[str, Any]
    metrics: Mapping[str, Any]
    environment: Mapping[str, Any]
    losses: Mapping[int, float]

    @property
    def seed(self) -> int:
        """The seed of everything random in it."""
        return int(self.config["seed"])

    @property
    def benchmark(self) -> str:
        """The name of its benchmark."""
        return str(self.config["benchmark"])

    @property
    def source(self) -> str:
        """The domain it learned from, where the benchmark lets one choose; else empty."""
        return str(self.config.get("benchmark_options", {}).get("source", ""))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The experiment with dotted keys, such as ``"model.layer"``."""
        return dict(flatten(self.config))

    def key(self, ignored: Collection[str]) -> str:
        """A text that two runs share if they have the same settings, but for some that are ignored."""
        return settings_key(self.settings, ignored)

    def targets(self, selection: str) -> dict[str, float]:
        """The score of each target by the benchmark's metric, in percent; targets without one are left out.

        Args:
            selection: Which weights were tested, such as ``"last"``.
        """
        metric = self.metrics["metric"]
        scores = {name: score[metric] for name, score in self.metrics["selection"][selection]["targets"].items()}
        return {name: 100 * score for name, score in scores.items() if score is not None}


@dataclass(frozen=True)
class Broken:
    """A run that is not in the report.

    Attributes:
        folder: Where it lies.
        reason: Why, in one line.
    """

    folder: Path
    reason: str


@dataclass(frozen=True)
class Runs:
    """All runs that were found.

    Attributes:
        finished: Those that can be reported on.
        broken: Those that failed, are half-finished, damaged or there twice.
    """

    finished: tuple[Run, ...]
    broken: tuple[Broken, ...]


class _UnusableError(Exception):
    """Why a run cannot be reported on."""


def find_runs(*folders: Path | str) -> Runs:
    """Find the runs below some folders, and the records of runs, in the order of their names.

    Args:
        *folders: Folders of runs or records, or single runs.

    Raises:
        UserError: A folder does not exist.
    """
    finished: dict[str, Run] = {}
    broken: list[Broken] = []
    for folder in _places(folders):
        try:
            run = _read_record(folder) if folder.is_file() else _read(folder)
            twin = finished.setdefault(run.key(NO_RESULT), run)
            if twin is not run:
                raise _UnusableError(f"the same experiment and seed as {twin.folder}")
        except _UnusableError as reason:
            broken.append(Broken(folder, str(reason)))
    return Runs(tuple(finished.values()), tuple(broken))


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables with dotted keys.

    Example:
        >>> dict(flatten({"model": {"layer": "conv"}, "seed": 3}))
        {'model.layer': 'conv', 'seed': 3}
    """
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def settings_key(settings: Mapping[str, Any], ignored: Collection[str]) -> str:
    """A text that is the same for the same settings, but for some that are ignored."""
    return json.dumps({name: value for name, value in settings.items() if name not in ignored}, sort_keys=True)


def _places(folders: Iterable[Path | str]) -> list[Path]:
    """Where runs are: folders, and files that are records."""
    found: dict[Path, Path] = {}  # by the real path, so that overlapping folders do not count a run twice
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder of runs; name one that xcnorm train or xcnorm sweep has written")
        for file in sorted(folder.rglob("*")):
            if file.name in _FILES:
                found.setdefault(file.parent.resolve(), file.parent)
            elif file.name.endswith(RECORD):
                found.setdefault(file.resolve(), file)
    return list(found.values())


def _read(folder: Path) -> Run:
    losses = _losses(folder / "log.jsonl")
    if not (folder / "metrics.json").exists():
        raise _UnusableError(_why_unfinished(folder, losses))
    config = _parse(folder / "config.toml")
    metrics = _parse(folder / "metrics.json")
    environment = _parse(folder / "environment.json") if (folder / "environment.json").exists() else {}
    _check(config, metrics)
    return Run(folder, config, metrics, environment, losses)


def _read_record(path: Path) -> Run:
    record = _parse(path)
    try:
        config, metrics, environment = record["config"], record["metrics"], record["environment"]
        losses = {int(step): float(loss) for step, loss in record["losses"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _UnusableError(f"{path.name} is not laid out as a record: {error!r}") from error
    _check(config, metrics)
    return Run(path, config, metrics, environment, losses)


def _why_unfinished(folder: Path, losses: Mapping[int, float]) -> str:
    if (folder / "failed.txt").exists():
        lines = _text(folder / "failed.txt").split("\n")
        return f"failed: {lines[0] or 'no reason was left'}"
    return f"not finished: the log ends at step {max(losses)}" if losses else "not finished: nothing was logged"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise _UnusableError(f"{path.name} is missing") from error
    except (OSError, UnicodeDecodeError) as error:
        raise _UnusableError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = _text(path)
        values = parse_toml(text, path.name) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:  # both decoders' errors are ValueErrors
        raise _UnusableError(f"{path.name} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise _UnusableError(f"{path.name} is damaged: it does not hold a table")
    return values


def _losses(path: Path) -> dict[int, float]:
    """The losses of a log, which may break off anywhere; where a resumed run went over a step again, the last one."""
    losses = {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # no curve, then; the results do not depend on it
        return {}
    for line in lines:
        try:
            entry = json.loads(line)
            losses[int(entry["step"])] = float(entry["loss"])
        except (ValueError, KeyError, TypeError):
            continue  # a line of another kind, or the one at which the process was killed
    return {step: loss for step, loss in sorted(losses.items()) if math.isfinite(loss)}


def _check(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
    """Look at everything that the report relies on, so that nothing behind this point meets a surprise."""
    if metrics.get("format") != FORMAT:
        raise _UnusableError(f"metrics.json has format {metrics.get('format')!r}; this version reads format {FORMAT}")
    try:
        json.dumps(config)  # a date, which TOML has, is not a setting
        _expect(isinstance(config["seed"], int), "config.toml: seed is not a number")
        _expect(isinstance(config["benchmark"], str), "config.toml: benchmark is not a name")
        _expect(isinstance(config["model"]["layer"], str), "config.toml: model.layer is not a name")
        _expect(isinstance(config["method"]["name"], str), "config.toml: method.name is not a name")
        augment = config["method"].get("augment", "none")
        _expect(isinstance(augment, str), "config.toml: method.augment is not a name")
        _expect(isinstance(config.get("benchmark_options", {}), dict), "config.toml: benchmark_options is not a table")
        _expect(isinstance(metrics["title"], str), "metrics.json: title is not a text")
        for key in ("notes", "missing"):
            _expect(isinstance(metrics[key], dict), f"metrics.json: {key} is not a table")
        for key in ("warnings", "classes"):
            _expect(isinstance(metrics[key], list), f"metrics.json: {key} is not a list")
        _expect(_is_number(metrics["steps"]), f"metrics.json: {metrics['steps']!r} is not a number")
        for name, tested in metrics["selection"].items():
            for domain, score in {"source": tested["source"], **tested["targets"]}.items():
                for value in (score[metrics["metric"]], *score.values()):
                    _expect(
                        value is None or _is_number(value), f"metrics.json: {name}, {domain}: {value!r} is no score"
                    )
            for corruption, value in tested.get("robustness", {}).items():
                _expect(_is_number(value), f"metrics.json: {name}, robustness to {corruption}: {value!r} is no score")
    except KeyError as error:
        raise _UnusableError(f"config.toml or metrics.json lacks {error}") from error
    except (AttributeError, TypeError) as error:
        raise _UnusableError(f"config.toml or metrics.json is not laid out as expected: {error}") from error


def _expect(truth: bool, complaint: str) -> None:
    if not truth:
        raise _UnusableError(complaint)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
