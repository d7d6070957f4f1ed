"""The presets that come with the package: every one can be run, and says of the paper what the paper says."""

import re
from functools import cache

import pytest

from xcnorm.data.catalogue import BENCHMARKS
from xcnorm.engine import list_presets, load_preset
from xcnorm.errors import UserError
from xcnorm.methods import list_methods

FULL = [name for name in list_presets() if name.startswith("paper/") and not name.endswith("_mini")]

DIGITS = ("svhn", "mnist_m", "syn", "usps", "average")
TABLE1 = {
    "ERM": (27.83, 52.72, 39.65, 76.94, 49.29),
    "CCSA": (25.89, 49.29, 37.31, 83.72, 49.05),
    "d-SNE": (26.22, 50.98, 37.83, 93.16, 52.05),
    "JiGen": (33.80, 57.80, 43.79, 77.15, 53.14),
    "ADA": (35.51, 60.41, 45.32, 77.26, 54.63),
    "M-ADA": (42.55, 67.94, 48.95, 78.53, 59.49),
    "ME-ADA": (42.56, 63.27, 50.39, 81.04, 59.32),
    "RandConv": (57.52, 87.76, 62.88, 83.36, 72.88),
    "L2D": (62.86, 87.30, 63.72, 83.97, 74.46),
    "MetaCNN": (66.50, 88.27, 70.66, 89.64, 78.77),
    "XCNorm": (59.92, 66.67, 67.33, 85.24, 69.79),
    "R-XCNorm": (65.42, 71.00, 71.25, 89.04, 74.18),
    "R-XCNorm + RandConv": (64.25, 83.22, 72.25, 88.89, 77.15),
}
TABLE2 = {
    "ERM": (67.28, 56.73, 30.02, 62.30, 54.08),
    "ADA": (72.67, 67.04, 39.97, 66.62, 61.58),
    "M-ADA": (75.54, 63.76, 54.21, 65.10, 64.65),
    "ME-ADA": (74.44, 71.37, 66.47, 70.83, 70.78),
    "RandConv": (74.90, 74.95, 55.71, 76.80, 70.59),
    "L2D": (75.98, 69.16, 73.29, 72.02, 72.61),
    "MetaCNN": (77.44, 76.80, 78.23, 81.26, 78.43),
    "XCNorm": (72.98, 73.76, 48.15, 77.52, 68.10),
    "R-XCNorm": (75.57, 75.72, 60.81, 77.61, 72.43),
    "R-XCNorm + RandConv": (76.99, 79.61, 63.95, 82.27, 75.70),
}
UNPRINTED = {  # not in the paper's table, but in those it took its rows from
    "CCSA": (67.66, 57.81, 28.73, 61.96, 54.04),
    "d-SNE": (67.90, 56.59, 33.97, 61.83, 55.07),
}
ELSEWHERE = {  # rows of Digits by other publications than the paper; some are known by their average alone
    "Pro-RandConv": dict(zip(DIGITS, (69.67, 82.30, 79.77, 93.67, 81.35), strict=True)),
    "AdvST": {"average": 80.1},
    "MCL": dict(zip(DIGITS, (69.94, 78.47, 78.34, 88.54, 78.82), strict=True)),
    "PDEN": dict(zip(DIGITS, (62.21, 82.20, 69.39, 85.26, 74.77), strict=True)),
}
TABLE3 = {
    "ERM": (30.0, 55.2, 39.4, 75.9, 50.1),
    "XCNorm": (59.9, 66.7, 67.3, 85.2, 69.8),
    "XCNorm + mask": (62.0, 67.4, 68.8, 87.9, 71.5),
    "R-XCNorm": (64.0, 69.1, 70.8, 87.3, 72.8),
    "R-XCNorm + mask": (65.4, 71.0, 71.3, 89.0, 74.2),
}
TABLES = {
    "paper/table1_digits": (DIGITS, TABLE1),
    "paper/table2_cifar10c": (("weather", "blur", "noise", "digital", "average"), TABLE2),
    "paper/table3_ablation": (DIGITS, TABLE3),
}
METHODS = [name for name in list_presets() if re.fullmatch(r"methods/.*_(digits|cifar10c)", name)]


@cache  # making a network takes a while, even one without memory
def one_seed(name):
    return load_preset(name).experiments({"seed": 0})


def paper_rows(preset):
    """Every number of the paper in a preset, by label; arms that are "as printed" stand for the row without that."""
    rows = [(arm.label, arm.paper) for arm in preset.arms if arm.paper]
    rows += [(row["label"], {key: value for key, value in row.items() if key != "label"}) for row in preset.published]
    return [(label.removesuffix(", as printed"), numbers) for label, numbers in rows]


def arm_settings(experiment):
    """What tells arms apart; networks, and how much methods do, differ between a preset and its mini twin."""
    method = experiment.method.name, experiment.method.augment, experiment.method.augment_options
    return experiment.label, experiment.model.layer, method, experiment.benchmark_options


@pytest.mark.parametrize("name", list_presets())
def test_every_arm_is_an_experiment_of_its_own(name):
    preset = load_preset(name)
    experiments = one_seed(name)
    assert [experiment.label for experiment in experiments] == [arm.label for arm in preset.arms]
    assert len({experiment.folder for experiment in experiments}) == len(preset.arms)


def test_every_table_and_figure_is_there():
    assert {name: load_preset(name).kind for name in FULL} == {
        "paper/table1_digits": "table",
        "paper/table2_cifar10c": "categories",
        "paper/table3_ablation": "table",
        "paper/fig1_norms": "severity",
        "paper/fig_camelyon17": "bars",
        "paper/fig_gradient_scaling": "convergence",
        "paper/fig_mrs": "mrs",
    }


def test_seeds_multiply_arms():
    preset = load_preset("paper/fig_mrs")
    pairs = [(experiment.label, experiment.seed) for experiment in preset.experiments()]
    assert pairs == [(label, seed) for label in ("ERM", "XCNorm", "R-XCNorm") for seed in (0, 1, 2)]


@pytest.mark.parametrize("name", FULL)
def test_a_mini_twin_has_the_same_arms_and_needs_no_download(name):
    twin = one_seed(f"{name}_mini")
    assert [arm_settings(experiment) for experiment in twin] == [
        arm_settings(experiment) for experiment in one_seed(name)
    ]
    assert load_preset(f"{name}_mini").kind == load_preset(name).kind
    (benchmark,) = {experiment.benchmark for experiment in twin}
    assert (BENCHMARKS[benchmark].parts, BENCHMARKS[benchmark].card.files) == ((), ())
    assert {experiment.run.selection for experiment in twin} == {("last",)}
    assert load_preset(f"{name}_mini").seeds == (0,)
    assert load_preset(f"{name}_mini").columns == ()


@pytest.mark.parametrize("name", [name for name in list_presets() if name not in TABLES and name not in METHODS])
def test_numbers_of_the_paper_stand_only_where_the_data_is_the_papers(name):
    assert paper_rows(load_preset(name)) == []


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_numbers_are_the_papers(name):
    columns, table = TABLES[name]
    preset = load_preset(name)
    rows = paper_rows(preset)
    for label, numbers in rows:
        assert (label, numbers) == (label, dict(zip(columns, table[label], strict=True)))
    assert {label for label, _ in rows} == set(table)
    assert [label for label in dict(rows) if label in table] == list(table)  # in the paper's order
    published = [row["label"] for row in preset.published]
    assert published == [label for label in table if label in published]
    assert preset.kind == "categories" or preset.columns == columns[:-1]


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_preset_has_one_arm_and_the_tables_numbers(name):
    (arm,) = load_preset(name).arms
    columns, table = TABLES["paper/table1_digits" if name.endswith("_digits") else "paper/table2_cifar10c"]
    if arm.label not in TABLE1:
        assert arm.paper == (ELSEWHERE.get(arm.label, {}) if name.endswith("_digits") else {})
        return
    expected = {**table, **UNPRINTED}.get(arm.label, ()) if name.endswith("cifar10c") else table[arm.label]
    assert arm.paper == dict(zip(columns, expected, strict=bool(expected)))


def test_every_method_has_its_presets():
    wanted = {f"methods/{method}_{kind}" for method in list_methods() for kind in ("digits", "cifar10c", "mini")}
    assert wanted == {name for name in list_presets() if name.startswith("methods/")}
    for name in wanted:
        (experiment,) = one_seed(name)
        assert name.startswith(f"methods/{experiment.method.name}_")
        assert name.endswith("_mini") == (experiment.benchmark == "digits-mini")


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_averages_are_plain_means(name):
    tolerance = 0.03 if name == "paper/table3_ablation" else 0.02  # the ablation is printed with one decimal
    for label, numbers in paper_rows(load_preset(name)):
        values = [value for column, value in numbers.items() if column != "average"]
        assert sum(values) / 4 == pytest.approx(numbers["average"], abs=tolerance), label


def test_table_1_has_both_readings_of_the_operator_and_a_control():
    options = {e.label: (e.model.layer, e.model.options) for e in one_seed("paper/table1_digits")}
    assert options["XCNorm"] == ("xcnorm", {})
    assert options["R-XCNorm"] == ("r_xcnorm", {"mask": True})  # as the paper's row has it, says its ablation
    assert options["XCNorm, as printed"] == ("xcnorm", {"preset": "paper"})
    assert options["R-XCNorm, as printed"] == ("r_xcnorm", {"preset": "paper"})
    control = options["Control: plain convolution, instance norm, abs first"]
    assert control == ("conv", {"norm": "instance", "rectify_first": "abs"})


def test_randconv_is_set_as_published():
    published = {
        "paper/table1_digits": {"kernels": [1, 3, 5, 7], "mix": True, "identity": 0.0, "consistency": 10.0},
        "paper/table2_cifar10c": {"kernels": [1, 3, 5], "mix": False, "identity": 0.5, "consistency": 5.0},
        "paper/fig_camelyon17": {"kernels": [1, 3, 5, 7], "mix": False, "identity": 0.5, "consistency": 5.0},
    }
    for name, options in published.items():
        methods = {experiment.label: experiment.method for experiment in one_seed(name)}
        assert (methods["RandConv"].name, methods["RandConv"].options) == ("randconv", options)
        ours = methods["R-XCNorm + RandConv"]
        assert (ours.name, ours.augment, ours.augment_options) == ("erm", "randconv", options)


def test_gradient_scaling_is_compared_with_and_without_the_norm_that_cancels_it():
    experiments = one_seed("paper/fig_gradient_scaling")
    pairs = [(e.model.options.get("gain", "before_norm"), e.model.options.get("norm", "instance")) for e in experiments]
    assert pairs == [("before_norm", "instance"), ("none", "instance"), ("before_norm", "none"), ("none", "none")]
    assert {experiment.optimiser.name for experiment in experiments} == {"sgd"}


def test_every_hospital_is_the_source_of_every_arm_of_camelyon17():
    pairs = [(e.label, e.benchmark_options["source"]) for e in one_seed("paper/fig_camelyon17")]
    labels = ("ERM", "RandConv", "XCNorm", "R-XCNorm", "R-XCNorm + RandConv")
    assert pairs == [(label, source) for label in labels for source in range(5)]


def test_figures_share_the_runs_of_tables():
    folders = {name: {experiment.folder for experiment in one_seed(name)} for name in FULL}
    assert folders["paper/fig_mrs"] < folders["paper/table2_cifar10c"]
    assert len(folders["paper/fig1_norms"] & folders["paper/table2_cifar10c"]) == 3  # ERM, XCNorm, R-XCNorm
    # XCNorm and R-XCNorm with the mask; ERM is by another recipe here and there.
    assert len(folders["paper/table3_ablation"] & folders["paper/table1_digits"]) == 2


GOOD = """
title = "Mine"
recipe = "mini"

[base]
benchmark = "digits-mini"

[[arms]]
label = "short"
[arms.set]
"schedule.iterations" = 5
"model.layer" = "xcnorm"
"""


def test_a_preset_of_ones_own_puts_arm_over_base_over_recipe(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    preset = load_preset(path)
    assert (preset.name, preset.title, preset.kind, preset.seeds) == ("mine", "Mine", "table", (0,))
    (experiment,) = preset.experiments()
    assert (experiment.schedule.iterations, experiment.schedule.batch) == (5, 32)
    assert (experiment.model.name, experiment.model.layer, experiment.label) == ("digits_cnn", "xcnorm", "short")
    (changed,) = preset.experiments({"seed": 7, "schedule": {"iterations": 3}})
    assert (changed.schedule.iterations, changed.seed) == (3, 7)


def test_an_arm_may_be_that_of_another_preset(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'title = "Mine"\nrecipe = "fast"\n[base]\nbenchmark = "digits"\n'
        '[[arms]]\npreset = "methods/randconv_mini"\n'
        '[[arms]]\npreset = "methods/randconv_mini"\nlabel = "long"\nset = { "schedule.iterations" = 70 }\n'
    )
    ours, long = load_preset(path).experiments()
    (theirs,) = load_preset("methods/randconv_mini").experiments()
    assert ours == theirs  # nothing of the recipe and the base here
    assert (long.label, long.schedule.iterations, long.method) == ("long", 70, theirs.method)


def test_a_method_without_a_benchmark_is_the_one_of_the_presets_own(tmp_path):
    path = tmp_path / "mine.toml"
    text = 'title = "Mine"\n[base]\nbenchmark = "digits-mini"\n[[arms]]\npreset = "methods/randconv"\n'
    path.write_text(text)
    assert load_preset(path).experiments() == load_preset("methods/randconv_mini").experiments()
    path.write_text(text.replace("digits-mini", "cifar10c"))
    assert load_preset(path).experiments() == load_preset("methods/randconv_cifar10c").experiments({"seed": 0})
    path.write_text(text.replace("digits-mini", "cifar10c-mini"))
    (ours,) = load_preset(path).experiments()
    (theirs,) = load_preset("methods/randconv_mini").experiments()
    assert (ours.benchmark, ours.method) == ("cifar10c-mini", theirs.method)
    path.write_text(text.replace("digits-mini", "breakhis"))
    with pytest.raises(UserError, match="unknown preset 'methods/randconv_breakhis'; did you mean 'methods/randconv"):
        load_preset(path)


def test_across_repeats_every_arm(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + '[across]\n"schedule.batch" = [8, 16]\n"model.options.mask" = [false, true]\n')
    found = [(e.label, e.schedule.batch, e.model.options["mask"]) for e in load_preset(path).experiments()]
    assert found == [("short", 8, False), ("short", 8, True), ("short", 16, False), ("short", 16, True)]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('recipe = "mini"', 'recipie = "mini"', "unknown key 'recipie'; did you mean 'recipe'"),
        ('recipe = "mini"', 'recipe = "mni"', "unknown recipe 'mni'; did you mean 'mini'"),
        ('recipe = "mini"', 'kind = "tabel"', "unknown kind 'tabel'; did you mean 'table'"),
        ('title = "Mine"', "", "title is missing"),
        ('title = "Mine"', "title = ", "not valid TOML"),
        ('"schedule.iterations"', '"schedule.iteratons"', "'iteratons'; did you mean 'iterations'"),
        ('"model.layer"', '"modle.layer"', "'modle'; did you mean 'model'"),
        ('"xcnorm"', '"xcnrom"', "unknown layer 'xcnrom'; did you mean 'xcnorm'"),
        ('"digits-mini"', '"digits-mni"', "digits-mni"),
    ],
)
def test_a_mistake_in_a_preset_is_explained_in_one_line(tmp_path, old, new, complaint):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        load_preset(path).experiments()
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_preset_that_is_not_there():
    with pytest.raises(UserError, match="unknown preset 'paper/table1_digit'; did you mean 'paper/table1_digits'"):
        load_preset("paper/table1_digit")
    with pytest.raises(UserError, match=r"cannot read the preset nowhere\.toml"):
        load_preset("nowhere.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seeds = 3", "seeds must be a list"),
        ("seeds = []", "seeds must be a list"),
        ("base = 1", "base must be a table"),
        ("across = [1]", "across must be a table of settings with a list of values for each"),
        ("across = {seed = 1}", "across must be a table of settings with a list of values for each"),
        ('mini = {title = "t"}', "unknown key 'mini'"),
        ("arms = [1]", "arms must be tables"),
        ("arms = 3", "arms must be tables"),
        ("arms = [{}]", "one of the arms has no label"),
        ('arms = [{label = "a", sett = {}}]', "did you mean 'set'"),
        ('arms = [{label = "a", paper = {svhn = "x"}}]', "svhn of 'a' must be a number"),
        ("published = [{svhn = 1}]", "one of the published has no label"),
        ('published = [{preset = "methods/erm_mini"}]', "one of the published has no label"),
        ('arms = [{preset = "methods/erm_mni"}]', "unknown preset of an arm 'methods/erm_mni'; did you mean"),
        ('arms = [{preset = "paper/fig_mrs"}]', "unknown preset of an arm 'paper/fig_mrs'"),
        ('arms = [{label = "a", preset = 3}]', "unknown preset of an arm '3'"),
        ('arms = [{label = "a", set = 3}]', "set of 'a' must be a table"),
        ('arms = [{label = "a", paper = 3}]', "paper of 'a' must be a table"),
        ("title = [3]", "title must be a text, not [3]"),
        ("recipe = 3", "recipe must be a text, not 3"),
        ("columns = [1]", "columns must be a list of names, not [1]"),
        ("base = {benchmark = [1]}", "base.benchmark must be a name, not [1]"),
        (f"across = {{{', '.join(f'a{n} = [1, 2]' for n in range(40))}}}", "experiments are more than 100000"),
        (f"across = {'[' * 3000}", "is not valid TOML"),
        (f"seeds = [{'1' * 5000}]", "is not valid TOML"),
    ],
)
def test_mistakes_in_a_preset_are_one_line(tmp_path, text, words):
    values = {"title": 'title = "t"', "base": "base = {seed = 1}", "arms": 'arms = [{label = "a"}]'}
    values |= {text.split()[0]: text}
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(values.values()))
    with pytest.raises(UserError, match=re.escape(words)):
        load_preset(path)


def test_a_preset_may_have_the_arms_of_another(tmp_path):
    path = tmp_path / "mine.toml"
    head = 'title = "Mine"\narms_of = "{}"\n[base]\nbenchmark = "digits-mini"\n'
    path.write_text(head.format("study/where_digits"))
    assert [arm.label for arm in load_preset(path).arms] == [
        arm.label for arm in load_preset("study/where_digits").arms
    ]
    path.write_text(head.format("study/where_digit"))
    with pytest.raises(
        UserError, match="unknown preset in arms_of 'study/where_digit'; did you mean 'study/where_digits"
    ):
        load_preset(path)
