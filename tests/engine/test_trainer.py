"""A training that stops anywhere goes on as if it had not; and it does what the experiment says."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.engine import small
from xcnorm.data import Domain, Sampler, card, transforms
from xcnorm.engine import World, seeding
from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.engine.networks import build_model
from xcnorm.engine.testing import predict
from xcnorm.engine.trainer import Trainer
from xcnorm.errors import UserError
from xcnorm.methods import find_method, list_methods
from xcnorm.metrics import score

STEPS = 6
AUGMENTED = {"data__augment": ["flip", "crop"]}
RUNS = {
    "adam": {"optimiser__name": "adam", **AUGMENTED},
    "adamw-randconv": {
        "method__name": "randconv",
        "optimiser__weight_decay": 0.1,
        "model__layer": "r_xcnorm",
        "model__options": {"preset": "paper"},
        **AUGMENTED,
    },
    "sgd": {"optimiser__name": "sgd", "model__layer": "xcnorm"},
    "adam-channels-last": {"optimiser__name": "adam", "run__channels_last": True},
}


@pytest.mark.parametrize("name", RUNS)
def test_going_on_from_any_step_changes_nothing(name, tmp_path):
    experiment = small.experiment(schedule__iterations=STEPS, **RUNS[name])
    whole = small.trainer(experiment)
    losses = []
    for step in range(STEPS):
        save_checkpoint(tmp_path / str(step), step, whole.state_dict())
        losses.append(whole.advance().item())
        if step % 2:
            whole.validate()
    for start in range(STEPS):
        torch.manual_seed(start)  # whatever the new process drew before
        resumed = small.trainer(experiment)
        step, state = load_checkpoint(tmp_path / str(start))
        resumed.load_state_dict(step, state)
        for step in range(start, STEPS):
            assert resumed.advance().item() == losses[step]
            if step % 2:
                resumed.validate()
        assert_same_state(resumed, whole)


def assert_same_state(one, other):
    torch.testing.assert_close(one.model.state_dict(), other.model.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(one.best, other.best, rtol=0, atol=0)
    assert one.batches.sampler.state_dict() == other.batches.sampler.state_dict()


def test_dropout_really_draws():
    """Without the state of the global generator a resumed run would differ: here the second goes on from the first."""
    one, other = (small.trainer(small.experiment()) for _ in range(2))
    assert one.advance() != other.advance()


def test_seeds_decide_everything():
    def losses(seed):
        trainer = small.trainer(small.experiment(seed=seed, method__name="randconv", **AUGMENTED))
        return [trainer.advance().item() for _ in range(3)]

    assert losses(1) == losses(1)
    assert losses(1) != losses(2)


def test_a_step_is_a_step_of_the_plain_loop():
    """Order, normalisation, rate and decay, written out by hand."""
    experiment = small.experiment(
        model__name="digits_cnn",
        schedule={"iterations": 5, "batch": 8, "warmup": 0.0},
        optimiser={"name": "sgd", "learning_rate": 0.05, "momentum": 0.0, "nesterov": False, "weight_decay": 0.1},
        data={"mean": [0.1, 0.2, 0.3], "std": 0.25},
    )
    trainer = small.trainer(experiment)
    source = small.benchmark().train
    model = build_model(experiment, small.benchmark(), torch.device("cpu"))
    mean = torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)
    order = Sampler(32, 8, seed=seeding.derive(0, "order"))
    for step in range(5):
        index = next(order)
        loss = trainer.advance()
        images = (source.images[index].float().expand(-1, 3, -1, -1) / 255 - mean) / 0.25
        expected = F.cross_entropy(model(images), source.labels[index])
        torch.testing.assert_close(loss, expected.detach())
        model.zero_grad()
        expected.backward()
        rate = 0.05 * 0.5 * (1 + math.cos(math.pi * step / 5))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                decay = 0.1 if name.endswith("weight") else 0.0  # a plain network has no other weights than layers'
                parameter -= rate * (parameter.grad + decay * parameter)
    torch.testing.assert_close(dict(trainer.model.state_dict()), dict(model.state_dict()))


def test_validating_changes_nothing_and_keeps_the_best():
    experiment = small.experiment(
        schedule__iterations=30, optimiser__learning_rate=0.02, run__selection=["best_on_source"]
    )
    looked, blind = small.trainer(experiment), small.trainer(experiment)
    scores = {}
    for step in range(30):
        torch.manual_seed(step)
        loss = looked.advance()
        torch.manual_seed(step)
        assert blind.advance() == loss
        scores[looked.step] = looked.validate()
        assert looked.model.training
    torch.testing.assert_close(looked.model.state_dict(), blind.model.state_dict(), rtol=0, atol=0)
    best = looked.best["best_on_source"]
    assert best["score"] == max(scores.values())
    assert list(scores.values()).count(best["score"]) > 1
    assert best["step"] == min(step for step, score in scores.items() if score == best["score"])
    model = build_model(experiment, small.benchmark(), torch.device("cpu"))
    model.load_state_dict(best["weights"])
    held_out = small.benchmark().validation
    answers = predict(model, held_out.images, experiment)
    assert score(answers, held_out.labels)["accuracy"] == best["score"]


def test_training_learns():
    trainer = small.trainer(small.experiment(schedule__iterations=40, optimiser__learning_rate=0.01))
    for _ in range(40):
        trainer.advance()
    assert trainer.validate() > 0.9


def test_the_number_of_steps():
    assert small.trainer(small.experiment(schedule={"iterations": 7, "batch": 8})).steps == 7
    assert small.trainer(small.experiment(schedule={"iterations": 0, "epochs": 3, "batch": 12})).steps == 3 * 2


def test_the_benchmarks_own_score_decides(monkeypatch):
    """Here on answers that are all of one class: half of them right, in perfect order."""
    probabilities, labels = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]), torch.tensor([0, 0, 0, 1])
    monkeypatch.setattr("xcnorm.engine.trainer.predict", lambda *_: probabilities)
    held_out = Domain("validation", torch.zeros(4, 1, 16, 16, dtype=torch.uint8), labels)
    trainer = small.trainer(small.experiment())
    for name, expected in (("digits", 0.75), ("camelyon17", 1.0), ("breakhis", 0.5)):  # accuracy, AUROC, balanced
        trainer.benchmark = replace(trainer.benchmark, card=card(name), validation=held_out)
        assert trainer.validate() == expected
    trainer.benchmark = replace(
        trainer.benchmark, card=card("camelyon17"), validation=replace(held_out, labels=labels * 0)
    )
    assert trainer.validate() == 0.0  # no AUROC of one class alone


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run__precision": "fp16"}, "run.precision 'fp16' needs a CUDA device; on the CPU use 'bf16' or 'float32'"),
        ({"run__graph": True}, "run.graph needs one process on a CUDA device"),
        ({"schedule__batch": 33}, "32 images do not fill one batch of 33"),
        ({"schedule": {"iterations": 0, "epochs": 2, "batch": 33}}, "32 training images do not fill one batch of 33"),
    ],
)
def test_what_cannot_run_here_is_refused(changes, words):
    with pytest.raises(UserError) as error:
        small.trainer(small.experiment(**changes))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(UserError, match=r"schedule.batch 8 cannot be shared by 3 processes evenly"):
        Trainer(small.experiment(), small.benchmark(), World(0, 3, torch.device("cpu")))


@pytest.mark.parametrize("name", [name for name in list_methods() if find_method(name).distributed])
def test_a_method_says_why_it_cannot_run_in_several_processes(name):
    with pytest.raises(UserError) as error:
        Trainer(small.experiment(method__name=name), small.benchmark(), World(0, 2, torch.device("cpu")))
    assert str(error.value) == (
        f"method {name} cannot run in several processes: {find_method(name).distributed}; train it in one"
    )


def without_dropout(**changes):
    trainer = small.trainer(small.experiment(**changes))
    for module in trainer.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return trainer


def test_bfloat16_trains_near_float32():
    exact, rough = (without_dropout(run__precision=name) for name in ("float32", "bf16"))
    for step in range(3):
        one, other = exact.advance().item(), rough.advance().item()
        assert one != other
        assert one == pytest.approx(other, rel=0.05), step
    assert all(parameter.dtype == torch.float32 for parameter in rough.model.parameters())


def test_channels_last_trains_the_same():
    plain, last = (without_dropout(run__channels_last=flag) for flag in (False, True))
    kernels = [parameter for parameter in last.model.parameters() if parameter.ndim == 4]
    assert kernels
    assert all(kernel.is_contiguous(memory_format=torch.channels_last) for kernel in kernels)
    for _ in range(3):
        assert plain.advance().item() == pytest.approx(last.advance().item(), rel=1e-3)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of torch's compiler itself
def test_compiled_trains_the_same():
    plain, compiled = (without_dropout(run__compile=flag) for flag in (False, True))
    for _ in range(3):
        assert plain.advance().item() == pytest.approx(compiled.advance().item(), rel=1e-3)
    assert list(plain.state_dict()["model"]) == list(compiled.state_dict()["model"])


def test_predictions_are_probabilities_of_whatever_batch():
    trainer = small.trainer(small.experiment())
    images = small.domain("test", 107, 16).images  # more than one batch, and a rest
    answers = predict(trainer.model, images, trainer.experiment)
    assert trainer.model.training
    torch.testing.assert_close(answers.sum(1), torch.ones(107))
    with torch.no_grad():  # without dropout, and by the moving averages
        expected = trainer.model.eval()(transforms.normalise(images.expand(-1, 3, -1, -1), 0.5, 0.5)).softmax(1)
    torch.testing.assert_close(answers, expected)
