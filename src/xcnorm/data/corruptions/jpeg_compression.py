"""JPEG compression: the image is encoded and decoded again, with colour at half resolution (4:2:0).

What libjpeg does to the values, as arithmetic on tensors: its fixed-point numbers and its rounding, and so its bytes,
on every device. The lossless half of the format (zigzag order, Huffman codes) changes no value and is left out.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, register_corruption

# The quantisation tables of the standard's Annex K, for brightness and for colour; quality scales them.
_LUMA = """
    16 11 10 16  24  40  51  61
    12 12 14 19  26  58  60  55
    14 13 16 24  40  57  69  56
    14 17 22 29  51  87  80  62
    18 22 37 56  68 109 103  77
    24 35 55 64  81 104 113  92
    49 64 78 87 103 121 120 101
    72 92 95 98 112 100 103  99
"""
_CHROMA = """
    17 18 24 47 99 99 99 99
    18 21 26 66 99 99 99 99
    24 26 56 99 99 99 99 99
    47 66 99 99 99 99 99 99
    99 99 99 99 99 99 99 99
    99 99 99 99 99 99 99 99
    99 99 99 99 99 99 99 99
    99 99 99 99 99 99 99 99
"""


@register_corruption(
    "jpeg_compression",
    "digital",
    published=15,
    cifar=(80, 65, 58, 50, 40),
    imagenet=(25, 18, 15, 10, 7),
)
def _apply(images: Tensor, fields: Fields, quality: int) -> Tensor:
    pixels = (images * 255).round().to(torch.int32)
    luma, *chroma = _to_ycc(*pixels.unbind(1))
    luma = _through_blocks(luma, _LUMA, quality)
    chroma = [_upsample(_through_blocks(_downsample(c), _CHROMA, quality), pixels.shape[2:]) for c in chroma]
    return torch.stack(_to_rgb(luma, *chroma), 1).clamp(0, 255) / 255


def _to_ycc(red: Tensor, green: Tensor, blue: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Brightness Y and the two colours Cb and Cr; the factors are in units of 2^-16."""
    half = 1 << 15
    middle = (128 << 16) + half - 1
    return (
        (19595 * red + 38470 * green + 7471 * blue + half) >> 16,
        (-11059 * red - 21709 * green + 32768 * blue + middle) >> 16,
        (32768 * red - 27439 * green - 5329 * blue + middle) >> 16,
    )


def _to_rgb(luma: Tensor, cb: Tensor, cr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    half = 1 << 15
    cb, cr = cb - 128, cr - 128
    return (
        luma + ((91881 * cr + half) >> 16),
        luma + ((-22554 * cb - 46802 * cr + half) >> 16),
        luma + ((116130 * cb + half) >> 16),
    )


def _downsample(plane: Tensor) -> Tensor:
    """The mean of each 2x2 pixels. Its half is rounded up and down in turn along a row, so that it favours neither."""
    plane = _replicate(plane, right=-plane.shape[2] % 16, bottom=plane.shape[1] % 2)
    top, bottom = plane[:, ::2], plane[:, 1::2]
    total = top[..., ::2] + top[..., 1::2] + bottom[..., ::2] + bottom[..., 1::2]
    bias = 1 + torch.arange(total.shape[2], dtype=torch.int32, device=plane.device) % 2
    return (total + bias) >> 2


def _upsample(plane: Tensor, size: torch.Size) -> Tensor:
    """Twice as large, each value mixed 3 : 1 with its neighbours; then cropped to `size`."""
    height, width = size
    plane = plane[..., : (width + 1) // 2]
    if plane.shape[2] <= 2:  # libjpeg repeats the values of so narrow an image
        return plane.repeat_interleave(2, 1).repeat_interleave(2, 2)[:, :height, :width]
    above = torch.cat([plane[:, :1], plane[:, :-1]], 1)
    below = torch.cat([plane[:, 1:], plane[:, -1:]], 1)
    rows = torch.stack([3 * plane + above, 3 * plane + below], 2).flatten(1, 2)
    left = torch.cat([rows[..., :1], rows[..., :-1]], 2)
    right = torch.cat([rows[..., 1:], rows[..., -1:]], 2)
    both = torch.stack([(3 * rows + left + 8) >> 4, (3 * rows + right + 7) >> 4], 3).flatten(2, 3)
    return both[:, :height, :width]


def _through_blocks(plane: Tensor, table: str, quality: int) -> Tensor:
    """Each block of 8x8 to frequencies, rounded to whole steps of the quantisation table, and back."""
    _, height, width = plane.shape
    padded = _replicate(plane, right=-width % 8, bottom=-height % 8)
    # Whole numbers in double precision: their products and sums are exact in whatever order they are taken.
    blocks = padded.unflatten(2, (-1, 8)).unflatten(1, (-1, 8)).transpose(2, 3).double() - 128
    cosines = _cosines(plane.device)
    steps = _steps(table, quality, plane.device)

    frequencies = _shift(_shift(blocks @ cosines.T, 11).mT @ cosines.T, 15).mT
    # The transform's numbers are eight times too large.
    whole = frequencies.sign() * ((frequencies.abs() + 4 * steps) / (8 * steps)).floor()
    columns = _shift((whole * steps).mT @ cosines, 11).mT
    blocks = (_shift(columns @ cosines, 18) + 128).clamp(0, 255)

    return blocks.to(torch.int32).transpose(2, 3).flatten(3, 4).flatten(1, 2)[:, :height, :width]


def _shift(values: Tensor, bits: int) -> Tensor:
    """Divided by 2^bits and rounded, as a shift of fixed-point numbers does."""
    return (values * 2.0**-bits + 0.5).floor()


def _replicate(plane: Tensor, right: int, bottom: int) -> Tensor:
    """Repeat the last column and the last row."""
    wide = torch.cat([plane, plane[..., -1:].expand(-1, -1, right)], 2) if right else plane
    return torch.cat([wide, wide[:, -1:].expand(-1, bottom, -1)], 1) if bottom else wide


@cache
def _steps(table: str, quality: int, device: torch.device) -> Tensor:
    base = torch.tensor([int(number) for number in table.split()]).view(8, 8)
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return ((base * percent + 50) // 100).clamp(1, 255).double().to(device)


@cache
def _cosines(device: torch.device) -> Tensor:
    """The cosine transform of 8 values as libjpeg's accurate method has it, in units of 2^-13 / sqrt(8).

    The method shares multiplications between the rows (Loeffler, Ligtenberg and Moschytz 1989), with constants rounded
    to 13 bits. All else is exact, so it is this matrix, which differs from one of rounded cosines in some last digits.
    """
    unit = torch.eye(8, dtype=torch.float64)
    outer, inner = unit[:4] + unit[4:].flip(0), unit[:4] - unit[4:].flip(0)
    even, odd = outer[:2] + outer[2:].flip(0), outer[:2] - outer[2:].flip(0)
    row0, row4 = 8192 * (even[0] + even[1]), 8192 * (even[0] - even[1])
    shared = 4433 * (odd[0] + odd[1])
    row2, row6 = shared + 6270 * odd[0], shared - 15137 * odd[1]

    a, b, c, d = inner.flip(0)  # differences of the innermost pair first
    ad, bc, ac, bd = -7373 * (a + d), -20995 * (b + c), -16069 * (a + c), -3196 * (b + d)
    all_four = 9633 * (a + b + c + d)
    row7 = 2446 * a + ad + ac + all_four
    row5 = 16819 * b + bc + bd + all_four
    row3 = 25172 * c + bc + ac + all_four
    row1 = 12299 * d + ad + bd + all_four
    return torch.stack([row0, row1, row2, row3, row4, row5, row6, row7]).to(device)
