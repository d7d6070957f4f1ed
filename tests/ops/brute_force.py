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


def similarity(x, weight, c, spec: Correlation) -> Similarity:
    padded = x
    if any(spec.padding):
        padded = torch.nn.functional.pad(x, spec.padding, mode=MODES.get(spec.padding_mode, spec.padding_mode))
    images, channels_in = padded.shape[:2]
    channels_out, per_group = weight.shape[:2]
    positions = spec.positions(padded.shape[2:])
    value = torch.empty(images, channels_out, *positions, dtype=torch.float64)
    norm = torch.empty(images, spec.groups, *positions, dtype=torch.float64)
    deviation = torch.empty(images, spec.groups, *positions, dtype=torch.float64)
    offsets = list(itertools.product(*map(range, spec.kernel)))

    for n, group, *at in itertools.product(range(images), range(spec.groups), *map(range, positions)):
        patch = []
        for channel in range(group * per_group, (group + 1) * per_group):
            values = []
            for offset in offsets:
                steps = zip(at, spec.stride, offset, spec.dilation, strict=True)
                values.append(padded[(n, channel, *(p * s + o * d for p, s, o, d in steps))].item())
            if spec.channelwise:
                spread = deviation_of(values, spec.eps)
                values = [v / spread for v in centred(values)]
            patch += values
        sigma = deviation_of(patch, spec.eps)
        z, floor = centred(patch), spec.eps
        if spec.robust is not None:
            phi, scale = PHI[spec.robust], c.item() * (sigma if spec.per_patch else 1)
            z = [phi(v, scale) for v in z]
            floor = spec.eps * phi(min(1, scale / 2), scale) ** 2
        z_norm = math.sqrt(sum(v**2 for v in z) + len(z) * floor)
        norm[(n, group, *at)], deviation[(n, group, *at)] = z_norm, sigma
        filters = channels_out // spec.groups
        for out in range(group * filters, (group + 1) * filters):
            w = centred(weight[out].flatten().tolist())
            w_norm = math.sqrt(sum(v**2 for v in w))
            value[(n, out, *at)] = sum(a * b for a, b in zip(z, w, strict=True)) / (z_norm * w_norm)
    assert channels_in == per_group * spec.groups
    scaled = (value.unflatten(1, (spec.groups, -1)) * norm.unsqueeze(2)).flatten(1, 2)
    return Similarity(value, scaled, deviation)
