"""Training on a GPU: captured steps, half precision, and going on from a checkpoint."""

import pytest
import torch

from tests.engine import small
from tests.methods import small as methods
from xcnorm.engine import Trainer, World
from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.engine.precision import precision
from xcnorm.errors import UserError
from xcnorm.methods import Augmentation, find_method, list_methods

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

STEPS = 12


@pytest.fixture(autouse=True)
def exact():
    """True float32 unless an experiment says otherwise: a dozen steps of Adam blow TF32's roundings up to percents."""
    with precision("float32"):
        yield


def trainer(**changes):
    """Without dropout, whose numbers a captured step draws in another order."""
    experiment = small.experiment(schedule__iterations=STEPS, **changes)
    made = Trainer(experiment, small.benchmark(), World(0, 1, torch.device("cuda")))
    for module in made.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return made


def losses(one, steps):
    return [one.advance().item() for _ in range(steps)]


@pytest.mark.parametrize("layer", ["conv", "r_xcnorm"])
@pytest.mark.parametrize("optimiser", ["adamw", "adam", "sgd"])
def test_captured_steps_follow_the_schedule(layer, optimiser):
    changes = {
        "model__layer": layer,
        "model__options": {"preset": "paper"} if layer == "r_xcnorm" else {},
        "optimiser": {"name": optimiser, "learning_rate": 0.02, "weight_decay": 0.01},
        "schedule__warmup": 0.5,  # most of the captured steps have another rate than the one that was captured
    }
    plain, captured = trainer(**changes), trainer(run__graph=True, **changes)
    assert losses(captured, STEPS) == pytest.approx(losses(plain, STEPS), rel=1e-2)
    close = {"rtol": 1e-2, "atol": 1e-3}
    torch.testing.assert_close(captured.model.state_dict(), plain.model.state_dict(), **close)


@pytest.mark.parametrize("name", [name for name in list_methods() if find_method(name).capturable and name != "erm"])
def test_captured_steps_of_every_method_equal_eager_ones(name):
    """With all that a method does in a dozen steps: images that are added, generators, other shapes from then on."""
    cuda = torch.device("cuda")
    plain, captured = (methods.trainer(name, device=cuda, run__graph=graph) for graph in (False, True))
    assert methods.losses(captured, 10) == pytest.approx(methods.losses(plain, 10), rel=2e-2)


@pytest.mark.parametrize("name", [name for name in list_methods() if issubclass(find_method(name), Augmentation)])
def test_views_of_several_steps_are_those_that_a_cpu_draws_one_by_one(name):
    """But for pixels that lie on the edge between two levels; and they are the same, bit for bit, when drawn again."""
    here, there, again = (methods.trainer(name, device=torch.device(kind)) for kind in ("cpu", "cuda", "cuda"))
    for _ in range(3):
        for view, expected in zip(next(there.feed), next(here.feed), strict=True):
            assert (view.cpu() - expected).abs().double().mean() < 1e-3
    assert (here.feed.together, there.feed.together) == (1, 32)
    again.feed.load_state_dict(there.feed.state_dict())
    for _ in range(40):
        assert all(torch.equal(*pair) for pair in zip(next(again.feed), next(there.feed), strict=True))


@pytest.mark.parametrize("name", [name for name in list_methods() if not find_method(name).scalable])
def test_methods_with_gradients_of_their_own_refuse_fp16(name):
    with pytest.raises(UserError, match=f"method {name} takes gradients of its own, which fp16 would lose; use 'bf16'"):
        trainer(method__name=name, run__precision="fp16")


def test_captured_steps_move_the_average_as_others_do(tmp_path):
    """Whose share is another one in every step; and a captured run goes on with the average that it had."""
    changes = {"schedule__ema": 0.7, "optimiser__learning_rate": 0.02, "model__options": {"norm": "batch"}}
    plain, captured = trainer(**changes), trainer(run__graph=True, **changes)
    losses(plain, STEPS)
    losses(captured, 7)
    save_checkpoint(tmp_path, 7, captured.state_dict())
    resumed = trainer(run__graph=True, **changes)
    resumed.load_state_dict(*load_checkpoint(tmp_path))
    close = {"rtol": 1e-2, "atol": 1e-3}
    for one in (captured, resumed):
        losses(one, STEPS - 7)
        torch.testing.assert_close(one.tested.state_dict(), plain.tested.state_dict(), **close)
    assert (captured.tested.classifier.weight - captured.model.classifier.weight).abs().max() > 1e-3


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
def test_going_on_from_a_checkpoint(graph, optimiser, tmp_path):
    changes = {"run__graph": graph, "optimiser__name": optimiser}
    whole = trainer(**changes)
    losses(whole, 5)
    save_checkpoint(tmp_path, 5, whole.state_dict())
    resumed = trainer(**changes)
    resumed.load_state_dict(*load_checkpoint(tmp_path))
    assert losses(resumed, STEPS - 5) == pytest.approx(losses(whole, STEPS - 5), rel=1e-2)
    for one, other in zip(resumed.optimiser.state.values(), whole.optimiser.state.values(), strict=True):
        # An optimiser that must read its step from the device would wait for it at every parameter.
        assert {key: value.device for key, value in one.items()} == {key: value.device for key, value in other.items()}
    torch.testing.assert_close(resumed.model.state_dict(), whole.model.state_dict(), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["tf32", "bf16", "fp16"])
def test_reduced_precision_trains_near_float32(name, tmp_path):
    exact, rough = trainer(), trainer(run__precision=name)
    assert losses(rough, 6) == pytest.approx(losses(exact, 6), rel=0.1)
    save_checkpoint(tmp_path, 6, rough.state_dict())
    resumed = trainer(run__precision=name)
    resumed.load_state_dict(*load_checkpoint(tmp_path))
    assert resumed.scaler.state_dict() == rough.scaler.state_dict()
    assert losses(resumed, 6) == pytest.approx(losses(rough, 6), rel=0.05)


def test_the_whole_set_lives_on_the_device():
    assert trainer().images._images.is_cuda


def test_what_cannot_be_captured_is_refused():
    with pytest.raises(UserError, match=r"run\.graph needs"):
        trainer(run__graph=True, run__precision="fp16")


def test_both_devices_train_the_same():
    there = trainer(schedule__warmup=0.0)
    here = Trainer(there.experiment, small.benchmark(), small.ALONE)
    for module in here.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    assert losses(here, 5) == pytest.approx(losses(there, 5), rel=1e-2)
