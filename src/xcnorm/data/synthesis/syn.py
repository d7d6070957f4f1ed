"""Synthetic digits after the SYN dataset of Ganin and Lempitsky (2015): house numbers that were never on a house.

Numbers of one to three digits are set in ordinary fonts, with the label's digit in the middle of the picture, and vary
in place, slant, colours, background and blur. A digit is drawn once per font and strength of blur; placing it in a
picture is then a matter of looking up pixels, for a whole batch at a time.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from xcnorm.data.colour import grey_level
from xcnorm.data.parts import MissingPartError
from xcnorm.data.streams import Stream, indices
from xcnorm.data.synthesis._batches import check_labels, pieces
from xcnorm.data.synthesis._blur import blur
from xcnorm.errors import UserError
from xcnorm.extras import needed

# The text fonts that come with matplotlib; its others hold mathematical symbols, or digits of uneven height.
_FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
    *("cmr10", "cmb10", "cmss10", "cmti10", "cmtt10"),
)
_TILE = 60  # pixels of the square that a digit is drawn in
_DIGIT = 36  # pixels of that which the digit is high; the rest is room for the blur
_BLURS = (0.8, 1.2, 1.7, 2.3, 3.0)  # pixels of the square; even the weakest smooths what the lookup would make jagged
_HALO = 3  # pixels of the square by which an outline or shadow is fatter than the digit

# A background goes from one tone to another by: nothing, a slow ramp, a sharp edge, or clouds.
_STEEPNESS = (0.0, 0.7, 12.0, 0.0)
_CLOUDINESS = (0.0, 0.0, 0.0, 1.0)

_READABLE = 0.3  # least difference in luminance between strokes and background
_PIECE = 256  # images at a time


def render_syn(labels: Tensor, *, pixels: int = 32, seed: int = 0, index: Tensor | None = None) -> Tensor:
    """Render synthetic digits.

    An image depends on its label, the seed and its own index, never on the other images in the batch.

    Args:
        labels: ``(N,)``, int64: the digit in the middle of each image.
        pixels: Height and width of the images, at least 8.
        seed: Seed of everything random.
        index: ``(N,)``, int64: which image each one is; 0, 1, 2, ... unless given.

    Returns:
        ``(N, 3, pixels, pixels)``, uint8.

    Raises:
        UserError: An argument is not as described above, or matplotlib, which the fonts come with, is missing.
    """
    check_labels(labels, 10)
    if pixels < 8:
        raise UserError(f"pixels must be at least 8, not {pixels}")
    index = indices(len(labels), index)
    images = torch.empty(len(labels), 3, pixels, pixels, dtype=torch.uint8)
    for piece in pieces(len(labels), _PIECE):
        images[piece] = _render(labels[piece], pixels, Stream(seed, "syn", index[piece]))
    return images


def _render(labels: Tensor, pixels: int, stream: Stream) -> Tensor:
    strokes, halo = _numbers(labels, pixels, stream)
    background, tones = _backgrounds(pixels, stream)
    ink = _readable(tones, stream)
    # Seen from the ink, the halo's colour lies beyond the background's, so the digit stays readable.
    colour = (2 * tones[:, 0] - ink).clamp(0, 1)
    present = (stream.uniform() < 0.3).float() * (0.5 + 0.5 * stream.uniform())
    image = background.lerp(_flat(colour), halo * present.view(-1, 1, 1, 1))
    image = image.lerp(_flat(ink), strokes)
    strength = 0.12 * stream.uniform().square()
    image += (stream.uniform(1, pixels, pixels) - 0.5) * strength.view(-1, 1, 1, 1)
    return image.clamp_(0, 1).mul_(255).round_().to(torch.uint8)


def _flat(colour: Tensor) -> Tensor:
    return colour[:, :, None, None]


def _numbers(labels: Tensor, pixels: int, stream: Stream) -> tuple[Tensor, Tensor]:
    """Where the number's strokes are, and where an outline or shadow of them is; each ``(N, 1, pixels, pixels)``."""
    tiles, widths = _glyphs()
    font = stream.integers(0, len(tiles)).unsqueeze(1)
    softness = stream.integers(0, len(_BLURS)).unsqueeze(1)
    length = stream.integers(1, 4)
    place = stream.integers(0, 6) % length  # even for one, two and three
    digits = torch.cat([labels.unsqueeze(1), stream.integers(0, 10, 2)], 1)  # the label's, its left and its right
    present = torch.stack([length > 0, place > 0, place < length - 1], 1).float()
    gap = 0.05 + 0.15 * stream.uniform(1)
    width = widths[font, digits]
    apart = (width[:, :1] + width[:, 1:]) / 2 + gap
    offset = torch.cat([torch.zeros_like(gap), apart * torch.tensor([-1.0, 1.0])], 1)

    # From a pixel's place in the picture back to its place in the line of text, in units of the digit's height.
    height = 0.5 + 0.28 * stream.uniform(1, 1)
    stretch = 0.8 + 0.4 * stream.uniform(1, 1)
    angle = 0.45 * (2 * stream.uniform(1, 1) - 1)
    shear = 0.25 * (2 * stream.uniform(1, 1) - 1)
    shift = 0.16 * (stream.uniform(2, 1, 1) - 0.5)
    middles = (torch.arange(pixels) + 0.5) / pixels - 0.5
    x, y = middles.view(1, 1, -1) - shift[:, 0], middles.view(1, -1, 1) - shift[:, 1]
    v = (angle.cos() * y - angle.sin() * x) / height
    u = (angle.cos() * x + angle.sin() * y) / (height * stretch) + shear * v

    chosen = tiles[font, digits, softness]
    fill = _look_up(chosen[:, :, 0], u, v, offset, present)
    cast = 0.18 * (stream.uniform(2, 1, 1) - 0.5)  # a halo in place is an outline, one moved aside a shadow
    cast *= (stream.uniform(1, 1, 1) < 0.5).float()
    halo = _look_up(chosen[:, :, 1], u - cast[:, 0], v - cast[:, 1], offset, present)
    return fill, halo


def _look_up(tiles: Tensor, u: Tensor, v: Tensor, offset: Tensor, present: Tensor) -> Tensor:
    """The digits of a number ``(N, digits, _TILE, _TILE)`` at given places of the line of text, as one mask."""
    to_tile = 2 * _DIGIT / _TILE
    across = (u.unsqueeze(1) - offset[:, :, None, None]) * to_tile
    grid = torch.stack([across, (v * to_tile).unsqueeze(1).expand_as(across)], -1)
    masks = F.grid_sample(tiles.flatten(0, 1).unsqueeze(1), grid.flatten(0, 1), align_corners=False)
    return (masks.view_as(across) * present[:, :, None, None]).amax(1, keepdim=True)


def _backgrounds(pixels: int, stream: Stream) -> tuple[Tensor, Tensor]:
    """Backgrounds ``(N, 3, pixels, pixels)`` and the two tones ``(N, 2, 3)`` that each goes between."""
    first = stream.uniform(3)
    second = (first + 0.5 * (stream.uniform(3) - 0.5)).clamp(0, 1)
    kind = stream.integers(0, len(_STEEPNESS))
    direction = 2 * torch.pi * stream.uniform(1, 1)
    edge = 0.5 * (stream.uniform(1, 1) - 0.5)
    middles = (torch.arange(pixels) + 0.5) / pixels - 0.5
    along = direction.cos() * middles.view(1, 1, -1) + direction.sin() * middles.view(1, -1, 1) - edge
    clouds = F.interpolate(stream.uniform(1, 7, 7), (pixels, pixels), mode="bilinear", align_corners=True) - 0.5
    steepness, cloudiness = (torch.tensor(table)[kind].view(-1, 1, 1) for table in (_STEEPNESS, _CLOUDINESS))
    share = (0.5 + steepness * along + cloudiness * clouds[:, 0]).clamp(0, 1)
    return _flat(first).lerp(_flat(second), share.unsqueeze(1)), torch.stack([first, second], 1)


def _readable(tones: Tensor, stream: Stream) -> Tensor:
    """Colours ``(N, 3)`` far enough in luminance from both tones: random ones if any will do, else black or white."""
    random = stream.uniform(6, 3)
    extremes = torch.tensor([[0.0] * 3, [1.0] * 3]).expand(len(tones), 2, 3)
    candidates = torch.cat([random, extremes], 1)
    strokes, background = (grey_level(*colours.unbind(2)) for colours in (candidates, tones))
    distance = (strokes.unsqueeze(2) - background.unsqueeze(1)).abs().amin(2)
    best = distance.clamp(max=_READABLE).argmax(1)  # of equals the first
    return candidates[torch.arange(len(tones)), best]


@cache
def _glyphs() -> tuple[Tensor, Tensor]:
    """Every digit of every font: ``(fonts, 10, blurs, 2, _TILE, _TILE)`` fill and halo, and ``(fonts, 10)`` widths."""
    folder = _font_folder()
    drawn = [[_draw(folder / f"{font}.ttf", digit) for digit in range(10)] for font in _FONTS]
    sharp = torch.stack([torch.stack([mask for mask, _ in row]) for row in drawn]).flatten(0, 1).unsqueeze(1)
    both = torch.cat([sharp, F.max_pool2d(sharp, 2 * _HALO + 1, stride=1, padding=_HALO)], 1)
    reach = _TILE // 6
    soft = torch.stack([blur(both, torch.full((len(both),), deviation), reach) for deviation in _BLURS], 1)
    widths = torch.tensor([[width for _, width in row] for row in drawn])
    return soft.unflatten(0, (len(_FONTS), 10)), widths


def _draw(font_file: Path, digit: int) -> tuple[Tensor, float]:
    """One digit, white on black in the middle of its square, and its width in units of its height."""
    left, top, right, bottom = _font(font_file, 200).getbbox(str(digit))
    width, height = right - left, bottom - top
    font = _font(font_file, 200 * _DIGIT / height)
    left, top, right, bottom = font.getbbox(str(digit))
    picture = Image.new("L", (_TILE, _TILE))
    corner = ((_TILE - left - right) / 2, (_TILE - top - bottom) / 2)
    ImageDraw.Draw(picture).text(corner, str(digit), font=font, fill=255)
    return torch.from_numpy(np.array(picture)).float() / 255, width / height


def _font(file: Path, size: float) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(file, size, layout_engine=ImageFont.Layout.BASIC)  # the engine that is always there


def _font_folder() -> Path:
    with needed("synthetic digits", "report", MissingPartError):  # its fonts
        import matplotlib
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"
