"""The learning rate follows its formula, and weight decay falls on weights alone."""

import math

import pytest
import torch
from torch import nn

from xcnorm.engine.optimisation import make_optimiser, rate_factor, restore
from xcnorm.engine.settings import OptimiserSettings, ScheduleSettings
from xcnorm.models import create_model

STEPS = 200


def factors(**settings):
    schedule = ScheduleSettings(iterations=STEPS, **settings)
    return [rate_factor(schedule, step, STEPS) for step in range(STEPS)]


@pytest.mark.parametrize(
    ("shape", "formula"),
    [
        ("constant", lambda rest: 1.0),
        ("linear", lambda rest: 1 - rest),
        ("cosine", lambda rest: math.cos(math.pi * rest / 2) ** 2),
    ],
)
@pytest.mark.parametrize("warmup", [0.0, 0.1])
def test_shapes(shape, formula, warmup):
    first = round(warmup * STEPS)
    expected = [(step + 1) / (first + 1) for step in range(first)]
    expected += [formula(step / (STEPS - first)) for step in range(STEPS - first)]
    assert factors(shape=shape, warmup=warmup) == pytest.approx(expected, abs=1e-12)


def test_the_step_falls_to_a_tenth():
    assert factors(shape="step", warmup=0.0) == [1.0] * 160 + [0.1] * 40


@pytest.mark.parametrize("shape", ["constant", "linear", "cosine", "step"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 19])
def test_short_runs_have_a_positive_rate_from_the_first_step(shape, steps):
    schedule = ScheduleSettings(iterations=steps, shape=shape)
    assert all(0 < rate_factor(schedule, step, steps) <= 1 for step in range(steps))


@pytest.mark.parametrize("layer", ["conv", "xcnorm", "r_xcnorm"])
def test_weight_decay_falls_on_the_weights_of_layers_alone(layer):
    options = {} if layer == "conv" else {"preset": "paper", "mask": True, "gain": "before_norm"}
    if layer == "r_xcnorm":
        options["scale"] = "parameter"
    model = create_model("digits_cnn", layer, "batch", **options)
    optimiser = make_optimiser(model, OptimiserSettings(weight_decay=0.3), capturable=False)
    decays = {id(parameter): group["weight_decay"] for group in optimiser.param_groups for parameter in group["params"]}
    names = {name: decays[id(parameter)] for name, parameter in model.named_parameters()}
    assert len(decays) == len(names)  # all, and each once
    decaying = {name for name, decay in names.items() if decay}
    assert {names[name] for name in decaying} == {0.3}
    # Two convolutions, two hidden dense layers, the classifier: what has a kernel or a matrix, but for the masks.
    assert len(decaying) == 5
    assert decaying == {n for n, p in model.named_parameters() if p.ndim > 1 and "mask" not in n and "tau" not in n}
    kinds = {"conv": ["bias", "1.weight"], "xcnorm": ["mask.weight", "mask.bias", "gain", "raw_tau"]}  # 1: batch norm
    kinds["r_xcnorm"] = [*kinds["xcnorm"], "raw_c"]
    for kind in kinds[layer]:
        assert any(name.endswith(kind) for name in names.keys() - decaying), kind


@pytest.mark.parametrize(
    ("settings", "kind", "values"),
    [
        ({"name": "adam"}, torch.optim.Adam, {"betas": (0.9, 0.999)}),
        ({"name": "adamw"}, torch.optim.AdamW, {"betas": (0.9, 0.999)}),
        ({"name": "sgd", "momentum": 0.8}, torch.optim.SGD, {"momentum": 0.8, "nesterov": True}),
        ({"name": "sgd", "nesterov": False}, torch.optim.SGD, {"momentum": 0.9, "nesterov": False}),
        ({"name": "sgd", "momentum": 0.0}, torch.optim.SGD, {"momentum": 0.0, "nesterov": False}),
    ],
)
def test_optimisers(settings, kind, values):
    optimiser = make_optimiser(nn.Linear(3, 2), OptimiserSettings(learning_rate=0.2, **settings), capturable=False)
    assert type(optimiser) is kind
    for group in optimiser.param_groups:
        assert group["lr"] == 0.2
        assert values.items() <= group.items()


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("last", [False, True])
def test_a_state_from_another_layout_goes_on_as_before(name, last):
    """Against torch's plain form; a checkpoint holds everything in the usual order, whatever that of the weights."""
    settings = OptimiserSettings(name=name, learning_rate=0.1)
    layer = nn.Conv2d(3, 4, 5)
    plain = nn.Conv2d(3, 4, 5)
    plain.load_state_dict(layer.state_dict())
    if last:
        layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
    optimiser = make_optimiser(layer, settings, capturable=False)
    groups = [
        {"params": [each], "weight_decay": group["weight_decay"]}
        for group, each in zip(optimiser.param_groups, plain.parameters(), strict=True)
    ]
    options = {"momentum": 0.9, "nesterov": True} if name == "sgd" else {}
    expected = type(optimiser)(groups, lr=0.1, foreach=False, **options)
    for turn in range(3):
        if turn == 1:
            state = optimiser.state_dict()
            for averages in state["state"].values():
                averages.update(
                    {key: value.clone(memory_format=torch.contiguous_format) for key, value in averages.items()}
                )
            optimiser = make_optimiser(layer, settings, capturable=False)
            restore(optimiser, state)
        for one, other in zip(layer.parameters(), plain.parameters(), strict=True):
            other.grad = torch.randn_like(other)
            one.grad = torch.empty_like(one).copy_(other.grad)
        optimiser.step()
        expected.step()
    torch.testing.assert_close(layer.state_dict(), plain.state_dict(), rtol=1e-5, atol=1e-6)


def test_a_first_step_that_a_loss_scaler_skips_leaves_nothing_behind():
    layer = nn.Linear(3, 4)
    optimiser = make_optimiser(layer, OptimiserSettings(name="sgd", learning_rate=0.1), capturable=False)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    for parameter in layer.parameters():
        parameter.grad = torch.full_like(parameter, torch.inf)
    optimiser.grad_scale, optimiser.found_inf = torch.ones(()), torch.ones(())  # as a scaler tells a fused step
    optimiser.step()
    torch.testing.assert_close(layer.state_dict(), before, rtol=0, atol=0)
    assert all(not state["momentum_buffer"].any() for state in optimiser.state.values())


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_a_state_of_another_form_goes_on_in_this_one(name):
    """Checkpoints may be older than the fused form."""
    settings = OptimiserSettings(name=name, learning_rate=0.1)
    layer = nn.Linear(3, 4)
    optimiser = make_optimiser(layer, settings, capturable=False)
    groups = [{"params": group["params"], "weight_decay": group["weight_decay"]} for group in optimiser.param_groups]
    options = {"momentum": 0.9, "nesterov": True} if name == "sgd" else {}
    older = type(optimiser)(groups, lr=0.3, foreach=True, **options)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    older.step()
    restore(optimiser, older.state_dict())
    assert all(group["fused"] and not group["foreach"] and group["lr"] == 0.1 for group in optimiser.param_groups)
    optimiser.step()
    assert all(value.isfinite().all() for value in layer.parameters())
