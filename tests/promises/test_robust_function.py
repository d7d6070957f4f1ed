"""A robust function of one's own: the file of docs/extending/robust-function.md, in a temporary folder."""

from tests.promises import commands, plugin, run

FACTS = """
import torch
import xcnorm
from xcnorm import functional as xf

phi = xf.robust_function("geman_mcclure")
t = torch.linspace(-4, 4, 81, dtype=torch.float64, requires_grad=True)
(slope,) = torch.autograd.grad(phi.shape(t).sum(), t)
torch.testing.assert_close(phi.slope(t), slope)
assert phi.shape(t).abs().max() <= 1
assert phi(torch.tensor([1e30, -1e30]), 2.0).isfinite().all()


def answers(backend, dtype):
    torch.manual_seed(0)
    layer = xcnorm.RXCNormConv2d(2, 4, 3, padding=1, robust="geman_mcclure", norm="none", backend=backend).to(dtype)
    images = torch.randn(2, 2, 6, 6).to(dtype).requires_grad_()
    output = layer(images)
    return output, *torch.autograd.grad(output.square().sum(), [images, layer.weight])
"""
COMPARE = """
for found, exact in zip(answers({backend!r}, torch.float32), answers("reference", torch.float64)):
    assert (found - exact).norm() < {limit} * exact.norm()
"""
WITHOUT_A_KERNEL = """
import dataclasses
import warnings

xf.register_robust_function(dataclasses.replace(phi, name="bare", kernel=None))
layer = xcnorm.RXCNormConv2d(2, 4, 3, robust="bare")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        layer(torch.randn(1, 2, 6, 6))
(warning,) = caught
assert "'bare'" in str(warning.message) and "17" in str(warning.message), warning.message
assert xcnorm.ops.explain(layer, torch.randn(1, 2, 6, 6)).backend == "cpu"
"""


def test_it_is_a_robust_function_of_every_layer(tmp_path):
    program = FACTS + COMPARE.format(backend="cpu", limit=1e-5) + COMPARE.format(backend="plain", limit=1e-5)
    run("-c", program, plugin=plugin("robust-function", tmp_path))


def test_its_kernel_computes_the_same(tmp_path):
    program = FACTS + COMPARE.format(backend="triton", limit=2e-3)  # in TF32, as torch allows by default
    run("-c", program, plugin=plugin("robust-function", tmp_path), TRITON_INTERPRET="1")


def test_without_a_kernel_a_warning_says_once_what_that_costs(tmp_path):
    run("-c", FACTS + WITHOUT_A_KERNEL, plugin=plugin("robust-function", tmp_path), TRITON_INTERPRET="1")


def test_a_network_is_trained_with_it(tmp_path):
    path = plugin("robust-function", tmp_path)
    (train,) = commands("robust-function", "xcnorm train")
    run(*train, "--set", "schedule.iterations=2", plugin=path)
    (config,) = tmp_path.rglob("config.toml")
    assert 'robust = "geman_mcclure"' in config.read_text()
