"""Synthetic stained tissue: an offline twin of Camelyon17-WILDS, in which the look depends on the hospital.

Nuclei lie on a jittered grid over fibrous stroma. Haematoxylin colours the nuclei and eosin the rest, and light passes
through both by the law of Beer and Lambert; each of the five centres has its own stains, lamp and scanner. Whether a
patch is tumour is decided by its central 32x32 pixels alone, as in the published set.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from xcnorm.data.staging import staging
from xcnorm.data.streams import Stream, indices
from xcnorm.data.synthesis._batches import check_labels, pieces
from xcnorm.data.synthesis._blur import blur
from xcnorm.errors import UserError

_CENTRE = 32  # pixels; the part of a patch that its label is about
_SPACING = 10.7  # pixels between neighbouring places for a nucleus
_REACH = 10  # pixels from a nucleus's middle to the end of what is drawn of it
_PIECE = 16  # patches at a time

_RELEASE = "RELEASE_v1.0.txt"
_COLUMNS = ("", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
_SLIDES, _NODES, _PATIENTS = 10, 5, 20  # slides and patients of each centre, and lymph nodes of each patient


@dataclass(frozen=True)
class _Look:
    """What a hospital does to a picture of tissue.

    Attributes:
        haematoxylin: How strongly the stain of the nuclei absorbs red, green and blue.
        eosin: The same of the stain of everything else.
        light: Red, green and blue of the empty slide.
        blur: Of the scanner, in pixels.
        noise: Of the scanner, as a share of white.
    """

    haematoxylin: tuple[float, float, float]
    eosin: tuple[float, float, float]
    light: tuple[float, float, float]
    blur: float
    noise: float


_LOOKS = (
    _Look((1.05, 1.15, 0.50), (0.10, 0.62, 0.28), (0.96, 0.94, 0.96), blur=0.6, noise=0.015),  # the textbook's colours
    _Look((0.75, 1.00, 0.42), (0.05, 0.42, 0.14), (1.00, 0.97, 0.99), blur=1.1, noise=0.010),  # pale and soft
    _Look((1.20, 1.05, 0.62), (0.22, 0.72, 0.50), (0.90, 0.86, 0.82), blur=0.5, noise=0.025),  # thick, brownish light
    _Look((0.80, 1.05, 0.30), (0.28, 0.70, 0.18), (0.93, 0.92, 1.00), blur=0.9, noise=0.015),  # purple throughout
    _Look((1.30, 1.10, 0.55), (0.05, 0.85, 0.55), (0.98, 0.84, 0.86), blur=0.7, noise=0.020),  # red, blue-black nuclei
)


def render_patches(
    labels: Tensor, centre: Tensor, *, pixels: int = 96, seed: int = 0, index: Tensor | None = None
) -> Tensor:
    """Render patches of lymph node tissue.

    A patch depends on its label, its centre, the seed and its own index, never on the other patches in the batch.

    Args:
        labels: ``(N,)``, int64: 1 where the central 32x32 pixels hold tumour, else 0.
        centre: ``(N,)``, int64: the hospital, from 0 to 4.
        pixels: Height and width of the patches, at least 32.
        seed: Seed of everything random.
        index: ``(N,)``, int64: which patch each one is; 0, 1, 2, ... unless given.

    Returns:
        ``(N, 3, pixels, pixels)``, uint8.

    Raises:
        UserError: An argument is not as described above.
    """
    check_labels(labels, 2)
    check_labels(centre, len(_LOOKS), "centre")
    if len(centre) != len(labels):
        raise UserError(f"there must be as many centres as labels, not {len(centre)} and {len(labels)}")
    if pixels < _CENTRE:
        raise UserError(f"pixels must be at least {_CENTRE}, not {pixels}")
    index = indices(len(labels), index)
    patches = torch.empty(len(labels), 3, pixels, pixels, dtype=torch.uint8)
    for piece in pieces(len(labels), _PIECE):
        stream = Stream(seed, "histology", index[piece])
        patches[piece] = _scan(*_tissue(labels[piece], pixels, stream), centre[piece], stream)
    return patches


def _scan(nuclei: Tensor, stroma: Tensor, centre: Tensor, stream: Stream) -> Tensor:
    """The picture that a centre takes of tissue with so much haematoxylin and eosin in it, ``(N, pixels, pixels)``."""
    haematoxylin, eosin, light = (
        torch.tensor([getattr(look, part) for look in _LOOKS])[centre][:, :, None, None]
        for part in ("haematoxylin", "eosin", "light")
    )
    softness, noise = (torch.tensor([getattr(look, part) for look in _LOOKS])[centre] for part in ("blur", "noise"))
    # No two slides of a centre are stained and lit alike.
    haematoxylin = haematoxylin * (0.85 + 0.3 * stream.uniform(1, 1, 1))
    eosin = eosin * (0.85 + 0.3 * stream.uniform(1, 1, 1))
    light = light * (0.97 + 0.06 * stream.uniform(1, 1, 1))
    through = (-(nuclei.unsqueeze(1) * haematoxylin + stroma.unsqueeze(1) * eosin)).exp() * light
    seen = blur(through, softness * (0.8 + 0.6 * stream.uniform()), reach=4)
    seen = seen + noise.view(-1, 1, 1, 1) * stream.normal(1, *nuclei.shape[1:])
    return seen.clamp(0, 1).mul(255).round().to(torch.uint8)


def _tissue(labels: Tensor, pixels: int, stream: Stream) -> tuple[Tensor, Tensor]:
    """Amounts of haematoxylin and of eosin, each ``(N, pixels, pixels)``."""
    nuclei = _nuclei(labels, pixels, stream)
    chromatin = _clouds(stream, pixels, 2.5)
    grain = _clouds(stream, pixels, 7)
    drift = _clouds(stream, pixels, 30)
    fibres = (1 - (2 * _clouds(stream, pixels, 14) - 1).abs()) ** 4  # thin where the clouds pass their middle
    gaps = ((drift - 0.72) * 12).clamp(0, 1)  # between cells the slide is empty
    stroma = (0.35 + 0.5 * grain + 0.5 * fibres) * (1 - 0.9 * gaps) * (1 - 0.6 * nuclei.clamp(max=1))
    return nuclei * (0.7 + 0.6 * chromatin) + 0.12 * grain * (1 - gaps), stroma


def _clouds(stream: Stream, pixels: int, size: float) -> Tensor:
    """Smooth noise in [0, 1] with features of about `size` pixels, ``(N, pixels, pixels)``."""
    cells = round(pixels / size) + 1
    return F.interpolate(stream.uniform(1, cells, cells), (pixels, pixels), mode="bilinear", align_corners=True)[:, 0]


def _nuclei(labels: Tensor, pixels: int, stream: Stream) -> Tensor:
    """How dark the nuclei are at each pixel, ``(N, pixels, pixels)``, 0 where there is none."""
    side = round(pixels / _SPACING)
    grid = (torch.arange(side) + 0.5) * (pixels / side)
    places = torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1).view(1, -1, 2)
    inside = ((places - pixels / 2).abs() <= _CENTRE / 2).all(2)
    # What surrounds the centre is mostly of its kind, yet not always: the label is about the centre.
    strange = stream.uniform(1) < 0.3
    tumour = torch.where(inside, labels.bool().unsqueeze(1), labels.bool().unsqueeze(1) ^ strange).float()

    count = side * side
    middles = places + (0.75 * _SPACING) * (stream.uniform(count, 2) - 0.5)
    crowding = stream.uniform(1)
    chance = torch.lerp(0.25 + 0.5 * crowding, 0.6 + 0.35 * crowding, tumour)
    darkness = torch.lerp(0.7 + 0.4 * stream.uniform(count), 0.8 + 0.5 * stream.uniform(count), tumour)
    darkness = darkness * (stream.uniform(count) < chance)
    radius = torch.lerp(2.2 + 1.4 * stream.uniform(count), 3.4 + 2.6 * stream.uniform(count), tumour)
    squash = 1 - torch.lerp(torch.tensor(0.2), torch.tensor(0.4), tumour) * stream.uniform(count)
    lobes = torch.lerp(torch.tensor(0.04), torch.tensor(0.2), tumour) * stream.uniform(count)
    turn = stream.normal(count, 2)
    turn = turn / (turn.square().sum(2, keepdim=True) + 1e-6).sqrt()

    # Each nucleus is drawn in a small window of its own, and the darkest wins where windows overlap.
    corner = middles.floor().long()
    window = torch.arange(2 * _REACH)
    dy = (window + 0.5 - _REACH).view(1, 1, -1, 1) - (middles - corner)[..., 0, None, None]
    dx = (window + 0.5 - _REACH).view(1, 1, 1, -1) - (middles - corner)[..., 1, None, None]
    cos, sin = turn[..., 0, None, None], turn[..., 1, None, None]
    u = cos * dx + sin * dy
    v = (cos * dy - sin * dx) / squash[..., None, None]
    distance = (u * u + v * v).sqrt() + 1e-6
    c = u / distance
    outline = radius[..., None, None] * (1 + lobes[..., None, None] * (4 * c * c - 3) * c)  # three lobes: cos(3 angle)
    drawn = darkness[..., None, None] * (outline - distance + 0.5).clamp(0, 1)

    # A margin all around takes what hangs over the edge of the patch, and is cut off again.
    wide = pixels + 4 * _REACH
    top, left = (corner + _REACH).unbind(2)
    rows, columns = top[..., None, None] + window.view(-1, 1), left[..., None, None] + window
    canvas = torch.zeros(len(labels), wide * wide)
    canvas.scatter_reduce_(1, (rows * wide + columns).flatten(1), drawn.flatten(1), "amax")
    return canvas.view(-1, wide, wide)[:, 2 * _REACH : -2 * _REACH, 2 * _REACH : -2 * _REACH]


def write_wilds(folder: Path, *, patches_per_cell: int = 8, slides_per_centre: int = 2, seed: int = 0) -> None:
    """Write a complete set of rendered patches in the layout of Camelyon17-WILDS v1.0.

    The set appears under its name only when it is complete; if it is there already, nothing is done.

    Args:
        folder: Where to write: ``metadata.csv``, ``patches/`` and the release file go into it.
        patches_per_cell: How many patches of each class there are on each slide.
        slides_per_centre: How many slides each of the five centres has, at most 10.
        seed: Seed of everything random.

    Raises:
        UserError: A number is out of range, or the folder holds something else.
    """
    if patches_per_cell < 1 or slides_per_centre not in range(1, _SLIDES + 1):
        raise UserError(
            f"patches_per_cell must be at least 1 and slides_per_centre from 1 to {_SLIDES}, "
            f"not {patches_per_cell} and {slides_per_centre}"
        )
    if (folder / _RELEASE).exists():
        return
    with staging(folder) as unfinished:  # which waits for another process that writes the same set
        if (folder / _RELEASE).exists():
            return
        if folder.exists():
            raise UserError(f"{folder} exists but holds no complete set; remove it, or name another folder")
        rows = list(_rows(patches_per_cell, slides_per_centre, seed))
        _write_patches(unfinished / "patches", rows, seed)
        with (unfinished / "metadata.csv").open("w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(_COLUMNS)
            table.writerows(row.cells(number) for number, row in enumerate(rows))
        (unfinished / _RELEASE).write_text(
            "Rendered by xcnorm in the layout of Camelyon17-WILDS v1.0; not real tissue.\n"
        )
        unfinished.rename(folder)


@dataclass(frozen=True)
class _Row:
    """One patch of the metadata."""

    centre: int
    slide: int  # among those of the centre
    place: int  # on the slide
    tumour: int
    split: int

    @property
    def patient(self) -> str:
        return f"{self.centre * _PATIENTS + self.slide:03d}"

    @property
    def node(self) -> int:
        return self.slide % _NODES

    @property
    def corner(self) -> tuple[int, int]:
        """Pixels from the slide's left and top, patch beside patch."""
        return 96 * (self.place % 32), 96 * (self.place // 32)

    @property
    def path(self) -> Path:
        name = f"patient_{self.patient}_node_{self.node}"
        x, y = self.corner
        return Path(name) / f"patch_{name}_x_{x}_y_{y}.png"

    def cells(self, number: int) -> tuple[object, ...]:
        slide = self.centre * _SLIDES + self.slide
        return (number, self.patient, self.node, *self.corner, self.tumour, slide, self.centre, self.split)


def _rows(patches_per_cell: int, slides_per_centre: int, seed: int) -> Iterator[_Row]:
    """All patches; of each centre and class a random tenth, but at least one, is split off where there are two."""
    count = patches_per_cell * slides_per_centre
    held_out = max(round(count / 10), min(1, count - 1))
    for centre in range(len(_LOOKS)):
        order = Stream(seed, "histology/split", torch.tensor([centre])).uniform(2, count)[0].argsort(1).argsort(1)
        for slide in range(slides_per_centre):
            for tumour in (0, 1):
                for i in range(patches_per_cell):
                    split = int(order[tumour, slide * patches_per_cell + i] < held_out)
                    yield _Row(centre, slide, 2 * i + tumour, tumour, split)


def _write_patches(folder: Path, rows: list[_Row], seed: int) -> None:
    labels, centre = torch.tensor([[row.tumour, row.centre] for row in rows]).unbind(1)
    for piece in pieces(len(rows), 256):  # a large set must not be in memory at once
        index = torch.arange(len(rows))[piece]
        patches = render_patches(labels[piece], centre[piece], seed=seed, index=index)
        for row, patch in zip(rows[piece], patches, strict=True):
            file = folder / row.path
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(patch.movedim(0, 2).numpy()).save(file)
