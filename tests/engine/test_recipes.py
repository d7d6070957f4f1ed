"""The recipes that come with the package: what each trains with, and for which benchmarks."""

import pytest

from xcnorm.data import card, list_benchmarks
from xcnorm.data.catalogue import BENCHMARKS, CatalogueEntry
from xcnorm.engine import list_recipes, load_recipe, make_experiment
from xcnorm.errors import UserError


def test_the_recipe_paper_is_that_of_the_literature():
    def of(benchmark):
        return make_experiment({"benchmark": benchmark} | load_recipe("paper", benchmark))

    digits, cifar, camelyon = of("digits"), of("cifar10c"), of("camelyon17")
    assert [e.model.name for e in (digits, cifar, camelyon)] == ["digits_cnn", "wrn16_4", "densenet121"]
    assert [e.optimiser.name for e in (digits, cifar, camelyon)] == ["adam", "sgd", "sgd"]
    assert [e.optimiser.learning_rate for e in (digits, cifar, camelyon)] == [1e-4, 0.1, 1e-3]
    assert [e.optimiser.weight_decay for e in (digits, cifar, camelyon)] == [0, 5e-4, 0.01]
    assert [(e.optimiser.momentum, e.optimiser.nesterov) for e in (cifar, camelyon)] == [(0.9, True), (0.9, False)]
    assert [e.schedule.batch for e in (digits, cifar, camelyon)] == [32, 128, 32]
    assert [e.schedule.shape for e in (digits, cifar, camelyon)] == ["constant", "cosine", "constant"]
    assert {e.schedule.warmup for e in (digits, cifar, camelyon)} == {0}
    assert digits.schedule.steps(10_000) == 10_000
    assert cifar.schedule.steps(50_000) == 200 * (50_000 // 128)
    assert camelyon.schedule.steps(32_000) == 10_000
    assert [e.data.augment for e in (digits, cifar, camelyon)] == [(), ("flip", "crop"), ()]
    assert [e.data.mean for e in (digits, cifar, camelyon)] == [0.5, 0.5, [0.485, 0.456, 0.406]]
    assert [e.data.std for e in (digits, cifar, camelyon)] == [0.5, 0.5, [0.229, 0.224, 0.225]]


def test_the_recipe_fast_is_the_one_that_was_measured():
    digits = make_experiment({"benchmark": "digits"} | load_recipe("fast", "digits"))
    assert digits.optimiser.model_dump(include={"name", "learning_rate", "weight_decay"}) == {
        "name": "adamw",
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
    }
    assert digits.schedule.model_dump(include={"iterations", "batch", "warmup", "shape"}) == {
        "iterations": 2500,
        "batch": 128,
        "warmup": 0.05,
        "shape": "cosine",
    }
    assert (digits.data.mean, digits.data.std, digits.data.augment) == (0.5, 0.5, ())


@pytest.mark.parametrize("benchmark", list_benchmarks())
def test_the_recipe_fast_is_for_every_benchmark(benchmark):
    experiment = make_experiment({"benchmark": benchmark} | load_recipe("fast", benchmark))
    assert experiment.optimiser.name == ("sgd" if benchmark == "cifar10c" else "adamw")


def test_cifar_fast_is_the_papers_recipe_in_forty_epochs():
    fast, short, full = (
        make_experiment({"benchmark": "cifar10c"} | load_recipe(recipe, "cifar10c"))
        for recipe in ("fast", "cifar_fast", "paper")
    )
    assert (short.schedule.epochs, full.schedule.epochs) == (40, 200)
    assert short.model_copy(update={"schedule": full.schedule}) == full
    assert short == fast


@pytest.mark.parametrize("benchmark", ["digits", "digits-mini", "cifar10c", "cifar10c-mini"])
def test_the_recipe_finetune_is_a_quarter_of_fast_at_a_smaller_rate(benchmark):
    full, short = (
        make_experiment({"benchmark": benchmark} | load_recipe(recipe, benchmark)) for recipe in ("fast", "finetune")
    )
    assert 4 * short.schedule.steps(4096) <= full.schedule.steps(4096)
    assert short.optimiser.learning_rate < full.optimiser.learning_rate
    assert (short.model, short.data) == (full.model, full.data)


@pytest.mark.parametrize("benchmark", ["digits-mini", "cifar10c-mini", "camelyon17-mini"])
def test_the_recipe_mini_is_short(benchmark):
    experiment = make_experiment({"benchmark": benchmark} | load_recipe("mini", benchmark))
    assert 0 < experiment.schedule.iterations * experiment.schedule.batch <= 2000


def test_a_recipe_says_what_it_is_for():
    assert list_recipes() == ("cifar_fast", "fast", "finetune", "mini", "paper")
    with pytest.raises(UserError, match=r"recipe 'mini' is for digits-mini, .*, not for digits; choose another"):
        load_recipe("mini", "digits")
    with pytest.raises(UserError, match="recipe 'cifar_fast' is for cifar10c, not for digits"):
        load_recipe("cifar_fast", "digits")
    with pytest.raises(UserError, match="unknown recipe 'papre'; did you mean 'paper'"):
        load_recipe("papre", "digits")


def test_the_recipe_fast_has_something_for_a_benchmark_that_nobody_has_heard_of(monkeypatch):
    monkeypatch.setitem(BENCHMARKS._items, "a-plugins-own", CatalogueEntry(card("folder"), lambda root: None))
    recipe = load_recipe("fast", "a-plugins-own")
    assert recipe["model"] == {"name": "resnet18"}
    assert recipe["schedule"] == {"epochs": 30, "batch": 32, "warmup": 0.05, "shape": "cosine"}
    assert recipe["optimiser"]["name"] == "adamw"
    assert "for" not in recipe
    with pytest.raises(UserError, match="recipe 'paper' is for digits, cifar10c, camelyon17, not for a-plugins-own"):
        load_recipe("paper", "a-plugins-own")


def test_a_benchmark_may_bring_what_the_recipe_fast_has_for_it(monkeypatch):
    own = {"model": {"name": "allconv"}, "schedule": {"epochs": 7}}
    entry = CatalogueEntry(card("folder"), lambda root: None, recipe=own)
    monkeypatch.setitem(BENCHMARKS._items, "a-plugins-own", entry)
    recipe = load_recipe("fast", "a-plugins-own")
    assert recipe["model"] == own["model"]
    assert recipe["schedule"] == {"epochs": 7, "batch": 128, "warmup": 0.05, "shape": "cosine"}


@pytest.mark.parametrize("recipe", ["fast", "mini", "paper"])
def test_there_is_no_recipe_for_a_benchmark_that_is_not_there(recipe):
    with pytest.raises(UserError, match="unknown benchmark 'digts'; did you mean 'digits'"):
        load_recipe(recipe, "digts")


def test_a_small_twin_is_trained_like_its_family_unless_it_has_a_table_of_its_own():
    assert load_recipe("paper", "digits-mini") == load_recipe("paper", "digits")
    assert load_recipe("fast", "digits-mini") != load_recipe("fast", "digits")
