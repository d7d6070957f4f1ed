"""Relatives of the operator, written from their definitions: patches are cut out one by one, in float64."""

import itertools
import math

import torch
import torch.nn.functional as F


def patches_of(layer, input):
    """Patches ``(N, groups, positions, alpha)``, and the filters of each group ``(groups, filters, alpha)``."""
    pad = layer._reversed_padding_repeated_twice
    padded = F.pad(input, pad) if layer.padding_mode == "zeros" else F.pad(input, pad, layer.padding_mode)
    (kh, kw), (sh, sw), (dh, dw) = layer.kernel_size, layer.stride, layer.dilation
    rows = range(0, padded.shape[2] - dh * (kh - 1), sh)
    columns = range(0, padded.shape[3] - dw * (kw - 1), sw)
    cut = [
        padded[:, :, y : y + dh * (kh - 1) + 1 : dh, x : x + dw * (kw - 1) + 1 : dw].reshape(
            len(input), layer.groups, -1
        )
        for y, x in itertools.product(rows, columns)
    ]
    filters = layer.weight.detach().reshape(layer.groups, -1, layer.weight[0].numel())
    return torch.stack(cut, 2).detach(), filters, (len(rows), len(columns))


def answer(layer, input, unit):
    """``unit(z, w, filter)`` for every patch z and every filter w, one pair after the other."""
    patches, filters, sizes = patches_of(layer, input)
    images, groups, positions, _ = patches.shape
    output = torch.empty(images, groups, filters.shape[1], positions, dtype=input.dtype)
    for n, g, f, p in itertools.product(range(images), range(groups), range(filters.shape[1]), range(positions)):
        output[n, g, f, p] = unit(patches[n, g, p], filters[g, f], g * filters.shape[1] + f)
    return output.reshape(images, -1, *sizes)


def length(vector, eps):
    return math.sqrt(float((vector * vector).sum()) + eps)


def cosine(z, w, eps=0.0):
    return float((z * w).sum()) / (length(z, eps) * length(w, eps))


def angle(z, w, eps=0.0):
    return math.acos(cosine(z, w, eps))


ANGULAR = {
    "cosine": math.cos,
    "linear": lambda angle: 1 - 2 * angle / math.pi,
    "square": lambda angle: math.copysign(math.cos(angle) ** 2, math.cos(angle)),
    "sigmoid": lambda angle: (
        (1 + math.exp(-math.pi / 0.6)) / (1 - math.exp(-math.pi / 0.6))
        * (1 - math.exp(angle / 0.3 - math.pi / 0.6)) / (1 + math.exp(angle / 0.3 - math.pi / 0.6))
    ),
}  # fmt: skip
