"""How things are timed; how fast they are is not a matter for tests."""

from functools import partial

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from xcnorm.bench import timing
from xcnorm.bench.conditions import Conditions
from xcnorm.bench.memory import peak_memory

CPU = Conditions("cpu", "fp32")


def test_inputs_take_turns():
    inputs = CPU.inputs((1, 3, 4, 4), gradient=False)
    seen = {}
    found = timing.take_turns({"step": lambda x: seen.setdefault(x.data_ptr(), x)}, inputs, "eager", 3)
    assert len(seen) == len(inputs) > 1
    assert 0 < found["step"]["low"] <= found["step"]["median"] <= found["step"]["high"]


def test_a_race_measures_everything():
    inputs = CPU.inputs((2, 3, 8, 8), gradient=True)
    modules = {"one": nn.Conv2d(3, 4, 3), "other": nn.Conv2d(3, 8, 3)}
    weight = modules["one"].weight.detach().clone()
    found = timing.race(modules, inputs, CPU, ["eager"], 2)
    for side in found.values():
        assert set(side["times"]["eager"]) == {"inference", "forward", "backward", "both"}
    assert found["one"]["memory_mib"] < found["other"]["memory_mib"]
    assert modules["one"].training
    assert modules["one"].weight.equal(weight)
    assert modules["one"].weight.grad is None
    assert inputs[0].grad is None


@pytest.mark.parametrize(
    ("step", "held"), [(lambda x: x + 1, 2), (lambda x: (x + 1) + 1, 3), (lambda x: [x + 1, x + 1, x + 1], 4)]
)
def test_memory_counts_the_input_and_what_is_held_at_once(step, held):
    x = torch.randn(1 << 18)
    assert peak_memory(step, x) == pytest.approx(held * x.nbytes, rel=1e-3)  # a few bytes are for the number 1


def test_the_ninth_module_is_compiled_too(monkeypatch):
    compiler = CompileCounter()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=compiler))
    inputs = CPU.inputs((1, 3, 4, 4), gradient=False)
    modules = {str(width): nn.Sequential(nn.Conv2d(3, width, 1)) for width in range(1, 10)}
    timing.race(modules, inputs, CPU, ["compiled"], 2)
    assert compiler.frame_count == 2 * len(modules)  # for training and for inference
