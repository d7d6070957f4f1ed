"""Peak memory of a layer's forward and backward, by counting allocations."""

import json

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import xcnorm.nn as xnn


def peak_bytes(module, x, path) -> int:
    """Most bytes allocated at once by a forward and backward, beyond what was there before."""
    vector = torch.ones_like(module(x))
    module.zero_grad()
    x.grad = None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        module(x).backward(vector)
    recorded.export_chrome_trace(str(path))
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("name") == "[memory]"]
    peak = held = 0
    for event in sorted(events, key=lambda e: e["ts"]):
        held += event["args"]["Bytes"]
        peak = max(peak, held)
    return peak


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_robust_layer_stays_within_four_times_convolution_norm_and_relu(preset, tmp_path):
    x = torch.randn(32, 64, 32, 32, requires_grad=True)
    plain = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    robust = xnn.RXCNormConv2d(64, 64, 3, padding=1, preset=preset)
    baseline = peak_bytes(plain, x, tmp_path / "plain.json")
    assert baseline > x.numel() * x.element_size()  # the counting counts
    assert peak_bytes(robust, x, tmp_path / "robust.json") <= 4 * baseline


def test_the_naive_unfold_would_not(tmp_path):
    """The other side of the comparison, so that the bound above is known to mean something."""
    x = torch.randn(8, 64, 32, 32, requires_grad=True)
    plain = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    naive = xnn.RXCNormConv2d(64, 64, 3, padding=1, backend="reference")
    assert peak_bytes(naive, x, tmp_path / "naive.json") > 20 * peak_bytes(plain, x, tmp_path / "plain.json")
