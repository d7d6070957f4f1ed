"""PRIME: mix chains of filters, warps and colour curves of maximal entropy (Modas et al., ECCV 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.methods.method import register_method
from xcnorm.methods.mixtures import Draw, Mixtures
from xcnorm.methods.warping import sampled

_POINTS = 64  # in a table of a colour curve, for each of its waves


@register_method("prime")
@dataclass
class Prime(Mixtures):
    """Mixtures of chains of random primitives: a filter, a smooth warp, or a colour curve.

    Attributes:
        kernel: The size of the filter.
        noise: The deviation of the filter's weights from those that change nothing.
        delta: Where a filter that changes nothing has its one: ``"paper"``, in the middle; ``"released"``, at the last
            row and column of 3x3, as in the published program, which shifts the picture by a pixel.
        waves: How many sines a colour curve has.
        variance: Of their heights.
        modes: The smallest and the largest frequency up to which a warp has sines.
        bend: The strongest warp, in shares of what leaves the picture without folds.
    """

    kernel: int = 3
    noise: float = 4.0
    delta: str = "paper"
    waves: int = 100
    variance: float = 0.01
    modes: tuple[int, ...] = (2, 100)
    bend: float = 1.0

    def validate(self) -> None:
        """Look at the values of the settings."""
        super().validate()
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise self.refuse("kernel", "an odd number from 1")
        if self.delta not in ("paper", "released"):
            raise self.refuse("delta", "'paper' or 'released'")
        if self.waves < 1:
            raise self.refuse("waves", "1 or more")
        whole = all(type(mode) is int for mode in self.modes)
        if len(self.modes) != 2 or not whole or not 2 <= self.modes[0] <= self.modes[1]:
            raise self.refuse("modes", "two rising whole numbers from 2")
        for name in ("noise", "variance", "bend"):
            if getattr(self, name) < 0:
                raise self.refuse(name, "0 or more")

    def operate(self, copies: Tensor, active: Tensor, draw: Draw, generator: torch.Generator) -> Tensor:
        """Each picture through one of the primitives; filters and curves of its own, the warp is the same for all."""
        channels, height, width = copies.shape[1:]
        chosen = draw(lambda rows: torch.randint(3, (rows, 1), generator=generator))[:, 0].where(active, -1)
        filters, bent, curves = ((chosen == number).nonzero()[:, 0] for number in range(3))
        weights = draw(lambda rows: torch.randn(rows, self.kernel**2, generator=generator)) * self.noise
        heights = draw(lambda rows: torch.randn(rows, channels * self.waves, generator=generator))
        heights = heights.view(-1, channels, self.waves) * math.sqrt(self.variance)
        down, across = self.displacement(height, width, generator).to(copies)
        rows, columns = (torch.arange(size, device=copies.device) for size in (height, width))
        result = copies.clone()
        if len(filters):
            place = filters.to(copies.device)
            kernels = weights[filters].view(-1, self.kernel, self.kernel) + self._delta()
            result[place] = filtered(copies[place], kernels.to(copies))
        if len(bent):
            place = bent.to(copies.device)
            result[place] = sampled(copies[place], rows[:, None] - down, columns - across, "border")
        if len(curves):
            place = curves.to(copies.device)
            result[place] = recoloured(copies[place], heights[curves].to(copies))
        return result

    def displacement(self, height: int, width: int, generator: torch.Generator) -> Tensor:
        """A smooth random field: how many pixels each lies from what it shows, down and across; ``(2, H, W)``."""
        low, high = self.modes
        most, warmth = torch.rand(2, generator=generator).mul(math.pi / 2).sin().square().tolist()  # Beta(1/2, 1/2)
        cut = min(low + int(most * (high + 1 - low)), high)
        slight, strong = temperatures(max(height, width), cut)
        strong = max(slight, self.bend * strong)
        field = smooth_fields(2, cut, height, width, generator)
        size = torch.tensor([height, width]).view(2, 1, 1)
        return math.sqrt(slight + warmth * (strong - slight)) * size * field

    def _delta(self) -> Tensor:
        place = self.kernel // 2 if self.delta == "paper" else math.ceil(self.kernel / 2)
        delta = torch.zeros(self.kernel, self.kernel)
        delta[min(place, self.kernel - 1), min(place, self.kernel - 1)] = 1
        return delta


def filtered(pictures: Tensor, kernels: Tensor) -> Tensor:
    """Each picture through a filter of its own, the same for all its channels.

    Args:
        pictures: ``(N, C, H, W)``.
        kernels: ``(N, K, K)``.
    """
    seen = F.conv2d(pictures.transpose(0, 1), kernels[:, None], padding=kernels.shape[-1] // 2, groups=len(pictures))
    return seen.transpose(0, 1).clamp(0, 1)


def recoloured(pictures: Tensor, heights: Tensor) -> Tensor:
    """Each channel through a curve of its own: to each value its sines, with these heights, are added.

    The curves are looked up in tables, straight between two points; that is right to a tenth of one of 256 levels.

    Args:
        pictures: ``(N, C, H, W)``.
        heights: Of the sines with one, two, three half-waves and so on, ``(N, C, K)``.
    """
    count = heights.shape[-1]
    points = torch.arange(_POINTS * count + 1, device=heights.device, dtype=heights.dtype) / (_POINTS * count)
    waves = torch.arange(1, count + 1, device=heights.device, dtype=heights.dtype)
    table = heights @ (math.pi * waves[:, None] * points).sin()
    values = pictures.flatten(2) * (_POINTS * count)
    before = values.floor().clamp(0, _POINTS * count - 1)
    left, right = (table.gather(2, before.long() + step) for step in (0, 1))
    return (pictures + torch.lerp(left, right, values - before).view_as(pictures)).clamp(0, 1)


def smooth_fields(count: int, cut: int, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Random sums of products of sines, zero at the edges, whose heights fall with their frequency.

    Args:
        count: How many.
        cut: The largest frequency.
        height: Of a field.
        width: Of a field.
        generator: Where the heights come from.

    Returns:
        ``(count, H, W)``.
    """
    mode = torch.arange(1, cut + 1)
    frequency = (mode[:, None].square() + mode.square()).sqrt()
    heights = torch.randn(count, cut, cut, generator=generator) * (frequency < cut + 0.5) / frequency
    down, across = ((math.pi * torch.linspace(0, 1, size)[:, None] * mode).sin() for size in (height, width))
    return down @ heights @ across.mT


def temperatures(size: int, cut: int) -> tuple[float, float]:
    """Between which a warp moves pixels by half of one, and yet does not fold the picture."""
    logarithm = math.log(cut)
    return 1 / (math.pi * size**2 * logarithm), 4 / (math.pi**3 * cut**2 * logarithm)
