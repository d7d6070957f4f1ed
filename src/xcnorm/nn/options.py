"""The options of a layer: their names, their presets, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypedDict

from xcnorm.errors import unknown_name
from xcnorm.functional import ROBUST_FUNCTIONS
from xcnorm.functional.rectify import Rectify
from xcnorm.nn.norms import NORMS
from xcnorm.nn.scale import REDUCTIONS

Preset = Literal["default", "paper"]


class StageOptions(TypedDict, total=False):
    """Keyword options of every XCNorm layer, in the order of its stages. Left out, the preset decides.

    Attributes:
        preset: ``"default"``, what measured best; or ``"paper"``, the operator as printed, epsilon aside.
        channelwise: Standardise each input channel of a patch on its own, so that a colour cast is forgiven. Meant
            for a first layer.
        eps: Floor on the variance of a patch.
        rectify: ``"relu"``, ``"abs"`` (ignores polarity) or ``"none"``.
        tau: Initial value of the learnable sharpening exponent, above 0.5; or ``"none"``.
        gain: The learnable gain A: ``"before_norm"`` (as printed), ``"after_norm"`` or ``"none"``.
        mask: The norm-based attention mask.
        norm: Channel norm, one of `xcnorm.nn.NORMS`.
        momentum: Weight of the newest batch in moving averages (the channel norm's, and c's).
        backend: Name of the operator backend to use; None lets `xcnorm.ops` choose.
    """

    preset: str
    channelwise: bool
    eps: float
    rectify: str
    tau: float | Literal["none"]
    gain: str
    mask: bool
    norm: str
    momentum: float
    backend: str | None


class RobustOptions(StageOptions, total=False):
    """Keyword options of every R-XCNorm layer: those of `StageOptions`, and the robust function's.

    Attributes:
        robust: Name of the robust function; see `xcnorm.functional.ROBUST_FUNCTIONS`.
        scale: How its scale c is found, see `xcnorm.nn.REDUCTIONS`: ``"ema"``, the moving average of the patches'
            deviation, as printed;
            ``"parameter"``, learned; ``"patch"``, a multiple of each patch's own deviation, which restores the
            invariance to gain.
        c_init: Initial value of c (``"ema"``, ``"parameter"``; default 10, the paper's "large value"), or the
            multiple (``"patch"``; default 3).
    """

    robust: str
    scale: str
    c_init: float


@dataclass(frozen=True)
class Options:
    """The options of one layer, complete and checked."""

    channelwise: bool = False
    eps: float = 1e-5
    rectify: Rectify = "relu"
    tau: float | Literal["none"] = 1.0
    gain: str = "before_norm"
    mask: bool = False
    norm: str = "instance"
    momentum: float = 0.1
    backend: str | None = None
    robust: str | None = None
    scale: str = "patch"
    c_init: float = 3.0


_DEFAULT = Options()
_ROBUST_DEFAULT = replace(_DEFAULT, robust="welsch_influence")
# Table 3 of the paper: the rows called XCNorm are without mask, those called R-XCNorm with it.
_PAPER = replace(_DEFAULT, norm="batch")
_ROBUST_PAPER = replace(_PAPER, mask=True, robust="welsch", scale="ema", c_init=10.0)

_CHOICES: dict[str, Collection[str]] = {
    "rectify": ("relu", "abs", "none"),
    "gain": ("before_norm", "after_norm", "none"),
    "norm": NORMS,
    "robust": ROBUST_FUNCTIONS,
    "scale": REDUCTIONS,
}
ROBUST_ONLY = ("robust", "scale", "c_init")


def resolve(given: dict[str, Any], *, robust: bool, dense: bool) -> Options:
    """Complete the options a layer was given from its preset, and check them.

    Args:
        given: Keyword options as the user wrote them.
        robust: Whether the layer is an R-XCNorm layer.
        dense: Whether the layer is dense: it has one value per channel and sample, so there are no instance
            statistics to speak of, and its default channel norm is ``"batch"``.

    Raises:
        ValueError: An option or its value is unknown or out of range.
        TypeError: An option's value has the wrong type.
    """
    given = dict(given)
    preset = given.pop("preset", "default")
    if preset not in ("default", "paper"):
        raise ValueError(unknown_name("preset", preset, ("default", "paper")))
    known = [f.name for f in fields(Options) if robust or f.name not in ROBUST_ONLY]
    for name in given:
        if name not in known:
            raise TypeError(unknown_name("option", name, ["preset", *known]))

    if preset == "paper":
        options = _ROBUST_PAPER if robust else _PAPER
    else:
        options = _ROBUST_DEFAULT if robust else _DEFAULT
        if dense:
            options = replace(options, norm="batch")
    scale = given.get("scale", options.scale)
    if "c_init" not in given and scale in REDUCTIONS:
        options = replace(options, c_init=REDUCTIONS[scale].initial)
    options = replace(options, **given)
    _check(options, robust=robust, dense=dense)
    return options


def rectify_of_first(rectify_first: str | None, given: Mapping[str, Any]) -> str | None:
    """What rectifies the first XCNorm layer of a network; None leaves it to the layer's own options.

    ``"abs"`` measured best there, so it is the default unless the paper's operator or a ``rectify`` was asked for.
    """
    if rectify_first is not None or given.get("preset") == "paper" or "rectify" in given:
        return rectify_first
    return "abs"


def _check(options: Options, *, robust: bool, dense: bool) -> None:
    for name, choices in _CHOICES.items():
        if (robust or name not in ROBUST_ONLY) and getattr(options, name) not in choices:
            raise ValueError(unknown_name(name, getattr(options, name), choices))
    for name in ("mask", "channelwise"):
        if not isinstance(getattr(options, name), bool):
            raise TypeError(f"{name} must be True or False, got {getattr(options, name)!r}")
    if options.tau != "none":
        _check_number("tau", options.tau, above=0.5, off=True)
    _check_number("eps", options.eps, above=0)
    _check_number("c_init", options.c_init, above=0 if REDUCTIONS[options.scale].per_patch else math.sqrt(options.eps))
    _check_number("momentum", options.momentum, above=0)
    if options.momentum > 1:
        raise ValueError(f"momentum must be at most 1, got {options.momentum}; 0.1 is usual")
    if dense and NORMS[options.norm].per_image:
        raise ValueError(
            f"norm={options.norm!r} is undefined for a dense layer, which has one value per channel and sample; "
            "use 'batch', 'group', 'layer' or 'none'"
        )


def _check_number(name: str, value: object, *, above: float, off: bool = False) -> None:
    remedy = " or 'none'" if off else ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number above {above}{remedy}, got {value!r}")
    if not value > above:
        raise ValueError(f"{name} must be above {above}{remedy}, got {value!r}")
