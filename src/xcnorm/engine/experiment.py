"""The experiment: all settings that decide a result, frozen, and their file that a person can read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import torch
from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from xcnorm.conversion import convert
from xcnorm.data.catalogue import check_options
from xcnorm.engine.settings import (
    DataSettings,
    MethodSettings,
    ModelSettings,
    OptimiserSettings,
    RunSettings,
    ScheduleSettings,
    Settings,
    StartSettings,
    Values,
)
from xcnorm.errors import UserError, one_line, unknown_name
from xcnorm.models import Network, create_model

EARLIER: Mapping[str, Mapping[str, Any]] = {
    "data": {"train_limit": 0},
    "schedule": {"average": "none", "average_decay": 0.999},
}
"""Settings of version 0.1 that are no more, at the only value that its files may still hold; and part of every hash,
or the folders of its runs would not be found again."""

_LENGTHS = ("iterations", "epochs")
_LONGEST = 500  # characters of what is said about a value, which may be anything


class Experiment(Settings):
    """One training on one source with one seed, and how it is judged.

    Make one with `make_experiment`, which explains mistakes in one line.

    Attributes:
        benchmark: One of `xcnorm.data.list_benchmarks()`.
        benchmark_options: Its options, such as the source hospital.
        seed: Seed of everything random.
        label: Its row in tables; no part of the result.
        model: Which network.
        start: Which trained network it starts from; None for weights that are drawn.
        method: How it is trained.
        data: What happens to images.
        optimiser: How weights move.
        schedule: How long.
        run: How it is computed.
    """

    benchmark: str = "digits-mini"
    benchmark_options: Values = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0)
    label: str = ""
    model: ModelSettings = ModelSettings()
    start: StartSettings | None = None
    method: MethodSettings = MethodSettings()
    data: DataSettings = DataSettings()
    optimiser: OptimiserSettings = OptimiserSettings()
    schedule: ScheduleSettings = ScheduleSettings(iterations=1000)
    run: RunSettings = RunSettings()

    @model_serializer(mode="wrap")
    def _without_empty_start(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Runs that start from nothing are the same experiments as before anything could be started from."""
        values: dict[str, Any] = write(self)
        return {name: value for name, value in values.items() if name != "start" or value is not None}

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that change with everything that may change the result, but not with the seed."""
        values = self.model_dump(mode="json", exclude={"seed": True, "label": True, "run": {"checkpoint_every"}})
        values = merge(values, EARLIER)
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def folder(self) -> PurePosixPath:
        """Where it is kept below the folder of runs."""
        augment = "" if self.method.augment == "none" else f"+{self.method.augment}"
        name = f"{self.method.name}{augment}+{self.model.layer}-{self.hash[:6]}"
        return PurePosixPath(self.benchmark) / name / f"seed{self.seed}"

    def to_toml(self) -> str:
        """The experiment as a file."""
        return to_toml(self.model_dump(mode="json"))


def make_experiment(values: Mapping[str, Any]) -> Experiment:
    """Make an experiment from nested values, as they stand in a file.

    Names of benchmark, method, network and their options are looked up, so that a mistake is found now and not after
    the data was loaded.

    Raises:
        UserError: A key or name is unknown, or a value is not possible.
    """
    experiment = parse(values)
    check_options(experiment.benchmark, experiment.benchmark_options)
    experiment.method.check()
    if experiment.start is None:
        _check_model("model", experiment.model)
    else:
        _check_start(experiment.model, experiment.start)
    return experiment


def _check_model(where: str, model: ModelSettings) -> Network:
    """Look whether there is such a network."""
    try:
        with torch.device("meta"):
            return create_model(model.name, model.layer, **dict[str, Any](model.options))
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error


def _check_start(model: ModelSettings, start: StartSettings) -> None:
    """Look whether the network can be made of the one that it starts from."""
    was = _check_model("start.model", start.model)
    if model == start.model:
        return
    if model.name != start.model.name:
        raise UserError(f"model.name is {model.name!r}, but it starts from {start.model.name!r}; they must be the same")
    try:
        with torch.device("meta"):
            convert(was, model.layer, **convert_options(model))
    except (TypeError, ValueError) as error:
        raise UserError(f"model, made of what it starts from: {error}") from error


def convert_options(model: ModelSettings) -> dict[str, Any]:
    """The options of a network as `xcnorm.convert` takes them: how many channels images have is no matter of its."""
    return {name: value for name, value in model.options.items() if name != "in_channels"}


def parse(values: Mapping[str, Any]) -> Experiment:
    """The same, but no name is looked up.

    Raises:
        UserError: A key is unknown, or a value is not possible.
    """
    try:
        return Experiment.model_validate(_without_earlier(values))
    except ValidationError as error:
        raise UserError(_explain(error)) from error


def _without_earlier(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out settings that are no more, if they say nothing."""
    result = dict(values)
    for section, settings in EARLIER.items():
        given = result.get(section)
        if not isinstance(given, Mapping):
            continue
        for name, value in settings.items():
            if name in given and given[name] != value:
                raise UserError(
                    f"{section}.{name} is no setting any more, and can only be {value!r}, not {given[name]!r}; "
                    "leave it out, or use xcnorm 0.1"
                )
        result[section] = {name: value for name, value in given.items() if name not in settings}
    return result


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Put nested values over one another, the last on top.

    A schedule has one length, so a layer that counts it in steps takes the place of one that counts it in epochs, and
    the other way round.

    Example:
        >>> merge({"schedule": {"epochs": 40, "batch": 128}}, {"schedule": {"iterations": 60}})
        {'schedule': {'batch': 128, 'iterations': 60}}
    """
    result: dict[str, Any] = {}
    for layer in layers:
        schedule, below = layer.get("schedule"), result.get("schedule")
        if isinstance(schedule, Mapping) and isinstance(below, Mapping):
            given = [length for length in _LENGTHS if schedule.get(length)]
            result["schedule"] = {name: value for name, value in below.items() if not given or name not in _LENGTHS}
        result = _put_over(result, layer)
    return result


def _put_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = _put_over(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return result


def override(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """Turn keys such as ``"model.layer"`` into nested values.

    Example:
        >>> override({"model.layer": "xcnorm", "seed": 3})
        {'model': {'layer': 'xcnorm'}, 'seed': 3}
    """
    result: dict[str, Any] = {}
    for key, value in dotted.items():
        nested: Any = value
        for part in reversed(key.split(".")):
            nested = {part: nested}
        result = _put_over(result, nested)  # two lengths of one schedule stay two, and are refused
    return result


def to_toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """Write nested values of strings, numbers, truths, lists and tables in TOML."""
    plain = [f"{_key(key)} = {_value(value)}" for key, value in values.items() if not isinstance(value, Mapping)]
    text = "\n".join(plain) + "\n" if plain else ""
    for key, value in values.items():
        if isinstance(value, Mapping):
            name = f"{prefix}{_key(key)}"
            text += f"\n[{name}]\n{to_toml(value, f'{name}.')}"
    return text


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _value(key)


def _value(value: Any) -> str:
    """TOML writes what is not a table as JSON does, but for two things about strings."""
    # It knows no pairs of escapes for one character, and wants the control character DEL escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _explain(error: ValidationError) -> str:
    """The first complaint, in one line."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        parent, name = first["loc"][:-1], str(first["loc"][-1])
        inside = f" of {'.'.join(map(str, parent))}" if parent else ""
        return unknown_name(f"setting{inside}", name, _fields(parent))
    message = first["msg"].removeprefix("Value error, ")
    given = f", not {first['input']!r}" if first["type"] != "value_error" else ""
    return one_line(f"{where}: {message[:1].lower()}{message[1:]}{given}" if where else message, _LONGEST)


def _fields(path: Sequence[int | str]) -> Iterator[str]:
    section: Any = Experiment
    for part in path:
        section = section.model_fields[part].annotation
    yield from section.model_fields
