"""One experiment: everything that decides its result, frozen, and written down in a file that a person can read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from xcnorm.data.catalogue import check_options
from xcnorm.errors import UserError, unknown_name
from xcnorm.methods import Augmentation, Method, find_augmentation, find_method
from xcnorm.models import create_model

Scalar = bool | int | float | str
Options = dict[str, Scalar | list[Scalar]]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ModelSection(_Section):
    """Which network.

    Attributes:
        name: One of `xcnorm.list_models()`.
        layer: ``"conv"``, ``"xcnorm"`` or ``"r_xcnorm"``.
        options: Further arguments of `xcnorm.create_model`.
    """

    name: str = "digits_cnn"
    layer: str = "conv"
    options: Options = {}


class MethodSection(_Section):
    """How it is trained.

    Attributes:
        name: One of `xcnorm.methods.list_methods()`.
        options: The method's own settings.
        augment: ``"none"``, or an augmentation, such as ``"randconv"``, that the method sees images through.
        augment_options: The augmentation's settings.
    """

    name: str = "erm"
    options: Options = {}
    augment: str = "none"
    augment_options: Options = {}

    def make(self) -> tuple[Method, Augmentation | None]:
        """The method and the augmentation, with their settings."""
        method = find_method(self.name).make(self.options)
        if self.augment == "none":
            return method, None
        return method, find_augmentation(self.augment).make(self.augment_options)

    def check(self) -> None:
        """Look whether names and settings are right, and go together.

        Raises:
            UserError: They are not.
        """
        find_method(self.name).check(self.options)
        if self.augment == "none":
            if self.augment_options:
                raise UserError("method.augment_options needs an augmentation; name it in method.augment")
            return
        find_augmentation(self.augment).check(self.augment_options)
        if issubclass(find_method(self.name), Augmentation):
            raise UserError(f"method {self.name} is an augmentation itself; choose one of the two")


class DataSection(_Section):
    """What happens to images on their way to the network.

    Attributes:
        augment: Of ``"flip"``, ``"crop"``, ``"resized_crop"``, ``"jitter"`` and ``"grey"``, in the order in which they
            are applied to training images.
        mean: Subtracted from values in [0, 1]; one number, or one for each channel.
        std: What they are then divided by.
        train_limit: Train on so many images at most, evenly taken; 0 for all.
    """

    augment: tuple[Literal["flip", "crop", "resized_crop", "jitter", "grey"], ...] = Field(default=(), strict=False)
    mean: float | list[float] = 0.5
    std: float | list[float] = 0.5
    train_limit: int = Field(default=0, ge=0)


class OptimiserSection(_Section):
    """How weights move.

    Attributes:
        name: ``"adam"``, ``"adamw"`` or ``"sgd"``.
        learning_rate: The highest one.
        weight_decay: Applied to weights of layers; never to norms, biases and the few numbers of an XCNorm layer.
        momentum: Of ``"sgd"``.
        nesterov: Whether ``"sgd"`` looks ahead.
    """

    name: Literal["adam", "adamw", "sgd"] = "adamw"
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = True


class ScheduleSection(_Section):
    """How long, and how the learning rate goes.

    Attributes:
        iterations: Training steps; 0 where epochs are given.
        epochs: Passes over the training images; 0 where iterations are given.
        batch: Images in a step, over all processes together.
        warmup: The share of the steps in which the rate rises from 0.
        shape: ``"constant"``, ``"cosine"`` (to 0), ``"linear"`` (to 0) or ``"step"`` (a tenth after 80 % of the steps).
        average: ``"none"``, or ``"ema"`` for weights that are a moving average of those that are trained.
        average_decay: What is kept of that average in each step.
    """

    iterations: int = Field(default=0, ge=0)
    epochs: int = Field(default=0, ge=0)
    batch: int = Field(default=128, ge=1)
    warmup: float = Field(default=0.05, ge=0, lt=1)
    shape: Literal["constant", "cosine", "linear", "step"] = "cosine"
    average: Literal["none", "ema"] = "none"
    average_decay: float = Field(default=0.999, gt=0, lt=1)

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if bool(self.iterations) == bool(self.epochs):
            raise ValueError("give schedule.iterations or schedule.epochs, not both and not neither")
        return self

    def steps(self, images: int) -> int:
        """The number of training steps for so many training images."""
        return self.iterations or self.epochs * (images // self.batch)


class RunSection(_Section):
    """How it is computed, and what is looked at on the way.

    Attributes:
        precision: ``"float32"``, ``"tf32"``, ``"bf16"`` or ``"fp16"`` (the last two by autocast).
        compile: Whether torch.compile is used.
        graph: Whether a step is captured as a CUDA graph; only on a GPU.
        channels_last: Whether images and weights have their channels last in memory.
        evaluate_every: After how many steps the validation images are looked at; 0 for ten times in all.
        checkpoint_every: After how many steps a checkpoint is written; 0 for ten times in all. No part of the result.
        selection: Which weights are tested: ``"last"``, ``"best_on_source"`` (on the validation images) and
            ``"oracle"`` (on the targets themselves: a diagnostic, not a result).
    """

    precision: Literal["float32", "tf32", "bf16", "fp16"] = "float32"
    compile: bool = False
    graph: bool = False
    channels_last: bool = False
    evaluate_every: int = Field(default=0, ge=0)
    checkpoint_every: int = Field(default=0, ge=0)
    selection: tuple[Literal["last", "best_on_source", "oracle"], ...] = Field(
        default=("last", "best_on_source"), min_length=1, strict=False
    )


class Experiment(_Section):
    """One training on one source with one seed, and how it is judged.

    Make one with `make_experiment`, which explains mistakes in one line.

    Attributes:
        benchmark: One of `xcnorm.data.list_benchmarks()`.
        benchmark_options: Its options, such as the source hospital.
        seed: Seed of everything random.
        label: Its row in tables; no part of the result.
        model: Which network.
        method: How it is trained.
        data: What happens to images.
        optimiser: How weights move.
        schedule: How long.
        run: How it is computed.
    """

    benchmark: str = "digits-mini"
    benchmark_options: Options = {}
    seed: int = Field(default=0, ge=0)
    label: str = ""
    model: ModelSection = ModelSection()
    method: MethodSection = MethodSection()
    data: DataSection = DataSection()
    optimiser: OptimiserSection = OptimiserSection()
    schedule: ScheduleSection = ScheduleSection(iterations=1000)
    run: RunSection = RunSection()

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that change with everything that may change the result, but not with the seed."""
        values = self.model_dump(mode="json", exclude={"seed": True, "label": True, "run": {"checkpoint_every"}})
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
    try:
        experiment = Experiment.model_validate(values)
    except ValidationError as error:
        raise UserError(_explain(error)) from error
    check_options(experiment.benchmark, experiment.benchmark_options)
    experiment.method.check()
    try:
        with torch.device("meta"):
            create_model(experiment.model.name, experiment.model.layer, **dict[str, Any](experiment.model.options))
    except (TypeError, ValueError) as error:
        raise UserError(f"model: {error}") from error
    return experiment


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Put nested values over one another, the last on top."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = result.get(key)
            both = isinstance(value, Mapping) and isinstance(old, Mapping)
            result[key] = merge(old, value) if both and old is not None else value
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
        result = merge(result, nested)
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
    return f"{where}: {message[:1].lower()}{message[1:]}{given}" if where else message


def _fields(path: Sequence[int | str]) -> Iterator[str]:
    section: Any = Experiment
    for part in path:
        section = section.model_fields[part].annotation
    yield from section.model_fields
