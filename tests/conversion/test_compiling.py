"""Converted networks can be compiled and exported, and compute there what they do here."""

import copy

import pytest
import torch

import xcnorm
from tests.conversion.networks import NETWORKS

# One of each kind: efficientnet is mobilenet with another activation. An activation of vgg works in place.
KINDS = ("resnet", "densenet", "vgg", "mobilenet v3", "convnext")


def converted(name, **options):
    torch.manual_seed(0)
    torch._dynamo.reset()
    return xcnorm.convert(NETWORKS[name](), **options)


def loss_and_gradients(model, images):
    model.zero_grad()
    loss = model(images).square().mean()
    loss.backward()
    return loss.detach(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def assert_same_step(model, backend):
    """One training step by torch.compile and one without it."""
    images = torch.randn(4, 3, 32, 32)
    other = torch.compile(copy.deepcopy(model), backend=backend, fullgraph=True)
    loss, gradients = loss_and_gradients(model, images)
    other_loss, other_gradients = loss_and_gradients(other, images)
    torch.testing.assert_close(other_loss, loss, rtol=1e-4, atol=1e-5)
    for name, gradient in gradients.items():
        limit = 1e-3 * gradient.abs().max().item() + 1e-6
        torch.testing.assert_close(other_gradients[f"_orig_mod.{name}"], gradient, rtol=1e-3, atol=limit)


@pytest.mark.parametrize("name", KINDS)
def test_a_training_step_is_traced_whole_and_the_same(name):
    assert_same_step(converted(name, layer="xcnorm"), "aot_eager")


@pytest.mark.compile
def test_a_compiled_training_step_is_the_same():
    assert_same_step(converted("vgg", layer="xcnorm"), "inductor")


@pytest.mark.parametrize("name", KINDS)
def test_an_exported_network_takes_any_number_of_images(name):
    model = converted(name, layer="xcnorm").eval()
    example = (torch.randn(2, 3, 32, 32),)
    program = torch.export.export(model, example, dynamic_shapes=({0: torch.export.Dim.AUTO},))
    images = torch.randn(5, 3, 32, 32)
    torch.testing.assert_close(program.module()(images), model(images), rtol=1e-4, atol=1e-5)
