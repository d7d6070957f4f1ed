"""The probe: views of held-out images, to choose by."""

import json
from statistics import fmean

import pytest
import torch

from tests.engine import small
from xcnorm.engine import run_experiment
from xcnorm.engine.probe import probe
from xcnorm.errors import UserError
from xcnorm.methods import Augmentation, find_method, list_methods
from xcnorm.report import build, find_runs

ALONE = torch.device("cpu")
VIEWS = ["randconv", "affine"]
AUGMENTATIONS = [name for name in list_methods() if issubclass(find_method(name), Augmentation)]


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_views_are_of_the_same_images_and_the_same_whenever_asked(name):
    validation = small.domain("validation", 40, 16)
    (first, again) = (probe(validation, [name], ALONE)[name] for _ in range(2))
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.labels, validation.labels)
    assert first.images.dtype == torch.uint8
    assert first.images.shape == (40, 3, 16, 16)
    changed = (first.images != validation.images.expand(-1, 3, -1, -1)).flatten(1).any(1)
    assert changed.float().mean() > 0.5


def test_a_run_is_scored_on_it_and_may_choose_by_it(tmp_path):
    changes = {"run__probe": VIEWS, "run__selection": ["last", "best_on_probe"], "run__evaluate_every": 2}
    folder = run_experiment(small.experiment(benchmark="digits-mini", **changes), tmp_path, small.ALONE)
    chosen = json.loads((folder.path / "metrics.json").read_text())["selection"]
    assert list(chosen["best_on_probe"]["probe"]) == VIEWS
    means = {rule: fmean(s["accuracy"] for s in tested["probe"].values()) for rule, tested in chosen.items()}
    assert means["best_on_probe"] >= means["last"]
    scores = build(find_runs(tmp_path), selection="best_on_probe").tables[1]
    assert scores.columns[-1].name == "source, probed"
    assert scores.rows[0].cells[-1].value == pytest.approx(100 * means["best_on_probe"])


def test_without_one_an_experiment_is_what_it_was():
    assert "probe" not in small.experiment().to_toml()
    assert small.experiment(run__probe=[]).hash == small.experiment().hash
    assert small.experiment(run__probe=VIEWS).hash != small.experiment().hash


def test_what_training_uses_is_no_probe():
    experiment = small.experiment(method__augment="affine", run__probe=VIEWS)
    with pytest.raises(UserError, match=r"run\.probe has 'affine', which training uses"):
        small.trainer(experiment)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run__probe": ["randcon"]}, "unknown augmentation 'randcon'; did you mean 'randconv'"),
        ({"run__selection": ["best_on_probe"]}, "'best_on_probe' needs augmentations in run.probe"),
    ],
)
def test_bad_settings_are_one_line(changes, words):
    with pytest.raises(UserError, match=words):
        small.experiment(**changes)
