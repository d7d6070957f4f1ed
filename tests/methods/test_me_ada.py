"""ME-ADA's entropy; the rest is in test_ascent."""

import math

import pytest
import torch

from xcnorm.methods.me_ada import MEADA

SMALL = {"phases": 2, "gap": 4, "batch": 16, "ascent_steps": 3, "step_size": 100.0}


def test_the_bonus_is_the_entropy_of_every_answer():
    logits = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    entropy = -sum(p * math.log(p) for row in logits.softmax(1).tolist() for p in row)
    images = torch.zeros(5, 3, 8, 8)
    assert MEADA(eta=7.0).bonus(images, images, logits).item() == pytest.approx(7 * entropy, rel=1e-12)


def test_a_certain_answer_has_a_finite_gradient():
    logits = torch.tensor([[999.0, -999.0]], requires_grad=True)
    images = torch.zeros(1, 3, 8, 8)
    MEADA().bonus(images, images, logits).backward()
    assert logits.grad.tolist() == [[0, 0]]
