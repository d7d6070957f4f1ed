"""The similarity by nested Python loops, straight from the equations: the bottom rung of the trust ladder.

It has no code in common with the library, down to the robust functions.
"""

import itertools
import math

import torch

from tests.ops.asking import Similarity
from xcnorm.ops import Correlation

PHI = {
    "welsch": lambda z, c: c * (1 - math.exp(-(z**2) / (2 * c**2))),
    "welsch_signed": lambda z, c: math.copysign(c * (1 - math.exp(-(z**2) / (2 * c**2))), z),
    "welsch_influence": lambda z, c: z * math.exp(-(z**2) / (2 * c**2)),
    "huber": lambda z, c: min(max(z, -c), c),
    "cauchy": lambda z, c: z / (1 + (z / c) ** 2),
    "tukey": lambda z, c: z * (1 - (z / c) ** 2) ** 2 if abs(z) <= c else 0.0,
}

MODES = {"zeros": "constant"}


def centred(values):
    mean = sum(values) / len(values)
    return [v - mean for v in values]


def deviation_of(values, eps):
    return math.sqrt(sum(v**2 for v in centred(values)) / len(values) + eps)


def similarity(x, weight, c, correlation: Correlation) -> Similarity:
    padded = x
    if any(correlation.padding):
        padded = torch.nn.functional.pad(
            x, correlation.padding, mode=MODES.get(correlation.padding_mode, correlation.padding_mode)
        )
    images, channels_in = padded.shape[:2]
    channels_out, per_group = weight.shape[:2]
    positions = correlation.positions(padded.shape[2:])
    value = torch.empty(images, channels_out, *positions, dtype=torch.float64)
    norm = torch.empty(images, correlation.groups, *positions, dtype=torch.float64)
    deviation = torch.empty(images, correlation.groups, *positions, dtype=torch.float64)
    offsets = list(itertools.product(*map(range, correlation.kernel)))

    for n, group, *at in itertools.product(range(images), range(correlation.groups), *map(range, positions)):
        patch = []
        for channel in range(group * per_group, (group + 1) * per_group):
            values = []
            for offset in offsets:
                steps = zip(at, correlation.stride, offset, correlation.dilation, strict=True)
                values.append(padded[(n, channel, *(p * s + o * d for p, s, o, d in steps))].item())
            if correlation.channelwise:
                spread = deviation_of(values, correlation.eps)
                values = [v / spread for v in centred(values)]
            patch += values
        sigma = deviation_of(patch, correlation.eps)
        z, floor = centred(patch), correlation.eps
        if correlation.robust is not None:
            phi, scale = PHI[correlation.robust], c.item() * (sigma if correlation.per_patch else 1)
            z = [phi(v, scale) for v in z]
            floor = correlation.eps * phi(min(1, scale / 2), scale) ** 2
        z_norm = math.sqrt(sum(v**2 for v in z) + len(z) * floor)
        norm[(n, group, *at)], deviation[(n, group, *at)] = z_norm, sigma
        filters = channels_out // correlation.groups
        for out in range(group * filters, (group + 1) * filters):
            w = centred(weight[out].flatten().tolist())
            w_norm = math.sqrt(sum(v**2 for v in w))
            value[(n, out, *at)] = sum(a * b for a, b in zip(z, w, strict=True)) / (z_norm * w_norm)
    assert channels_in == per_group * correlation.groups
    scaled = (value.unflatten(1, (correlation.groups, -1)) * norm.unsqueeze(2)).flatten(1, 2)
    return Similarity(value, scaled, deviation)
