"""How things are timed; how fast they are is not a matter for tests."""

from functools import partial

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from xcnorm.bench import timing


def test_inputs_take_turns():
    inputs = timing.rotating_inputs((1, 3, 4, 4), "fp32", "cpu", gradient=False)
    seen = {}
    found = timing.take_turns({"step": lambda x: seen.setdefault(x.data_ptr(), x)}, inputs, "eager", 3)
    assert len(seen) == len(inputs) > 1
    assert 0 < found["step"]["low"] <= found["step"]["median"] <= found["step"]["high"]


def test_a_race_measures_everything():
    inputs = timing.rotating_inputs((2, 3, 8, 8), "fp32", "cpu", gradient=True)
    modules = {"one": nn.Conv2d(3, 4, 3), "other": nn.Conv2d(3, 8, 3)}
    weight = modules["one"].weight.detach().clone()
    found = timing.race(modules, inputs, "fp32", ["eager"], 2)
    for side in found.values():
        assert set(side["times"]["eager"]) == {"inference", "forward", "backward", "both"}
    assert found["one"]["memory_mib"] < found["other"]["memory_mib"]
    assert modules["one"].training
    assert modules["one"].weight.equal(weight)
    assert modules["one"].weight.grad is None
    assert inputs[0].grad is None


def test_what_is_slow_is_timed_less_often(monkeypatch):
    asked = []

    def take_turns(steps, inputs, mode, turns):
        asked.append(({name for name, _ in steps}, len(inputs), turns))
        return {key: {"median": 1.0} for key in steps}

    monkeypatch.setattr(timing, "take_turns", take_turns)
    inputs = timing.rotating_inputs((2, 3, 8, 8), "fp32", "cpu", gradient=True)
    modules = {name: nn.Conv2d(3, 4, 3) for name in ("fast", "slow")}
    assert set(timing.race(modules, inputs, "fp32", ["eager"], 7, slow=["slow"])) == {"fast", "slow"}
    assert asked == [({"fast"}, 8, 7), ({"slow"}, 2, 2)]


@pytest.mark.parametrize(
    ("step", "held"), [(lambda x: x + 1, 2), (lambda x: (x + 1) + 1, 3), (lambda x: [x + 1, x + 1, x + 1], 4)]
)
def test_memory_counts_the_input_and_what_is_held_at_once(step, held):
    x = torch.randn(1 << 18)
    assert timing.peak_memory(step, x) == pytest.approx(held * x.nbytes, rel=1e-3)  # a few bytes are for the number 1


def test_settings_are_given_back():
    before = torch.get_num_threads(), torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32
    with timing.settings(threads=2, channels_last=True):
        assert torch.get_num_threads() == 2
        assert torch.backends.cudnn.benchmark
        assert timing.LAYOUTS["cpu"] is torch.channels_last
    assert timing.LAYOUTS["cpu"] is torch.contiguous_format
    assert before == (torch.get_num_threads(), torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32)


def test_ceilings(monkeypatch):
    monkeypatch.setitem(timing._COPIED, "cpu", 2**20)
    monkeypatch.setitem(timing._MULTIPLIED, "cpu", 64)
    assert all(value > 1e6 for value in timing.ceilings("cpu", "fp32").values())


def test_the_ninth_module_is_compiled_too(monkeypatch):
    compiler = CompileCounter()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=compiler))
    inputs = timing.rotating_inputs((1, 3, 4, 4), "fp32", "cpu", gradient=False)
    modules = {str(width): nn.Sequential(nn.Conv2d(3, width, 1)) for width in range(1, 10)}
    timing.race(modules, inputs, "fp32", ["compiled"], 2)
    assert compiler.frame_count == 2 * len(modules)  # for training and for inference
