"""ADA draws its images from the grown set; the rest is in test_ascent."""

import torch

from tests.methods.test_ascent import begun

SMALL = {"phases": 2, "gap": 4, "pool": 50, "batch": 16, "ascent_steps": 3, "step_size": 100.0}


def test_later_phases_perturb_added_images_too():
    method, _, _ = begun("ada", dtype=torch.float32, batch=8, pool=30, phases=2, gap=1, ascent_steps=1)
    generator = torch.Generator().manual_seed(0)
    while method.pending():
        method.work(generator)
    chosen = method.choose(generator)
    assert len(method.training.images) == 32 + 24
    assert len(chosen) == len(chosen.unique()) == 24
    assert 0 < (chosen >= 32).sum() < 24
    assert chosen.max() < 56
