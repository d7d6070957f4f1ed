"""Settings of an experiment, section by section: what may stand in its file."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from xcnorm.data.transforms import RANDOM
from xcnorm.errors import UserError, unknown_name
from xcnorm.methods import Augmentation, Method, find_augmentation, find_method

Scalar = bool | int | float | str
Values = dict[str, Scalar | list[Scalar]]


class Settings(BaseModel):
    """A section: frozen, and strict about names and types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ModelSettings(Settings):
    """Which network.

    Attributes:
        name: One of `xcnorm.list_models()`.
        layer: The form of its convolutions, one of `xcnorm.nn.FORMS`.
        options: Further arguments of `xcnorm.create_model`.
    """

    name: str = "digits_cnn"
    layer: str = "conv"
    options: Values = {}


class StartSettings(Settings):
    """Which trained network an experiment starts from, in place of weights that are drawn.

    Attributes:
        run: A finished run: its folder below the folder of runs, such as ``"cifar10c/erm+conv-1a2b3c/seed0"``.
        model: The network of that run. Where the experiment's own is another form of it, `xcnorm.convert` makes that of
            it and calibrates it; the options of the experiment's network are then those of `xcnorm.convert`.
        selection: Which of the run's weights: ``"last"`` or ``"best_on_source"``.
    """

    run: str
    model: ModelSettings
    selection: Literal["last", "best_on_source"] = "last"


class MethodSettings(Settings):
    """How it is trained.

    Attributes:
        name: One of `xcnorm.methods.list_methods()`.
        options: The method's own settings.
        augment: ``"none"``, or an augmentation, such as ``"randconv"``, that the method sees images through; the method
            may be an augmentation itself, whose views are then made of these.
        augment_options: The augmentation's settings.
    """

    name: str = "erm"
    options: Values = {}
    augment: str = "none"
    augment_options: Values = {}

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


class DataSettings(Settings):
    """What happens to images on their way to the network.

    Attributes:
        augment: Of `xcnorm.data.transforms.RANDOM`, in the order in which they are applied to training images.
        mean: Subtracted from values in [0, 1]; one number, or one for each channel.
        std: What they are then divided by.
        share: How much of each class of the training images there is to learn from, chosen by the seed.
    """

    augment: tuple[str, ...] = Field(default=(), strict=False)
    mean: float | list[float] = 0.5
    std: float | list[float] = 0.5
    share: float = Field(default=1.0, gt=0, le=1)

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the share where it is everything: runs that were made before it are the same experiments."""
        values: dict[str, Any] = write(self)
        return {name: value for name, value in values.items() if name != "share" or value < 1}

    @field_validator("augment")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in RANDOM:
                raise ValueError(unknown_name("transform", name, RANDOM))
        return names


class OptimiserSettings(Settings):
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


class ScheduleSettings(Settings):
    """How long, and how the learning rate goes.

    Attributes:
        iterations: Training steps; 0 where epochs are given.
        epochs: Passes over the training images; 0 where iterations are given.
        batch: Images in a step, over all processes together.
        warmup: The share of the steps in which the rate rises from 0.
        shape: ``"constant"``, ``"cosine"`` (to 0), ``"linear"`` (to 0) or ``"step"`` (a tenth after 80 % of the steps).
        ema: How much a moving average of the weights keeps of itself in a step, such as 0.999; it is tested in place of
            the weights. 0 for none.
    """

    iterations: int = Field(default=0, ge=0)
    epochs: int = Field(default=0, ge=0)
    batch: int = Field(default=128, ge=1)
    warmup: float = Field(default=0.05, ge=0, lt=1)
    shape: Literal["constant", "cosine", "linear", "step"] = "cosine"
    ema: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if bool(self.iterations) == bool(self.epochs):
            raise ValueError("give schedule.iterations or schedule.epochs, not both and not neither")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the average where there is none: runs that were made before it are the same experiments."""
        values: dict[str, Any] = write(self)
        return {name: value for name, value in values.items() if name != "ema" or value}

    def steps(self, images: int) -> int:
        """The number of training steps for so many training images."""
        return self.iterations or self.epochs * (images // self.batch)


class RunSettings(Settings):
    """How it is computed, and what is looked at on the way.

    Attributes:
        precision: ``"float32"``, ``"tf32"``, ``"bf16"`` or ``"fp16"`` (the last two by autocast).
        compile: Whether torch.compile is used.
        graph: Whether a step is captured as a CUDA graph; only on a GPU.
        channels_last: Whether images and weights have their channels last in memory.
        evaluate_every: After how many steps the validation images are looked at; 0 for ten times in all.
        checkpoint_every: After how many steps a checkpoint is written; 0 for ten times in all. No part of the result.
        selection: Which weights are tested: ``"last"``, ``"best_on_source"`` (on the validation images),
            ``"best_on_probe"`` (on these as `probe` shows them) and ``"oracle"`` (on the targets themselves: a
            diagnostic, not a result).
        probe: Augmentations that training does not use, through which the validation images are looked at as well.
    """

    precision: Literal["float32", "tf32", "bf16", "fp16"] = "float32"
    compile: bool = False
    graph: bool = False
    channels_last: bool = False
    evaluate_every: int = Field(default=0, ge=0)
    checkpoint_every: int = Field(default=0, ge=0)
    selection: tuple[Literal["last", "best_on_source", "best_on_probe", "oracle"], ...] = Field(
        default=("last", "best_on_source"), min_length=1, strict=False
    )
    probe: tuple[str, ...] = Field(default=(), strict=False)

    @field_validator("probe")
    @classmethod
    def _augmentations(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            find_augmentation(name)
        return names

    @model_validator(mode="after")
    def _something_to_choose_by(self) -> Self:
        if "best_on_probe" in self.selection and not self.probe:
            raise ValueError("run.selection 'best_on_probe' needs augmentations in run.probe")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without a probe where there is none: runs that were made before it are the same experiments."""
        values: dict[str, Any] = write(self)
        return {name: value for name, value in values.items() if name != "probe" or value}
