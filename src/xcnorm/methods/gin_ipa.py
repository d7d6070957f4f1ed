"""GIN and IPA: random shallow networks, whose outputs are blended from place to place (Ouyang et al., IEEE TMI 2022).

GIN, global intensity non-linear augmentation, changes intensities and textures; IPA, interventional pseudo-correlation
augmentation, changes them in one part of an image otherwise than in another, so that parts tell nothing of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor

from xcnorm.methods.augmentation import Augmentation, grouped, log_mean
from xcnorm.methods.method import Numbers, register_method

_LEAST = 1e-5  # added to a norm that is divided by
_FLAT = 1e-20  # added to a range that is divided by


@register_method("gin_ipa")
@dataclass
class GinIpa(Augmentation):
    """Two views from two random networks, blended by a smooth random map and by its opposite.

    Attributes:
        layers: Of a network; at 0 there is none, and nothing is left of the method.
        channels: Between its layers.
        kernels: The sizes a layer's kernels may have; one is chosen for each layer.
        patches: How many control points of a map there are along a side; at 0 nothing is blended, which leaves GIN.
        form: ``"paper"``: both views are learned from, the second must answer as the first, and maps are cubic splines.
            ``"released"``, as the published program does it: the first is learned from, the two and a third that is not
            blended must answer alike, and the splines are quadratic.
        consistency: The weight of the divergence between the answers.
    """

    layers: int = 4
    channels: int = 2
    kernels: tuple[int, ...] = (1, 3)
    patches: int = 4
    form: str = "paper"
    consistency: float = 10.0

    cost = 2.0
    neutral = {"layers": 0}  # noqa: RUF012 - a constant of the class

    @property
    def learned(self) -> int:
        """Both blended views, or the first of them."""
        return 2 if self.layers and self.form == "paper" else 1

    def validate(self) -> None:
        """Look at the values of the settings."""
        if not self.kernels or any(type(size) is not int or size < 1 or size % 2 == 0 for size in self.kernels):
            raise self.refuse("kernels", "odd numbers")
        if self.channels < 1:
            raise self.refuse("channels", "1 or more")
        if self.form not in ("paper", "released"):
            raise self.refuse("form", "'paper' or 'released'")
        for name in ("layers", "patches", "consistency"):
            if getattr(self, name) < 0:
                raise self.refuse(name, "0 or more")

    def draw_numbers(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """A random network for each view of each image, and the control points of its map, ``(N, 1, P, P)``."""
        if not self.layers:
            return ()
        networks = [self.draw_network(shape, generator) for _ in range(2 if self.form == "paper" else 3)]
        points = self._normal(shape, generator, 1, self.patches + 3, self.patches + 3)
        return *chain.from_iterable(networks), points

    def draw_network(self, shape: torch.Size, generator: torch.Generator) -> Numbers:
        """Weights and biases of each layer, ``(N, ...)``, and how much of an image becomes what the network makes."""
        drawn: list[Tensor] = []
        inputs, largest = shape[1], max(self.kernels)
        for layer in range(self.layers):
            outputs = shape[1] if layer == self.layers - 1 else self.channels
            size = self.kernels[int(torch.randint(len(self.kernels), (), generator=generator))]
            weights = self._normal(shape, generator, outputs, inputs, size, size)
            drawn += [F.pad(weights, ((largest - size) // 2,) * 4), self._normal(shape, generator, outputs, 1, 1)]
            inputs = outputs
        return *drawn, self.each(shape, lambda count: torch.rand(count, 1, 1, 1, generator=generator))

    def views_with(self, images: Tensor, *numbers: Tensor) -> list[Tensor]:
        """Two blended views; a third that is not, in the form of the published program."""
        if not self.layers:
            return [images]
        *drawn, points = (each.to(images) for each in numbers)
        first, second, *third = (self.changed(images, *network) for network in grouped(drawn, 2 * self.layers + 1))
        if self.patches:
            share = self.maps(points, *images.shape[2:])
            first, second = torch.lerp(second, first, share), torch.lerp(first, second, share)
        return [first, second, *(third if self.consistency else [])]

    def changed(self, images: Tensor, *network: Tensor) -> Tensor:
        """Each image mixed with what a random network of its own makes of it, at the image's norm (GIN)."""
        *layers, share = network
        values = images
        for layer, (weights, shifts) in enumerate(grouped(layers, 2)):
            values = convolved(F.leaky_relu(values) if layer else values, weights) + shifts
        mixed = torch.lerp(images, values, share)
        return mixed * (norms(images) / (norms(mixed) + _LEAST))

    def maps(self, points: Tensor, height: int, width: int) -> Tensor:
        """A smooth random map from 0 to 1 for each image, ``(N, 1, H, W)``."""
        degree = 3 if self.form == "paper" else 2
        down, across = (spline_weights(size, self.patches, degree).to(points) for size in (height, width))
        field = down @ points @ across.mT
        low, high = field.amin((2, 3), keepdim=True), field.amax((2, 3), keepdim=True)
        return (field - low) / (high - low + _FLAT)

    def disagreement(self, answers: list[Tensor]) -> Tensor:
        """KL(first || second); in the form of the published program the mean of KL(mean || answer)."""
        logs = [F.log_softmax(answer, 1) for answer in answers]
        if self.form == "paper":
            first, second = logs
            return F.kl_div(second, first, reduction="batchmean", log_target=True)
        mean = log_mean(logs)
        return torch.stack([F.kl_div(log, mean, reduction="batchmean", log_target=True) for log in logs]).mean()

    def _normal(self, shape: torch.Size, generator: torch.Generator, *each: int) -> Tensor:
        return self.each(shape, lambda count: torch.randn(count, *each, generator=generator))


def convolved(images: Tensor, weights: Tensor) -> Tensor:
    """Each image through a convolution of its own, with zeros beyond the edge.

    Args:
        images: ``(N, C, H, W)``.
        weights: ``(N, O, C, K, K)``.
    """
    count, _, height, width = images.shape
    together = images.reshape(1, -1, height, width)
    seen = F.conv2d(together, weights.flatten(0, 1), padding=weights.shape[-1] // 2, groups=count)
    return seen.reshape(count, -1, height, width)


def norms(images: Tensor) -> Tensor:
    """The Frobenius norm of each image, ``(N, 1, 1, 1)``."""
    return images.flatten(1).norm(dim=1).view(-1, 1, 1, 1)


def spline_weights(size: int, patches: int, degree: int) -> Tensor:
    """How much each control point of a uniform B-spline counts at each pixel.

    Args:
        size: How many pixels there are.
        patches: How many spaces between control points they fill; one point lies beyond each end.
        degree: 2 or 3.

    Returns:
        ``(size, patches + 3)``.
    """
    pixel = (torch.arange(size) + 0.5) * patches / size
    away = (pixel[:, None] - torch.arange(-1, patches + 2)).abs()
    if degree == 2:
        near, far = 0.75 - away.square(), (1.5 - away).clamp_min(0).square() / 2
        return torch.where(away < 0.5, near, far)
    near, far = 2 / 3 - away.square() + away**3 / 2, (2 - away).clamp_min(0) ** 3 / 6
    return torch.where(away < 1, near, far)
