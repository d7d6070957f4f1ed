"""The averaged network follows the weights by its formula, and is what is tested."""

import pytest
import torch

from tests.engine import small
from tests.methods import small as methods
from xcnorm.engine import RunFolder, run_experiment
from xcnorm.engine.averaging import AveragedNetwork
from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.engine.testing import predict
from xcnorm.engine.training import train
from xcnorm.methods import list_methods
from xcnorm.metrics import score

STEPS = 14
DECAY = 0.6  # from the sixth step on it is less than (1 + step) / (10 + step)
# Statistics of batches and a moving c, which are averaged, and counters, which are not.
PAPER = {"model__layer": "r_xcnorm", "model__options": {"preset": "paper", "norm": "batch"}}


def averaged(**changes):
    return small.experiment(schedule__iterations=STEPS, schedule__ema=DECAY, **changes)


def copied(state):
    return {name: value.clone() for name, value in state.items()}


def test_it_is_the_moving_average_of_weights_and_of_their_statistics():
    trainer = small.trainer(averaged(optimiser__learning_rate=0.02, **PAPER))
    expected = {name: value.double() for name, value in trainer.model.state_dict().items()}
    for step in range(STEPS):
        trainer.advance()
        decay = min(DECAY, (1 + step) / (10 + step))
        for name, value in trainer.model.state_dict().items():
            whole = not value.is_floating_point()
            expected[name] = value if whole else decay * expected[name] + (1 - decay) * value.double()
    found = trainer.tested.state_dict()
    assert {name.rpartition(".")[2] for name in found} >= {"running_mean", "running_var", "running_c", "weight"}
    for name, value in expected.items():
        torch.testing.assert_close(found[name].double(), value.double(), rtol=1e-5, atol=1e-6)
    assert any((found[name] - value).abs().max() > 1e-3 for name, value in trainer.model.state_dict().items())


def test_words_of_a_dictionary_are_the_newest():
    """Their places change hands, so that a mean of two words is none."""
    trainer = methods.trainer("metacnn", schedule__ema=0.9)
    methods.losses(trainer, 4)
    own, live = trainer.tested.state_dict(), trainer.model.state_dict()
    for name in live:
        same = torch.equal(own[name], live[name])
        assert same == ("dictionary" in name or name.endswith("num_batches_tracked")), name


def test_training_does_not_notice():
    one, other = small.trainer(averaged(**PAPER)), small.trainer(small.experiment(schedule__iterations=STEPS, **PAPER))
    for step in range(STEPS):
        torch.manual_seed(step)
        loss = one.advance()
        one.validate()
        torch.manual_seed(step)
        assert other.advance() == loss
    torch.testing.assert_close(one.model.state_dict(), other.model.state_dict(), rtol=0, atol=0)
    assert other.tested is other.model


def test_the_average_is_what_is_validated_and_kept(tmp_path):
    trainer = small.trainer(averaged(run__evaluate_every=3, optimiser__learning_rate=0.02, **PAPER))
    folder = RunFolder(tmp_path)
    train(trainer, folder)
    assert not torch.equal(trainer.tested.classifier.weight, trainer.model.classifier.weight)
    torch.testing.assert_close(folder.weights("last"), trainer.tested.state_dict(), rtol=0, atol=0)
    best, held_out = trainer.best["best_on_source"], small.benchmark().validation
    trainer.model.load_state_dict(best["weights"])
    answers = predict(trainer.model, held_out.images, trainer.experiment)
    assert score(answers, held_out.labels)["accuracy"] == best["score"]


@pytest.mark.parametrize("start", [1, 7, 13])
def test_going_on_from_any_step_changes_nothing(start, tmp_path):
    experiment = averaged(run__channels_last=True, **PAPER)
    whole = small.trainer(experiment)
    for step in range(STEPS):
        if step == start:
            save_checkpoint(tmp_path, step, whole.state_dict())
        whole.advance()
    resumed = small.trainer(experiment)
    resumed.load_state_dict(*load_checkpoint(tmp_path))
    for _ in range(start, STEPS):
        resumed.advance()
    torch.testing.assert_close(resumed.tested.state_dict(), whole.tested.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(resumed.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("name", list_methods())
def test_every_method_is_averaged(name):
    """Also what a method makes of the network."""
    trainer = methods.trainer(name, schedule__ema=0.9)
    start = copied(trainer.tested.state_dict())
    methods.losses(trainer, 3)
    assert list(trainer.tested.state_dict()) == list(trainer.model.state_dict())
    moved = [key for key, value in trainer.tested.state_dict().items() if not torch.equal(value, start[key])]
    assert {key for key, _ in trainer.tested.named_parameters()} <= set(moved)
    assert not any(module.training for module in trainer.tested.modules())
    assert not any(parameter.requires_grad for parameter in trainer.tested.parameters())


def test_a_constant_stays_itself_bit_for_bit():
    network = small.trainer(small.experiment()).model
    average = AveragedNetwork(network, 0.999)
    for step in range(50):
        average.prepare(step)
        average.follow()
    torch.testing.assert_close(average.network.state_dict(), network.state_dict(), rtol=0, atol=0)


def test_a_whole_run_is_tested_by_it(tmp_path, monkeypatch):
    monkeypatch.setattr("xcnorm.engine.run.load", lambda *_, **__: small.benchmark())
    folder = run_experiment(averaged(), tmp_path, small.ALONE)
    plain = run_experiment(small.experiment(schedule__iterations=STEPS), tmp_path, small.ALONE)
    assert folder.path != plain.path
    one, other = folder.weights("last"), plain.weights("last")
    assert any(not torch.equal(one[name], other[name]) for name in one)
