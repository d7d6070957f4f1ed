"""An experiment may start from what another run has trained, as it is or converted."""

import json

import pytest
import torch

from tests.engine import small
from xcnorm.engine import RunFolder
from xcnorm.engine.networks import build_model, build_network, start_weights
from xcnorm.errors import UserError
from xcnorm.nn import XCNormLayer

CPU = torch.device("cpu")
START = {"run": "digits-mini/erm+conv-123456/seed0", "model": {"name": "tiny"}}


def started(**changes):
    return small.experiment(start=START, **changes)


@pytest.fixture
def weights():
    """Of a network that nobody would draw by the seeds used here."""
    return build_network(small.experiment(seed=9), 3, CPU).state_dict()


def test_the_same_network_goes_on_from_the_weights(weights):
    model = build_model(started(), small.benchmark(), CPU, weights)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert model.training


def test_another_form_of_it_is_converted_and_calibrated(weights):
    experiment = started(model__layer="xcnorm", model__options={"norm": "batch"})
    model = build_model(experiment, small.benchmark(), CPU, weights)
    (first, *_) = layers = [module for module in model.modules() if isinstance(module, XCNormLayer)]
    assert len(layers) == 2
    assert torch.equal(first.weight, weights["trunk.0.0.weight"])
    assert first.stages.norm.running_mean.abs().min() > 0
    again = build_model(experiment, small.benchmark(), CPU, weights)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in again.state_dict().items())


def test_what_was_trained_from_a_start_can_be_loaded_without_it(weights):
    experiment = started(model__layer="r_xcnorm")
    model = build_model(experiment, small.benchmark(), CPU, weights)
    build_network(experiment, 3, CPU).load_state_dict(model.state_dict())


def test_weights_of_another_network_are_one_line(weights):
    with pytest.raises(UserError, match=r"do not fit tiny \(conv\): .*; start from a run on as many classes"):
        build_network(started(), 5, CPU, weights)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__name": "digits_cnn"}, "model.name is 'digits_cnn', but it starts from 'tiny'"),
        ({"start__run": "x", "start__model__name": "tniy"}, "start.model: .*did you mean 'tiny'"),
        ({"start__run": "x", "start__model__name": "tiny", "model__options": {"nrm": 1}}, "made of what it starts"),
    ],
)
def test_what_cannot_be_made_of_a_start_is_refused_at_once(changes, message):
    with pytest.raises(UserError, match=message):
        started(**changes) if "start__run" not in changes else small.experiment(**changes)


def test_the_run_must_be_there_finished_and_of_that_network(tmp_path, weights):
    assert start_weights(small.experiment(), tmp_path) is None
    with pytest.raises(UserError, match=r"no config\.toml"):
        start_weights(started(), tmp_path)
    folder = RunFolder(tmp_path / START["run"])
    folder.begin(small.experiment(), {})
    with pytest.raises(UserError, match="is not finished, so nothing can start from it"):
        start_weights(started(), tmp_path)
    folder.save_weights("last", weights)
    folder.write("metrics.json", json.dumps({}))
    assert start_weights(started(), tmp_path).keys() == weights.keys()
    other = small.experiment(start={**START, "model": {"name": "tiny", "layer": "xcnorm"}}, model__layer="xcnorm")
    with pytest.raises(UserError, match=r"trained tiny \(conv\), but start.model is tiny \(xcnorm\)"):
        start_weights(other, tmp_path)
