"""Batch statistics shared between processes, so that many small batches count as one large one.

Torch has a synchronised batch norm too, but for GPUs only. This one speaks through `torch.distributed` alone, so it
runs wherever a process group does; R-XCNorm's moving c, and what dictionaries learn, are shared in the same way.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from xcnorm.errors import UserError
from xcnorm.nn.dictionary import Dictionary, worst_rebuilt
from xcnorm.nn.norms import BatchTestNorm, Norm
from xcnorm.nn.scale import MovingScale
from xcnorm.ops.autograd import apply


def synchronise(model: nn.Module) -> nn.Module:
    """Let a model take its batch statistics over the batches of all processes.

    Every `torch.nn.BatchNorm1d`, `2d` and `3d` becomes a `SyncBatchNorm`, the moving c of every R-XCNorm layer a
    `SyncMovingScale`, and every `Dictionary` a `SyncDictionary`. Modules change in place and keep their parameters and
    buffers, so state dicts and optimisers notice nothing. A `BatchTestNorm` becomes a `SyncBatchTestNorm`. Norms that
    look at one image at a time stay as they are.

    In training mode every process must then run the model, and its backward, equally often: the others wait for it.

    Args:
        model: The model, before or after it is wrapped for data-parallel training.

    Returns:
        The same model.

    Raises:
        UserError: The model has another module with statistics of the batch, which would silently stay apart.

    Example:
        >>> model = synchronise(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()))
        >>> print(*(type(module).__name__ for module in model))
        Conv2d SyncBatchNorm ReLU
    """
    for name, module in model.named_modules():
        # A new class instead of a new module: whoever else holds the module, holds the synchronised one.
        if type(module) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
            module.__class__ = SyncBatchNorm
        elif type(module) is BatchTestNorm:
            module.__class__ = SyncBatchTestNorm
        elif type(module) is MovingScale:
            module.__class__ = SyncMovingScale
        elif type(module) is Dictionary:
            module.__class__ = SyncDictionary
        elif _stays_apart(module):
            instead = "use torch.nn.BatchNorm1d, 2d or 3d, or " if isinstance(module, _BatchNorm | Norm) else ""
            raise UserError(
                f"{name or 'the model'} is a {type(module).__name__}, which cannot share its statistics between "
                f"processes; {instead}train in one process"
            )
    return model


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batches of all processes together, for any number of position axes.

    Takes the arguments of `torch.nn.BatchNorm2d`. Batches may differ in size; each counts by its values. In evaluation
    mode, and where there is only one process, it is torch's batch norm to the bit.

    A process receives the gradient of the sum of all processes' losses, as its values enter the statistics of all. So
    averaged gradients, as `torch.nn.parallel.DistributedDataParallel` has them, are those of the mean loss.

    Shapes:
        ``(N, C, *positions)`` to the same shape.
    """

    # Torch's annotations forget that either may be absent.
    weight: nn.Parameter | None  # type: ignore[assignment]
    bias: nn.Parameter | None  # type: ignore[assignment]

    @property
    def communicates(self) -> bool:
        """Whether a batch's statistics are taken together with other processes."""
        return self.training and _several_processes()

    def forward(self, input: Tensor) -> Tensor:
        """Normalise every channel, in the input's dtype; statistics are taken in float32 or better."""
        if not self.communicates:
            return super().forward(input)
        self._check_input_dim(input)
        mean, variance, count = _moments_of_all(input.detach())
        self._track(mean, variance * count / (count - 1), count > 0)
        weight = torch.ones_like(mean) if self.weight is None else self.weight.to(mean.dtype)
        bias = torch.zeros_like(mean) if self.bias is None else self.bias.to(mean.dtype)
        output: Tensor = apply(_Normalise, input, weight, bias, mean, (variance + self.eps).rsqrt(), count)
        return output

    def _track(self, mean: Tensor, unbiased_variance: Tensor, nonempty: Tensor) -> None:
        """Move the averages towards those of the batch, as torch does: not where no process has any values."""
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        factor = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        for average, new in ((self.running_mean, mean), (self.running_var, unbiased_variance)):
            average.lerp_(torch.where(nonempty, new.to(average.dtype), average), factor)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2 or input.shape[1] != self.num_features:
            raise ValueError(
                f"input must have shape (N, {self.num_features}, then any positions), got {tuple(input.shape)}"
            )


class SyncBatchTestNorm(BatchTestNorm, SyncBatchNorm):
    """`BatchTestNorm` that trains over the batches of all processes; in evaluation each takes its own."""

    # Torch's annotations forget that either may be absent.
    weight: nn.Parameter | None
    bias: nn.Parameter | None


class SyncMovingScale(MovingScale):
    """`MovingScale` that follows the patches of all processes."""

    @property
    def average(self) -> Tensor | None:
        """None among several processes: no buffer that one of them could move alone."""
        return None if _several_processes() else super().average

    def update(self, deviation: Tensor) -> None:
        """Move the average towards the mean patch deviation of all batches together, in training mode only."""
        if self.training and _several_processes():
            total = torch.stack([deviation.sum(), deviation.new_full((), deviation.numel())])
            dist.all_reduce(total)
            mean = torch.where(total[1] > 0, total[0] / total[1], self.running_c)
            self.running_c.lerp_(mean.to(self.running_c.dtype), self.momentum)


class SyncDictionary(Dictionary):
    """`Dictionary` that learns from the features of all processes; each proposes a part of the new words."""

    def _pool(self, sums: Tensor, features: Tensor, rebuilt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if not _several_processes():
            return super()._pool(sums, features, rebuilt)
        total = torch.cat([sums.flatten(), sums.new_full((1,), len(features))])
        dist.all_reduce(total)
        processes = dist.get_world_size()
        own = worst_rebuilt(features, rebuilt, len(self.words) // processes)
        seeds = [torch.empty_like(own) for _ in range(processes)]
        dist.all_gather(seeds, own)
        return total[:-1].view_as(sums), total[-1], torch.cat(seeds)


def _stays_apart(module: nn.Module) -> bool:
    """Whether a module takes statistics of its own process's batch alone."""
    if isinstance(module, _BatchNorm):
        return not isinstance(module, SyncBatchNorm | nn.SyncBatchNorm)
    return bool(getattr(module, "pools_batch", False))


def _several_processes() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _moments_of_all(input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and number of values per channel, of all processes' ``(N, C, *positions)`` together.

    Each process centres its values on its own mean, and only then are means and sums of squares put together (Chan's
    way): a difference of large squares would lose the variance of values far from zero.
    """
    input, axes = _in_full(input), _all_but_channels(input)
    count = input.numel() // input.shape[1]
    mean = input.sum(axes) / max(count, 1)  # a process may have run out of images
    squares = (input - _per_channel(mean, input)).square_().sum(axes)
    own = torch.stack([mean, squares, torch.full_like(mean, count)])
    all_processes = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(all_processes, own)
    means, squares, counts = torch.stack(all_processes, 1)
    total = counts.sum(0)
    mean = (counts * means).sum(0) / total
    squares = (squares + counts * (means - mean).square()).sum(0)
    return mean, squares / total, total


class _Normalise(torch.autograd.Function):
    """``(input - mean) * rate * weight + bias``, where mean and rate come from the inputs of all processes.

    Only the input is saved at its full size, and the gradient that flows through the statistics needs no more than two
    sums per channel from the other processes. Those sums are also the gradients of weight and bias, before they are
    added up: the parameters' gradients are for the caller to average.
    """

    @staticmethod
    def forward(input: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, rate: Tensor, count: Tensor) -> Tensor:
        """All but the input have one value per channel, in the dtype of the statistics."""
        centred = _in_full(input) - _per_channel(mean, input)
        return centred.mul_(_per_channel(rate * weight, input)).add_(_per_channel(bias, input)).to(input.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save everything but the bias."""
        input, weight, _, mean, rate, count = inputs
        ctx.save_for_backward(input, weight, mean, rate, count)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Gradients of input, weight and bias."""
        input, weight, mean, rate, count = ctx.saved_tensors
        grad, axes = _in_full(grads[0]), _all_but_channels(input)
        normal = (_in_full(input) - _per_channel(mean, input)).mul_(_per_channel(rate, input))
        own = torch.stack([(grad * normal).sum(axes), grad.sum(axes)])
        grad_weight, grad_bias = own.clone()
        dist.all_reduce(own)
        slope, shift = (_per_channel(s, input) for s in own / count)
        grad_input = (grad - normal.mul_(slope).add_(shift)).mul_(_per_channel(rate * weight, input))
        return grad_input.to(input.dtype), grad_weight, grad_bias, None, None, None


def _in_full(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()


def _all_but_channels(values: Tensor) -> list[int]:
    return [0, *range(2, values.ndim)]


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    """``(C,)`` as it broadcasts over ``(N, C, *positions)``."""
    return values.view(-1, *(1,) * (like.ndim - 2))
