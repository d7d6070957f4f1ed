"""An experiment knows what decides its result, and comes back from its file exactly."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import small
from xcnorm.engine import Experiment, make_experiment
from xcnorm.engine.experiment import merge, override, to_toml
from xcnorm.errors import UserError

# One other value for every setting that there is.
CHANGES = {
    "benchmark": "cifar10c-mini",
    "benchmark_options": {"seed": 3},
    "model.name": "allconv",
    "model.layer": "xcnorm",
    "model.options": {"norm": "batch"},
    "start": {"run": "digits-mini/erm+conv-123456/seed0", "model": {"name": "tiny"}},
    "method.name": "randconv",
    "method.options": {"consistency": 5.0},
    "method.augment": "randconv",
    "method.augment_options": {"mix": False},
    "data.augment": ["flip"],
    "data.mean": [0.1, 0.2, 0.3],
    "data.std": 0.25,
    "optimiser.name": "sgd",
    "optimiser.learning_rate": 0.01,
    "optimiser.weight_decay": 0.1,
    "optimiser.momentum": 0.5,
    "optimiser.nesterov": False,
    "schedule.iterations": 7,
    "schedule.epochs": 7,
    "schedule.batch": 16,
    "schedule.warmup": 0.0,
    "schedule.shape": "linear",
    "schedule.ema": 0.99,
    "data.share": 0.5,
    "run.precision": "bf16",
    "run.compile": True,
    "run.graph": True,
    "run.channels_last": True,
    "run.evaluate_every": 5,
    "run.selection": ["last"],
    "run.probe": ["affine"],
}
NO_PART = {"seed": 3, "label": "ours", "run.checkpoint_every": 5}


def changed(key, value):
    extra = {"method.name": "randconv"} if key == "method.options" else {}
    extra |= {"method.augment": "randconv"} if key == "method.augment_options" else {}
    extra |= {"benchmark": "folder"} if key == "benchmark_options" else {}
    return make_experiment(merge(small.BASE, override({key: value, **extra})))


def leaves(model):
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield from (f"{name}.{leaf}" for leaf in leaves(field.annotation))
        else:
            yield name


def test_every_setting_is_looked_at_here():
    assert sorted(leaves(Experiment)) == sorted(CHANGES | NO_PART)


def test_everything_that_may_change_the_result_changes_the_hash():
    base = small.experiment()
    hashes = {key: changed(key, value).hash for key, value in CHANGES.items()}
    assert len({base.hash, *hashes.values()}) == len(hashes) + 1
    for key, value in NO_PART.items():
        assert changed(key, value).hash == base.hash
        assert changed(key, value) != base


def test_the_hash_and_the_folder_stay_what_they_are():
    """Runs of earlier versions are found again."""
    experiment = small.experiment(seed=3, model__layer="xcnorm")
    assert experiment.hash == small.experiment(model__layer="xcnorm").hash
    assert str(experiment.folder) == f"digits-mini/erm+xcnorm-{experiment.hash[:6]}/seed3"


def test_an_average_or_a_start_that_there_is_not_is_not_written():
    """So that an experiment has the file, the hash and the row in a report that it had before there was one."""
    assert "ema" not in small.experiment().to_toml()
    assert "ema = 0.99" in small.experiment(schedule__ema=0.99).to_toml()
    assert small.experiment(schedule__ema=0.0).hash == small.experiment().hash
    assert "share" not in small.experiment().to_toml()
    assert "share = 0.1" in small.experiment(data__share=0.1).to_toml()
    assert small.experiment(data__share=1.0).hash == small.experiment().hash
    assert "start" not in small.experiment().to_toml()


@pytest.mark.parametrize("key", CHANGES | NO_PART)
def test_the_file_comes_back_exactly(key):
    experiment = changed(key, (CHANGES | NO_PART)[key])
    again = make_experiment(tomllib.loads(experiment.to_toml()))
    assert again == experiment
    assert again.hash == experiment.hash
    assert again.to_toml() == experiment.to_toml()


@given(label=st.text(), rate=st.floats(1e-30, 1e30), mean=st.lists(st.floats(-1, 1), min_size=3, max_size=3))
def test_any_label_and_number_comes_back(label, rate, mean):
    experiment = small.experiment(label=label, optimiser__learning_rate=rate, data__mean=mean)
    assert make_experiment(tomllib.loads(experiment.to_toml())) == experiment


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.dictionaries(st.text(), st.text())))
def test_any_table_can_be_written(values):
    assert tomllib.loads(to_toml(values)) == values


def test_whole_numbers_are_fractions_where_fractions_are_meant():
    one, other = small.experiment(optimiser__learning_rate=1), small.experiment(optimiser__learning_rate=1.0)
    assert one.hash == other.hash


@pytest.mark.parametrize(("below", "above"), [("epochs", "iterations"), ("iterations", "epochs")])
def test_the_length_that_is_set_takes_the_place_of_the_other(below, above):
    base = {"schedule": {below: 40, "batch": 16}}
    schedule = make_experiment(merge(base, override({f"schedule.{above}": 60}))).schedule
    assert (getattr(schedule, below), getattr(schedule, above), schedule.batch) == (0, 60, 16)
    written = make_experiment(base).model_dump(mode="json")  # as a file has it: both, one of them 0
    assert make_experiment(merge(written, {"schedule": {above: 60}})).schedule == schedule
    assert make_experiment(merge(written, {"schedule": {"shape": "linear"}})).schedule.shape == "linear"


def test_it_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        small.experiment().seed = 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sed": 3}, "unknown setting 'sed'; did you mean 'seed'?"),
        ({"optimiser__learning_rat": 3}, "unknown setting of optimiser 'learning_rat'; did you mean 'learning_rate'?"),
        ({"benchmark": "digts"}, "did you mean 'digits'"),
        ({"benchmark_options": {"sourc": 1}}, "unknown option of digits-mini 'sourc'"),
        ({"method__name": "rndconv"}, "unknown method 'rndconv'; did you mean 'randconv'?"),
        ({"method__name": "randconv", "method__options": {"kernel": 3}}, "did you mean 'kernels'"),
        ({"method__name": "randconv", "method__options": {"mix": 3}}, "option mix of method randconv cannot be 3"),
        ({"method__name": "randconv", "method__options": {"identity": 2}}, "identity of method randconv is a prob"),
        ({"method__name": "randconv", "method__options": {"kernels": [2]}}, "kernels of method randconv must be odd"),
        ({"method__name": "randconv", "method__options": {"consistency": -1}}, "consistency of method randconv must"),
        ({"method__name": "randconv", "method__options": {"views": "three"}}, "views of method randconv must be"),
        ({"model__name": "digits_cn"}, "did you mean 'digits_cnn'"),
        ({"model__options": {"nrm": "batch"}}, "nrm"),
        ({"schedule": {"iterations": 3, "epochs": 3}}, "give schedule.iterations or schedule.epochs"),
        ({"schedule__iterations": 3, "schedule__epochs": 3}, "give schedule.iterations or schedule.epochs"),
        ({"schedule__iterations": 0}, "give schedule.iterations or schedule.epochs"),
        ({"schedule": {"batch": 3}}, "give schedule.iterations or schedule.epochs"),
        ({"schedule__shape": "cosin"}, "schedule.shape: input should be 'constant', 'cosine', 'linear' or 'step'"),
        ({"schedule__ema": 1.0}, "schedule.ema: input should be less than 1, not 1.0"),
        ({"optimiser__learning_rate": 0}, "optimiser.learning_rate: input should be greater than 0, not 0"),
        ({"optimiser__learning_rate": float("inf")}, "optimiser.learning_rate: input should be a finite number"),
        ({"run__selection": []}, "run.selection"),
        ({"data__augment": ["flop"]}, "data.augment: unknown transform 'flop'; did you mean 'flip'"),
        ({"model": {"options": {"a\nb": {}}}}, "model.options.a b"),
        ({"seed": "3" * 10_000}, "seed: input should be a valid integer"),
        ({"seed": -1}, "seed: input should be greater than or equal to 0, not -1"),
        ({"seed": "3"}, "seed: input should be a valid integer, not '3'"),
    ],
)
def test_mistakes_are_one_line(changes, words):
    with pytest.raises(UserError) as error:
        make_experiment(
            merge(
                {} if "schedule" in changes else small.BASE,
                override({key.replace("__", "."): value for key, value in changes.items()}),
            )
        )
    assert words in str(error.value)
    assert "\n" not in str(error.value)
