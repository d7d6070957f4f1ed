"""Controls: the sliders of the page and its presets, and what they do to a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from xcnorm.data.corruptions.corruption import CORRUPTIONS, Shape
from xcnorm.data.streams import Stream
from xcnorm.data.transforms import to_float
from xcnorm.data.transforms.colours import turn_hue
from xcnorm.errors import UserError, unknown_name


@dataclass(frozen=True)
class Control:
    """A slider.

    Attributes:
        label: What stands beside it.
        low: Its least value.
        high: Its greatest value.
        rest: The value that changes nothing.
        unit: What stands behind the value.
        hint: What it does, in a few words.
    """

    label: str
    low: int
    high: int
    rest: int
    unit: str
    hint: str


CONTROLS: Mapping[str, Control] = {
    "background": Control("Background", 0, 100, 0, "%", "a photograph that the picture is blended into"),
    "inversion": Control("Inversion", 0, 100, 0, "%", "100 % is the negative"),
    "tint": Control("Tint", 0, 100, 0, "%", "how coloured the light is"),
    "hue": Control("Hue", -180, 180, 0, "°", "turns all colours; grey stays grey"),
    "contrast": Control("Contrast", 0, 200, 100, "%", "differences from the mean"),
    "brightness": Control("Brightness", -100, 100, 0, "%", "what is added"),
    "blur": Control("Blur", 0, 15, 0, "%", "deviation of the Gaussian, of the picture's width"),
    "noise": Control("Noise", 0, 60, 0, "%", "deviation of the Gaussian, of white"),
}
"""In the order in which they act: the scene, the light, the lens, the sensor."""

PRESETS: Mapping[str, Mapping[str, int]] = {
    "Inverted": {"inversion": 100},
    "Low contrast": {"contrast": 30, "brightness": 60},
    "Inverted and pale": {"inversion": 100, "contrast": 30, "brightness": 20},
    "On a photograph": {"background": 100},
    "Coloured light": {"tint": 80, "hue": -150},
    "Blurred": {"blur": 5},
    "Noisy": {"noise": 25},
    "All at once": {"background": 50, "inversion": 100, "tint": 50, "hue": 60, "contrast": 70, "blur": 2, "noise": 8},
}


def settings(given: Mapping[str, object]) -> dict[str, float]:
    """A value for every control: those that are given, and the others at rest.

    Raises:
        UserError: One is not known, or its value is none that the slider has.

    Example:
        >>> settings({"blur": 3})["blur"], settings({})["contrast"]
        (3.0, 100.0)
    """
    for name, value in given.items():
        if name not in CONTROLS:
            raise UserError(unknown_name("control", name, CONTROLS))
        low, high = CONTROLS[name].low, CONTROLS[name].high
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise UserError(f"{name} must be a number from {low} to {high}")
    values = {name: control.rest for name, control in CONTROLS.items()} | dict(given)
    return {name: float(value) for name, value in values.items()}  # type: ignore[arg-type]  # numbers, as just checked


def change(picture: Tensor, values: Mapping[str, float], backdrop: Tensor) -> Tensor:
    """A picture as the controls want it; what is random is the same every time.

    Contrast, brightness, blur and noise are the corruptions of these names, at any strength.

    Args:
        picture: ``(1, 3, H, W)``, uint8.
        values: A value for every control.
        backdrop: The photograph, of the same shape and type.
    """
    share = {name: value / 100 for name, value in values.items()}
    now = to_float(picture)
    if share["background"]:  # as MNIST-M is made: the difference from the photograph
        now = (share["background"] * to_float(backdrop) - now).abs()
    now = now.lerp(1 - now, share["inversion"])
    if share["tint"]:
        now = now * torch.tensor([1.0, 1 - share["tint"], 1 - share["tint"]]).view(1, 3, 1, 1)
    if values["hue"]:
        now = turn_hue(now, torch.tensor(values["hue"] / 360))
    if values["contrast"] != CONTROLS["contrast"].rest:
        now = CORRUPTIONS["contrast"].apply(now, {}, share["contrast"])
    if share["brightness"]:
        now = CORRUPTIONS["brightness"].apply(now.clamp(0, 1), {}, share["brightness"])
    if share["blur"]:
        now = CORRUPTIONS["gaussian_blur"].apply(now.clamp(0, 1), {}, share["blur"] * math.sqrt(now[0, 0].numel()))
    if share["noise"]:
        noise, deviation = CORRUPTIONS["gaussian_noise"], share["noise"]
        stream = Stream(0, "playground", torch.zeros(1, dtype=torch.int64))
        now = noise.apply(now.clamp(0, 1), noise.draw(stream, Shape(*now.shape[1:]), deviation), deviation)
    return (now.clamp(0, 1) * 255).round().to(torch.uint8)
