"""Pictures of frost on a window, grown rather than photographed.

A pane is covered by plates of ice, each with fine streaks in a direction of its own and a ridge where two plates meet.
Over them grow ferns: a stem, branches on both sides that shorten towards the tip, and twigs on the branches. Light from
one side gives everything a bright and a dark flank. Brightness, contrast and tint vary from picture to picture over the
range seen in photographs of frost.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.data.streams import Stream
from xcnorm.errors import UserError

_FERNS = 70  # of each picture
_PLATES = 160
_BRANCHES, _TWIGS = 26, 9  # on each side of a stem, and on each side of a branch


@cache
def frost_pictures(count: int = 5, height: int = 720, width: int = 1024, seed: int = 0) -> tuple[Tensor, ...]:
    """Grow pictures of frost: bluish white crystals on darker ground.

    Picture `i` depends on the seed, the size and `i` alone. The result is kept, so do not write into it.

    Args:
        count: How many pictures.
        height: Of each picture, at least 32 pixels.
        width: Of each picture, at least 32 pixels.
        seed: Seed of everything random.

    Returns:
        The pictures, each ``(3, height, width)``, uint8.

    Raises:
        UserError: The pictures would be too small.
    """
    if min(height, width) < 32:
        raise UserError(f"pictures of frost must be at least 32 pixels high and wide, not {height}x{width}")
    return tuple(_grow(Stream(seed, "frost", torch.tensor([i])), height, width) for i in range(count))


def _grow(stream: Stream, height: int, width: int) -> Tensor:
    brightness, contrast, feathery, blue = stream.uniform(4)[0].tolist()
    clouds = _clouds(stream, height, width)
    ferns = _ferns(stream, height, width) * (0.3 + 1.4 * clouds)
    ferns = ferns / (0.3 + ferns)  # where many lie over each other, the ice is hardly whiter than one
    grain = stream.uniform(height, width)[0] * (0.3 + ferns)
    relief = (0.7 + 0.7 * feathery) * ferns + 0.7 * _plates(stream, clouds) + 1.5 * clouds + 0.7 * grain
    # Lit from the upper left: what rises in that direction is bright, what falls is dark.
    beside = F.pad(relief[None, None], (2, 0, 2, 0), mode="replicate")[0, 0, :height, :width]
    lit = relief + 1.2 * (relief - beside)
    # Summed in double precision, so that the order of summation, which depends on the machine, does not show.
    spread, mean = (moment.float() for moment in torch.std_mean(lit.double()))
    lit = (lit - mean) / spread
    # The brighter the ice, the less room is left for contrast.
    shown = (0.31 + 0.45 * brightness + (0.16 - 0.1 * brightness + 0.06 * contrast) * lit).clamp(0, 1)
    # Thin ice is bluish, thick ice is white.
    tint = torch.tensor([-0.15, 0.0, 0.06]) * (0.5 + 1.5 * blue)
    coloured = shown + tint.view(3, 1, 1) * (1 - shown)
    return (coloured.clamp(0, 1) * 255).round().to(torch.uint8)


def _clouds(stream: Stream, height: int, width: int) -> Tensor:
    """Noise in [0, 1] in which every octave has its share, ``(height, width)``."""
    total = torch.zeros(height, width)
    for size, share in ((256, 0.45), (96, 0.25), (32, 0.12), (10, 0.10), (3, 0.08)):
        cells = (height // size + 2, width // size + 2)
        total += share * F.interpolate(stream.uniform(1, *cells), (height, width), mode="bilinear")[0, 0]
    return total


def _plates(stream: Stream, clouds: Tensor) -> Tensor:
    """Streaks within plates, bent by the clouds, and ridges between plates, ``(height, width)``."""
    height, width = clouds.shape
    size = torch.tensor([height, width])
    seeds = stream.uniform(_PLATES, 2)[0] * size
    # Which plate a place belongs to is found on a coarse grid, bent by noise so that plates are not polygons.
    coarse = (height // 4, width // 4)
    bend = F.interpolate(stream.uniform(2, 24, 36), coarse, mode="bilinear")[0] - 0.5
    places = torch.stack(torch.meshgrid(*(4.0 * torch.arange(n) for n in coarse), indexing="ij")) + 60 * bend
    y, x = (places[i].flatten()[:, None] - seeds[:, i] for i in range(2))
    nearest, plate = (x * x + y * y).topk(2, largest=False)
    gap = nearest[:, 1].sqrt() - nearest[:, 0].sqrt()
    ridges = (1 - gap / 7).clamp(0, 1).view(1, 1, *coarse)
    ridges = F.interpolate(ridges, (height, width), mode="bilinear")[0, 0]
    plate = F.interpolate(plate[:, 0].view(1, 1, *coarse).float(), (height, width))[0, 0].long()

    angle = torch.pi * stream.uniform(_PLATES)[0]
    step = 0.15 + 0.25 * stream.uniform(_PLATES)[0]
    level = 0.6 * stream.uniform(_PLATES)[0]
    profile = stream.uniform(4096)[0]
    rows, columns = torch.arange(height).view(-1, 1), torch.arange(width)
    across = (step * angle.cos())[plate] * columns + (step * angle.sin())[plate] * rows
    across = across + 12 * clouds
    whole = across.floor()
    place = whole.long()
    streaks = torch.lerp(profile[place % 4096], profile[(place + 1) % 4096], across - whole)
    return level[plate] + streaks * clouds + 0.4 * ridges


class _Lines(NamedTuple):
    """Straight lines, each attribute's first axis being the line.

    Attributes:
        start: ``(L, 2)``, row and column.
        heading: ``(L,)``, in radians from the direction of the columns.
        length: ``(L,)``, in pixels.
        spread: ``(L,)``, the angle at which side lines leave.
    """

    start: Tensor
    heading: Tensor
    length: Tensor
    spread: Tensor

    def points(self, share: Tensor) -> Tensor:
        """``(L, n, 2)``, the points at given shares ``(L, n)`` of the lengths."""
        direction = torch.stack([self.heading.sin(), self.heading.cos()], 1) * self.length.unsqueeze(1)
        return self.start.unsqueeze(1) + share.unsqueeze(2) * direction.unsqueeze(1)

    def sides(self, stream: Stream, count: int, share: float) -> _Lines:
        """`count` side lines to the left and to the right of each, from `share` of its length down to nothing."""
        jitter, vigour = stream.uniform(2, len(self.length), 2 * count)[0]
        place = (torch.arange(count).repeat(2) + jitter) / count
        side = torch.tensor([-1.0, 1.0]).repeat_interleave(count)
        heading = self.heading.unsqueeze(1) + side * self.spread.unsqueeze(1)
        length = self.length.unsqueeze(1) * share * (1 - place) * (0.5 + 0.5 * vigour)
        spread = self.spread.unsqueeze(1).expand_as(length)
        return _Lines(self.points(place).flatten(0, 1), heading.flatten(), length.flatten(), spread.flatten())


def _ferns(stream: Stream, height: int, width: int) -> Tensor:
    """Ferns, brightest along their stems, ``(height, width)``."""
    size = torch.tensor([height, width])
    root = stream.uniform(_FERNS, 2)[0]
    # Half of them grow inwards from the frame: their root is moved to the nearest edge.
    edge = root.round()
    nearest = torch.arange(2) == (root - edge).abs().argmin(1, keepdim=True)
    root = torch.where(nearest & (stream.uniform(_FERNS, 1)[0] < 0.5), edge, root) * size
    inward = size / 2 - root
    heading = torch.atan2(inward[:, 0], inward[:, 1]) + stream.normal(_FERNS)[0]
    length = height * (0.1 + 0.4 * stream.uniform(_FERNS)[0].square())
    stems = _Lines(root, heading, length, 0.5 + 0.5 * stream.uniform(_FERNS)[0])
    branches = stems.sides(stream, _BRANCHES, 0.45)
    twigs = branches.sides(stream, _TWIGS, 0.35)

    canvas = torch.zeros(height * width)
    for lines, dots, light in ((stems, 400, 1.0), (branches, 100, 0.8), (twigs, 12, 0.6)):
        share = torch.arange(dots) / dots
        place = lines.points(share.expand(len(lines.length), dots)).flatten(0, 1).long()
        brightness = (light * (1 - 0.5 * share)).repeat(len(lines.length))
        row, column = place.unbind(1)
        seen = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        canvas.scatter_reduce_(0, (row * width + column)[seen], brightness[seen], "amax")
    return F.avg_pool2d(canvas.view(1, 1, height, width), 3, stride=1, padding=1)[0, 0]
