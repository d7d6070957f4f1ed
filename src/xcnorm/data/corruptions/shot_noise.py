"""Shot noise: light arrives in grains, and few of them make a grainy picture."""

from functools import cache

import torch
from torch import Tensor

from xcnorm.data.corruptions.corruption import Fields, Shape, register_corruption
from xcnorm.data.streams import Stream

_BINS = 1024  # of the quantile; in most of them the number of grains is the same throughout


def _draw(stream: Stream, shape: Shape, white: int) -> Fields:
    return {"quantile": stream.uniform(*shape)}


@register_corruption(
    "shot_noise",
    "noise",
    published=2,
    # Grains that make white.
    cifar=(500, 250, 100, 75, 50),
    imagenet=(60, 25, 12, 5, 3),
    draw=_draw,
)
def _apply(images: Tensor, fields: Fields, white: int) -> Tensor:
    level = (images * 255).round()
    quantile = fields["quantile"].expand_as(images)
    known = _known(white, images.device)
    grains = known[(level * _BINS + (quantile * _BINS).floor()).int()]
    unsure = grains < 0
    grains[unsure] = _search(level[unsure], quantile[unsure], white)
    return grains / white


def _search(level: Tensor, quantile: Tensor, white: int) -> Tensor:
    """The number of grains, Poisson distributed around level / 255 * white, of which `quantile` are below."""
    # Level and quantile fit into one double without loss, so that one search finds row and column of the table.
    place = torch.searchsorted(_table(white, level.device), level.double() + quantile, right=True)
    return (place - white * level.double()).float()


@cache
def _table(white: int, device: torch.device) -> Tensor:
    """Row `level` holds `level` + P(at most 0, 1, ..., white - 1 grains); all rows in one, ascending.

    More grains than `white` are white too, so the number needs to be known up to there only.
    """
    level = torch.arange(256, dtype=torch.float64).unsqueeze(1)
    grains = torch.arange(white, dtype=torch.float64)
    at_most = torch.special.gammaincc(grains + 1, (level / 255 * white).expand(-1, white))
    return (level + at_most).flatten().to(device)


@cache
def _known(white: int, device: torch.device) -> Tensor:
    """The number of grains for each level and bin of the quantile, or -1 where the bin does not decide it."""
    level = torch.arange(256, device=device).unsqueeze(1)
    start = torch.arange(_BINS, dtype=torch.float64, device=device) / _BINS
    first, last = (_search(level, quantile, white) for quantile in (start, start + 1 / _BINS - 2**-24))
    return first.where(first == last, -1).flatten()
