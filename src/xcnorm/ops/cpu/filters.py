"""Centred filters of unit norm, with fewer copies of a large weight than autograd would make."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import xcnorm.functional as xf
from xcnorm.functional.correlation import WEIGHT_FLOOR
from xcnorm.ops.cpu.twice import through_formula
from xcnorm.ops.precision import full_precision


class Filters(torch.autograd.Function):
    """`xcnorm.functional.normalise_weight`."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        """Same shape."""
        flat = weight.flatten(1)
        filters = flat - flat.mean(1, keepdim=True)
        norm = torch.linalg.vector_norm(filters, dim=1, keepdim=True).square_().add_(WEIGHT_FLOOR).sqrt_()
        filters.div_(norm)
        ctx.save_for_backward(weight, filters, norm)
        return filters.view(weight.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor | None:
        """What is left of the gradient beside the filter's direction and a constant."""
        weight, filters, norm = ctx.saved_tensors
        if torch.is_grad_enabled():
            return through_formula(lambda weight: [xf.normalise_weight(weight)], [weight], grads)[0]
        grad = grads[0].flatten(1)
        with full_precision(grad.device):
            along = torch.linalg.vecdot(grad, filters).unsqueeze(1)
        result = grad - grad.mean(1, keepdim=True)
        return result.addcmul_(filters, along, value=-1).div_(norm).view(weight.shape)
