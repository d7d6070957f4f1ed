"""Optimisers, and the learning rate as a function of the step alone."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.engine.settings import OptimiserSettings, ScheduleSettings

_DROP_AT, _DROP_TO = 0.8, 0.1  # of the shape "step"
_KEPT = ("lr", "fused", "foreach", "capturable")  # the rate, and how an optimiser runs


def rate_factor(schedule: ScheduleSettings, step: int, steps: int) -> float:
    """What the highest learning rate is multiplied by in a step.

    Args:
        schedule: Its shape.
        step: The number of steps done before.
        steps: The number of steps in all.
    """
    progress = step / steps
    if progress < schedule.warmup:
        return (step + 1) / (schedule.warmup * steps + 1)
    rest = (progress - schedule.warmup) / (1 - schedule.warmup)
    if schedule.shape == "cosine":
        return 0.5 * (1 + math.cos(math.pi * rest))
    if schedule.shape == "linear":
        return 1 - rest
    if schedule.shape == "step":
        return _DROP_TO if progress >= _DROP_AT else 1.0
    return 1.0


def make_optimiser(model: nn.Module, settings: OptimiserSettings, capturable: bool) -> torch.optim.Optimizer:
    """The optimiser of a network, with weight decay on the weights of its layers alone.

    It is torch's fused form: one pass over the weights, and the same arithmetic in captured steps as in others. A step
    that is captured reads its rate from the device, where it can be changed between replays.

    Args:
        model: The network, on its device.
        settings: Which optimiser.
        capturable: Whether its steps will be captured as a CUDA graph.
    """
    decaying: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    weights = _layer_weights(model)
    for parameter in model.parameters():
        (decaying if id(parameter) in weights else others).append(parameter)
    groups = [
        {"params": decaying, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    rate: float | Tensor = settings.learning_rate
    if capturable:
        rate = torch.tensor(rate, device=next(model.parameters()).device)
    if settings.name == "sgd":
        momentum = settings.momentum
        optimiser = torch.optim.SGD(groups, rate, momentum, nesterov=settings.nesterov and momentum > 0, fused=True)
        if momentum > 0:
            # Or the first step takes whatever memory it gets for an average, if a loss scaler has it skipped.
            for parameter in model.parameters():
                optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimiser
    kind = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    return kind(groups, rate, capturable=capturable, fused=True)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
            return  # the groups share it
        else:
            group["lr"] = rate


def restore(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Put an optimiser into a state; but how it runs is its own, and so is the rate, which is set before each step."""
    here = [{name: group[name] for name in _KEPT if name in group} for group in optimiser.param_groups]
    groups = [{**saved, **own} for saved, own in zip(state["param_groups"], here, strict=True)]
    optimiser.load_state_dict({**state, "param_groups": groups})
    for group, own in zip(optimiser.param_groups, here, strict=True):
        group.update(own)
    # A fused step walks through the memory of a weight and of its averages side by side and does not look at strides:
    # averages that came back in another order than a channels-last weight would be mixed up without a word.
    for parameter, averages in optimiser.state.items():
        for name, value in averages.items():
            if isinstance(value, Tensor) and value.ndim and value.shape == parameter.shape:
                averages[name] = torch.empty_like(parameter).copy_(value)


def _layer_weights(model: nn.Module) -> set[int]:
    """Weights of convolutions and dense layers, XCNorm's included; norms, gains and masks are no layers."""
    return {id(m.weight) for m in model.modules() if isinstance(m, nn.modules.conv._ConvNd | nn.Linear)}
