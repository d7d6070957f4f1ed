"""PRIME: mix chains of filters, warps and colour curves of maximal entropy (Modas et al., ECCV 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.data.streams import Stream
from xcnorm.methods.method import Numbers, register_method
from xcnorm.methods.mixtures import Mixtures
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

    def draw_turn(self, shape: torch.Size, copies: int, generator: torch.Generator) -> Numbers:
        """For each copy a primitive, a filter and the key of a curve, ``(N, copies, ...)``; for the batch a warp."""
        ends = torch.rand(1, 2, generator=generator)
        cut = int(self.cuts(ends))
        modes = torch.randn(1, 2, cut, cut, generator=generator)
        return (
            self.each(shape, lambda count: torch.randint(3, (count, copies), generator=generator)),
            self.each(shape, lambda count: torch.randn(count, copies, self.kernel**2, generator=generator)),
            self.each(shape, lambda count: torch.randint(2**62, (count, copies), generator=generator)),
            ends,
            F.pad(modes, (0, self.modes[1] - cut) * 2),
        )

    def operate(self, copies: Tensor, active: Tensor, *numbers: Tensor) -> Tensor:
        """Each picture through one of the primitives; filters and curves of its own, the warp is the batch's."""
        chosen, weights, keys, ends, modes = numbers
        chosen = chosen.flatten().where(active, -1)
        filters, bent, curves = ((chosen == number).nonzero()[:, 0] for number in range(3))
        result = copies.clone()
        if len(filters):
            kernels = self.noise * weights.view(-1, self.kernel, self.kernel)[filters] + self._delta()
            place = filters.to(copies.device)
            result[place] = filtered(copies[place], kernels.to(copies))
        if len(bent):
            rows, columns = self.places(copies, ends, modes)
            if len(ends) > 1:  # each picture looks where its batch does
                batch = (bent // (len(copies) // len(ends))).to(copies.device)
                rows, columns = rows[batch], columns[batch]
            place = bent.to(copies.device)
            result[place] = sampled(copies[place], rows.squeeze(0), columns.squeeze(0), "border")
        if len(curves):
            place = curves.to(copies.device)
            heights = Stream(0, "prime", keys.flatten()[curves], copies.device).normal(copies.shape[1], self.waves)
            result[place] = recoloured(copies[place], math.sqrt(self.variance) * heights.to(copies))
        return result

    def places(self, pictures: Tensor, ends: Tensor, modes: Tensor) -> tuple[Tensor, Tensor]:
        """Where the pictures of each batch are looked at, rows and columns in pixels, ``(batches, H, W)``."""
        height, width = pictures.shape[2:]
        down, across = self.displacements(height, width, ends, modes.to(pictures)).unbind(1)
        rows, columns = (torch.arange(size, device=pictures.device) for size in (height, width))
        return rows[:, None] - down, columns - across

    def displacements(self, height: int, width: int, ends: Tensor, modes: Tensor) -> Tensor:
        """Smooth random fields: how many pixels each place lies from what it shows, down and across.

        Args:
            height: Of a field.
            width: Of a field.
            ends: Two numbers from 0 to 1 for each batch, of which frequency and temperature are made, ``(N, 2)``.
            modes: Normal numbers, ``(N, 2, M, M)``.

        Returns:
            ``(N, 2, H, W)``.
        """
        cuts = self.cuts(ends)
        slight, strong = temperatures(max(height, width), cuts.double())
        warmth = _beta(ends[:, 1].double())
        heat = torch.lerp(slight, slight.maximum(self.bend * strong), warmth).sqrt()
        size = torch.tensor([height, width]) * heat[:, None]
        return smooth_fields(modes, cuts.to(modes.device), height, width) * size[..., None, None].to(modes)

    def cuts(self, ends: Tensor) -> Tensor:
        """The largest frequency of each batch, ``(N,)``."""
        low, high = self.modes
        return (low + (_beta(ends[:, 0].double()) * (high + 1 - low)).long()).clamp_max(high)

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


def smooth_fields(modes: Tensor, cuts: Tensor, height: int, width: int) -> Tensor:
    """Sums of products of sines, zero at the edges, whose heights fall with their frequency.

    Args:
        modes: Heights before they fall, ``(N, count, M, M)``.
        cuts: The largest frequency of each sum, ``(N,)``.
        height: Of a field.
        width: Of a field.

    Returns:
        ``(N, count, H, W)``.
    """
    mode = torch.arange(1, modes.shape[-1] + 1, device=modes.device)
    frequency = (mode[:, None].square() + mode.square()).sqrt()
    heights = modes * (frequency < cuts[:, None, None, None] + 0.5) / frequency
    ends = [torch.linspace(0, 1, size, device=modes.device, dtype=modes.dtype) for size in (height, width)]
    down, across = ((math.pi * end[:, None] * mode).sin() for end in ends)
    return down @ heights @ across.mT


def temperatures(size: int, cuts: Tensor) -> tuple[Tensor, Tensor]:
    """Between which a warp moves pixels by half of one, and yet does not fold the picture."""
    logarithm = cuts.log()
    return 1 / (math.pi * size**2 * logarithm), 4 / (math.pi**3 * cuts.square() * logarithm)


def _beta(numbers: Tensor) -> Tensor:
    """Even numbers from 0 to 1 to such of the distribution Beta(1/2, 1/2)."""
    return (math.pi / 2 * numbers).sin().square()
