"""What is known about a trained network besides its weights: its classes, its normalisation, its size."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from xcnorm._version import __version__
from xcnorm.errors import UserError


@dataclass(frozen=True)
class About:
    """What a file of a network carries along.

    Attributes:
        network: What it is, in words.
        classes: The name of each of its answers; none if they are not known.
        mean: What is subtracted from values between 0 and 1 before the network sees them; one number, or one for each
            channel. None if that is not known.
        std: What they are then divided by.
        pixels: Height and width that it was made for.
        trained_on: What it learnt from, and how, in words.
        version: Of xcnorm, which wrote it.
    """

    network: str = ""
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    pixels: int | None = None
    trained_on: str = ""
    version: str = __version__

    def to_json(self) -> str:
        """As it stands in a file, under the name ``xcnorm``."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str, whose: object) -> About:
        """The way back. What a later version may have added is passed over.

        Args:
            text: What stands in a file.
            whose: The file, for the message.

        Raises:
            UserError: It is damaged.

        Example:
            >>> About.of(About(classes=("cat", "dog")).to_json(), "a file").classes
            ('cat', 'dog')
        """
        try:
            values = json.loads(text)
            return cls(
                network=_word(values.get("network", "")),
                classes=tuple(map(_word, values.get("classes") or ())),
                mean=_numbers(values.get("mean")),
                std=_numbers(values.get("std"), positive=True),
                pixels=_size(values.get("pixels")),
                trained_on=_word(values.get("trained_on", "")),
                version=_word(values.get("version", "")),
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"what {whose} says about its network is damaged: {error}; export it again") from error


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _numbers(values: Any, *, positive: bool = False) -> tuple[float, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list) or not 0 < len(values) < 1000:
        raise TypeError(f"{values!r:.40} is no list of numbers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise TypeError(f"{value!r:.40} is no number")
        if positive and value <= 0:
            raise ValueError(f"{value!r} is no deviation")
    return tuple(map(float, values))


def _size(value: Any) -> int | None:
    if value is not None and (type(value) is not int or not 0 < value < 1 << 20):
        raise TypeError(f"{value!r:.40} is no size")
    return value
