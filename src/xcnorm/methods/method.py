"""The training method: settings, and a few hooks that the engine calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.errors import UserError, unknown_name
from xcnorm.methods.training import Training
from xcnorm.models import Network
from xcnorm.registry import Registry

Numbers = tuple[Tensor, ...]
"""What is random about a batch, on the CPU."""


@dataclass
class Method:
    """A way of training a network on one source. Subclasses are dataclasses; their fields are the method's settings.

    The engine calls `adapt` when it builds the network, `begin` before the first step, and then for each step `draw`,
    `loss` and `after`. Before a step, as long as `pending` says so, it calls `work`, and may save a checkpoint after
    each call.

    Everything random comes from the generator that is handed in, which lives on the CPU: its state is part of a
    checkpoint, and a seed means the same on every device. Where there is no generator, in `adapt` and `begin`, torch's
    own has been seeded for the purpose.

    Attributes:
        name: What users call it; set by `register_method`.
        capturable: Whether `loss` and `after` do the same work every time, on tensors of the same shapes, without
            asking the device for a value, so that a GPU can replay it.
        scalable: Whether the engine takes all its gradients, which it scales so that they survive fp16.
        distributed: Why it cannot run in several processes; empty if it can.
        neutral: Settings with which nothing is left of it but ERM.
        cost: About how many times as long as ERM's a step takes, by counting passes through the network; `xcnorm bench
            methods` sets it beside what it measures.
        learns_from_added: Whether batches are drawn from added images too, or from the source's alone.
    """

    name: ClassVar[str] = ""
    capturable: ClassVar[bool] = False
    scalable: ClassVar[bool] = True
    distributed: ClassVar[str] = ""
    neutral: ClassVar[Mapping[str, Any]] = {}
    cost: ClassVar[float] = 1.0
    learns_from_added: ClassVar[bool] = True

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Look whether settings are known and of the right type, without making the method.

        Raises:
            UserError: They are not.
        """
        known = get_type_hints(cls)
        names = [field.name for field in fields(cls)]
        for option, value in options.items():
            if option not in names:
                raise UserError(unknown_name(f"option of method {cls.name}", option, names))
            wanted = known[option]
            if wanted is float and isinstance(value, int) and not isinstance(value, bool):
                continue
            kind = getattr(wanted, "__origin__", wanted)
            if kind is tuple:
                kind = (list, tuple)
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                default = next(field.default for field in fields(cls) if field.name == option)
                example = f", such as {default!r}" if default is not MISSING else ""
                raise UserError(f"option {option} of method {cls.name} cannot be {value!r}{example}")
        cls(**_tuples(options)).validate()

    @classmethod
    def make(cls, options: Mapping[str, Any]) -> Self:
        """The method with these settings, which were checked before."""
        return cls(**_tuples(options))

    def validate(self) -> None:
        """Look at the values of the settings.

        Raises:
            UserError: One is out of its range.
        """

    def adapt(self, network: Network) -> Network:
        """The network that is trained and tested, made from the one that the experiment names."""
        return network

    def begin(self, training: Training) -> None:
        """Called once before training, with the network on its device; a resumed run then calls `load_state_dict`."""
        self.training = training

    def companion(self) -> nn.Module | None:
        """What learns beside the network, by the same optimiser, but is not tested; asked for after `begin`."""
        return None

    def pending(self) -> bool:
        """Whether there is work to do before the next step."""
        return False

    def work(self, generator: torch.Generator) -> None:
        """Do a piece of that work: about as much as a few training steps."""

    def draw(self, images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Everything random about a step: a batch to what `loss` takes.

        Args:
            images: ``(N, C, H, W)``, augmented and normalised.
            labels: ``(N,)``, int64.
            generator: Where random numbers come from.
        """
        return images, labels

    @property
    def foreseeable(self) -> bool:
        """Whether steps can be drawn before the ones before them are done: only views are drawn, no image is added."""
        return type(self).draw is Method.draw and type(self).pending is Method.pending

    def foresee(self, shape: torch.Size, generator: torch.Generator) -> list[Numbers]:
        """The part of `draw` that knows no image yet, where steps are foreseeable: what augmentations draw, in order.

        Args:
            shape: Of the images, ``(N, C, H, W)``.
            generator: Where random numbers come from.
        """
        return []

    def draw_foreseen(self, images: Tensor, labels: Tensor, foreseen: Iterator[Numbers]) -> tuple[Tensor, ...]:
        """The rest of `draw`, for the images of one batch or of several, one batch after the other.

        Args:
            images: ``(N, C, H, W)``, augmented and normalised.
            labels: ``(N,)``, int64.
            foreseen: What `foresee` gave, for several batches joined along the first axis.
        """
        return images, labels

    def loss(self, model: Network, *drawn: Tensor) -> Tensor:
        """The loss of a step; the engine does the rest.

        Args:
            model: The network in training mode.
            *drawn: What `draw` made.
        """
        images, labels = drawn
        return F.cross_entropy(model(images), labels)

    def after(self, model: Network, *drawn: Tensor) -> None:
        """Called when the network's weights have moved, with what `loss` was given."""

    def state_dict(self) -> dict[str, Any]:
        """What must be kept to go on later, besides the companion and the images, which the engine keeps.

        Tensors, numbers, strings, and dicts and lists of them.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""


METHODS: Registry[type[Method]] = Registry("method", "xcnorm.methods")

M = TypeVar("M", bound=type[Method])


def register_method(name: str) -> Callable[[M], M]:
    """Make a class known as the method of that name."""

    def register(cls: M) -> M:
        METHODS.register(name, cls)
        cls.name = name
        return cls

    return register


def list_methods() -> tuple[str, ...]:
    """The names of all methods.

    Example:
        >>> "erm" in list_methods()
        True
    """
    return tuple(METHODS)


def find_method(name: str) -> type[Method]:
    """A method by name.

    Raises:
        UserError: There is none of that name.
    """
    return METHODS[name]


def _tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
