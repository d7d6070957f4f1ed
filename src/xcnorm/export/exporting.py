"""The export itself: a network fused, written in a format, read back and compared, and only then put in its place."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from xcnorm.engine.precision import precision
from xcnorm.errors import UserError
from xcnorm.export.formats import Format, Run
from xcnorm.export.onnx_file import ONNX
from xcnorm.export.package_file import PACKAGE
from xcnorm.export.program_file import PROGRAM
from xcnorm.export.traced import first_line
from xcnorm.files import disk_errors, replacing
from xcnorm.fusion import fuse, is_fused
from xcnorm.models.about import About

FORMATS: tuple[Format, ...] = (ONNX, PACKAGE, PROGRAM)
"""Every format; of two suffixes that fit, the first counts."""

_ALIKE = 1e-3  # of the largest answer: deep networks amplify rounding, and other mistakes are larger by far


@dataclass(frozen=True)
class Export:
    """A file that was written.

    Attributes:
        path: Where it is.
        format: What people call its format.
        any_size: Whether it takes images of other sizes, at least of larger ones than it was made for.
        difference: The largest difference from torch's answers that was found, relative to the largest answer; None
            where onnxruntime was not there to find any.
    """

    path: Path
    format: str
    any_size: bool
    difference: float | None

    def __str__(self) -> str:
        checked = (
            "not compared: onnxruntime is not installed"
            if self.difference is None
            else f"its answers differ from torch's by {self.difference:.0e} of the largest"
        )
        sizes = "any size" if self.any_size else "this size alone"
        return f"{self.path} ({self.format}) for any number of images of {sizes}; {checked}"


def export_model(
    model: nn.Module,
    path: Path | str,
    *,
    pixels: int | None = None,
    channels: int | None = None,
    about: About | None = None,
    device: torch.device | str = "cpu",
) -> Export:
    """Write a network as a file that runs without xcnorm.

    It is fused, traced on plain operators, written, read back and compared with the model itself, for other numbers of
    images and, where that goes well, another size. Only then does the file get its name.

    Args:
        model: A network of images; it is left as it is.
        path: ``NAME.onnx``; ``NAME.pt2``, for `torch.export.load`; or ``NAME.aoti.pt2``, compiled to native code by
            AOTInductor.
        pixels: Height and width that it was made for; None is what ``about`` says.
        channels: Channels of its images; None is what its first convolution takes.
        about: What the file carries along: classes, normalisation, and so on.
        device: What a program or a package computes on.

    Raises:
        UserError: The suffix is none of these, a package is missing, or the network cannot be exported, or answers
            differently then.

    Example:
        >>> from xcnorm import create_model
        >>> written = export_model(create_model("wrn16_4"), "network.pt2", pixels=32)  # doctest: +SKIP
        >>> written.any_size  # doctest: +SKIP
        True
    """
    path, device = Path(path), torch.device(device)
    chosen = find_format(path)
    if chosen is ONNX and device.type != "cpu":
        raise UserError(f"device={str(device)!r} is not for ONNX files, which run wherever their runtime does")
    about = about or About()
    pixels = pixels or about.pixels
    if pixels is None:
        raise UserError(
            "the size of its images is not known; give pixels (--pixels), the height and width that it was made for"
        )
    about = replace(about, pixels=pixels, network=about.network or type(model).__name__)
    whole = copy.deepcopy(model).float().to(device).eval()
    images = _images(channels or _channels(model), 2, pixels, pixels, about).to(device)
    fused = whole if is_fused(whole) else fuse(whole)
    try:
        any_size = True
        content, difference = _checked(chosen, fused, whole, images, about, any_size)
    except UserError:  # a trace for one size alone may do what one for any size does not
        any_size = False
        content, difference = _checked(chosen, fused, whole, images, about, any_size)
    with disk_errors(path, "choose another file"), replacing(path) as part:
        part.write_bytes(content)
    return Export(path, chosen.name, any_size, difference)


def find_format(path: Path) -> Format:
    """The format that a file's name asks for.

    Raises:
        UserError: There is none.
    """
    for each in FORMATS:
        if path.name.lower().endswith(each.suffix):
            return each
    known = ", ".join(f"NAME{each.suffix} ({each.name})" for each in FORMATS)
    raise UserError(f"{path} names no format; write one of {known}")


def _checked(
    chosen: Format, fused: nn.Module, model: nn.Module, images: Tensor, about: About, any_size: bool
) -> tuple[bytes, float | None]:
    """The content of a file, and by how much its answers differ from the model's.

    Raises:
        UserError: There is none, or it does not do what the model does.
    """
    content = chosen.to_bytes(fused, images, about, any_size)
    count, channels, height, width = images.shape
    shapes = [(count + 1, height, width), (1, height + height // 2, width + 1) if any_size else (1, height, width)]
    worst = 0.0
    try:
        if (run := chosen.load(content, images.device)) is None:
            return content, None
        for shape in shapes:
            worst = max(worst, _difference(run, model, _images(channels, *shape, about).to(images.device)))
    except Exception as error:  # of many kinds
        raise UserError(f"the exported network does not run: {first_line(error)}") from error
    if not worst <= _ALIKE:
        raise UserError(f"the exported network answers differently, by {worst:.1e} of its largest answer")
    return content, worst


@torch.no_grad()
def _difference(run: Run, model: nn.Module, images: Tensor) -> float:
    """The largest difference between the answers of two networks, relative to the largest answer."""
    with precision("float32"):
        found, expected = run(images), model(images)
    if not isinstance(expected, Tensor) or found.shape != expected.shape:
        raise ValueError("a network to export must answer with one tensor")
    largest = expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
    return float((found.to(expected.device) - expected).abs().max() / largest)


def _images(channels: int, count: int, height: int, width: int, about: About) -> Tensor:
    """Noise on smooth shapes, normalised as the network's images are."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, channels, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    values = 0.8 * smooth + 0.2 * torch.rand(count, channels, height, width, generator=generator)
    mean, std = (
        torch.tensor(numbers or default).view(-1, 1, 1)
        for numbers, default in ((about.mean, [0.5]), (about.std, [0.5]))
    )
    return (values - mean) / std


def _channels(model: nn.Module) -> int:
    """Of the first convolution's input; of a network without any it is three."""
    return next((module.in_channels for module in model.modules() if isinstance(module, _ConvNd)), 3)
