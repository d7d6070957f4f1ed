"""The auto-encoder of M-ADA against the formulas of WAE-GAN, in float64."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn

from xcnorm.methods.autoencoder import WassersteinAutoencoder


def made(values=27, seed=0):
    torch.manual_seed(seed)
    return WassersteinAutoencoder(values).double()


def batch(count=6, seed=1):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(count, 3, 3, 3, dtype=torch.float64, generator=generator)
    return images, torch.randn(count, 20, dtype=torch.float64, generator=generator)


def test_its_layers_are_the_published_ones():
    layers = [module for module in WassersteinAutoencoder(3072).modules() if isinstance(module, nn.Linear)]
    sizes = [(3072, 400), (400, 20), (20, 400), (400, 3072), (20, 128), (128, 1)]
    assert [(layer.in_features, layer.out_features) for layer in layers] == sizes


def test_losses_are_those_of_the_publication():
    model, (images, prior) = made(), batch()
    codes = model.encoder(images.flatten(1))
    mistakes = 0.0
    for image, picture in zip(images.flatten(1).tolist(), model(images).flatten(1).tolist(), strict=True):
        mistakes -= sum(x * math.log(y) + (1 - x) * math.log(1 - y) for x, y in zip(image, picture, strict=True))
    density = torch.distributions.Normal(0.0, 1.0).log_prob(prior).sum(1)
    true = torch.sigmoid(model.discriminator(prior)[:, 0] + density)
    false = torch.sigmoid(model.discriminator(codes)[:, 0] + density)
    coded, judged = model.losses(images, prior)
    assert coded.item() == pytest.approx(mistakes - 100 * false.log().mean().item(), rel=1e-10)
    assert judged.item() == pytest.approx(-(true.log().mean() + (1 - false).log().mean()).item(), rel=1e-10)


def test_each_part_follows_its_own_loss():
    """Adam's first step is the sign of the gradient, times the rate."""
    model, (images, prior) = made(), batch()
    coded, judged = model.losses(images, prior)
    coders = {**dict(model.encoder.named_parameters("encoder")), **dict(model.decoder.named_parameters("decoder"))}
    judges = dict(model.discriminator.named_parameters("discriminator"))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    for parameters, loss in ((coders, coded), (judges, judged)):
        slopes = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
        for name, slope in zip(parameters, slopes, strict=True):
            before[name] -= 1e-3 * slope / (slope.abs() + 1e-8)
    model.fit(images, prior)
    torch.testing.assert_close(dict(model.named_parameters()), before, rtol=1e-9, atol=1e-12)


def test_it_learns_to_reconstruct():
    model, generator = made().float(), torch.Generator().manual_seed(0)
    images = (torch.rand(4, 3, 3, 3, generator=generator) > 0.5).float().repeat(16, 1, 1, 1)
    error = []
    for _ in range(200):
        with torch.no_grad():
            error.append((model(images) - images).square().mean().item())
        model.fit(images, model.draw_prior(64, generator))
    assert error[-1] < 0.02 < 0.2 < error[0]


def test_a_reset_forgets_everything_and_depends_on_the_generator_alone():
    one, other = made(seed=0), made(seed=1)
    for model in (one, other):
        model.fit(*batch())
        model.reset(torch.Generator().manual_seed(5))
    torch.testing.assert_close(one.whole_state(), other.whole_state(), rtol=0, atol=0)
    assert not one.optimiser.state
    wide = one.encoder[0]
    assert wide.weight.abs().max() <= 27**-0.5
    assert wide.weight.std().item() == pytest.approx(27**-0.5 / math.sqrt(3), rel=0.05)


def test_going_on_from_a_state_changes_nothing():
    one, other = made(seed=0), made(seed=1)
    one.fit(*batch(seed=1))
    other.load_whole_state(deepcopy(one.whole_state()))
    for model in (one, other):
        model.fit(*batch(seed=2))
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=0, atol=0)
