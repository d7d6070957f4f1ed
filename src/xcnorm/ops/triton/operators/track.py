"""Moving averages, as an operator that changes them in place."""

from __future__ import annotations

from torch import Tensor

from xcnorm.ops.triton.operators.define import define


@define(
    "track",
    "(Tensor? mean, Tensor? variance, Tensor(a!)? running_mean, Tensor(b!)? running_variance, Tensor(c!)? batches, "
    "Tensor? deviations, Tensor(d!)? running_c, int values, int patches, float momentum, float c_momentum) -> ()",
    changes=("running_mean", "running_variance", "batches", "running_c"),
)
def track(
    mean: Tensor | None,
    variance: Tensor | None,
    running_mean: Tensor | None,
    running_variance: Tensor | None,
    batches: Tensor | None,
    deviations: Tensor | None,
    running_c: Tensor | None,
    values: int,
    patches: int,
    momentum: float,
    c_momentum: float,
) -> None:
    """Move averages towards a batch; see `xcnorm.ops.triton.track.track`."""
    from xcnorm.ops.triton import track as kernels

    kernels.track(
        mean, variance, running_mean, running_variance, batches, deviations, running_c,
        values=values, patches=patches, momentum=momentum, c_momentum=c_momentum,
    )  # fmt: skip


@track.register_fake
def _(*arguments):  # type: ignore[no-untyped-def]
    return None
