"""The robustness score over batches and processes, with the methods of a torchmetrics metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor

from xcnorm.errors import UserError
from xcnorm.metrics.robustness import divergence


class RobustnessScore:
    """The Model Robustness Score of the paper, batch by batch: what `robustness_score` says of all images at once.

    Its methods are those of a ``torchmetrics.Metric``, in the same words; torchmetrics itself is not needed. Give each
    corruption a score of its own, or one the severities of several corruptions: their scores are then averaged.

    Example:
        >>> clean, corrupted = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.8, 0.2]])
        >>> score = RobustnessScore()
        >>> score.update(clean, [clean, corrupted])
        >>> round(score.compute().item(), 4)
        0.1116
    """

    higher_is_better = False
    """Predictions that a corruption does not move have a score of 0."""

    def __init__(self) -> None:
        self.reset()

    def update(self, clean: Tensor, corrupted: Sequence[Tensor]) -> None:
        """Count a batch in.

        Args:
            clean: ``(N, C)``, the probabilities for the clean images.
            corrupted: For each severity ``(N, C)``, the probabilities for the same images, corrupted.

        Raises:
            UserError: These are not probabilities, their shapes differ, or there is no severity.
        """
        self._sums += _sums(clean, corrupted)

    def compute(self) -> Tensor:
        """The score of all that was counted in, by every process of `torch.distributed` where there are several.

        All of them must then ask. What each has counted stays its own.

        Returns:
            One number, float64.

        Raises:
            UserError: No image was counted in.
        """
        divergences, images = _over_processes(self._sums)
        if not images:
            raise UserError("a robustness score needs images; call update with a batch before compute")
        return divergences / images

    def forward(self, clean: Tensor, corrupted: Sequence[Tensor]) -> Tensor:
        """Count a batch in, and the score of this batch alone, in this process; the arguments are those of `update`."""
        found = _sums(clean, corrupted)
        self._sums += found
        return found[0] / found[1]

    __call__ = forward

    def reset(self) -> None:
        """Forget everything that was counted in."""
        self._sums = torch.zeros(2, dtype=torch.float64)

    def merge_state(self, others: Self | Iterable[Self]) -> None:
        """Count in what others have counted: of other processes, or of other parts of the images."""
        for other in [others] if isinstance(others, RobustnessScore) else others:
            self._sums += other._sums


def _sums(clean: Tensor, corrupted: Sequence[Tensor]) -> Tensor:
    """The divergences of each image, averaged over severities and summed over images; and how many images these are."""
    if not corrupted:
        raise UserError("a robustness score needs predictions for one severity or more, but there are none")
    moved = torch.stack([divergence(clean, predictions) for predictions in corrupted]).mean(0)
    return torch.stack([moved.sum(), moved.new_tensor(len(clean))])


def _over_processes(sums: Tensor) -> Tensor:
    if not (dist.is_available() and dist.is_initialized()):
        return sums
    total = sums.to("cuda") if dist.get_backend() == dist.Backend.NCCL else sums.clone()  # which speaks of GPUs only
    dist.all_reduce(total)
    return total.cpu()
