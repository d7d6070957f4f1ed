"""Presets: files that name the experiments behind a table or figure.

Two kinds of those that come with the package are derived from others: ``methods/ada_digits`` is the arm in the file
``methods/ada`` on one of the benchmarks in ``methods/_families``, and ``paper/table1_digits_mini`` is the twin of
``paper/table1_digits`` on small data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from xcnorm.engine import shipped
from xcnorm.engine.experiment import Experiment, make_experiment, merge, override
from xcnorm.engine.recipes import load_recipe
from xcnorm.engine.toml import parse_toml
from xcnorm.errors import UserError, unknown_name

KINDS = ("table", "categories", "severity", "mrs", "bars", "convergence")
_KEYS = ("title", "kind", "recipe", "seeds", "columns", "means", "base", "across", "arms", "arms_of", "published")
_TWINS = ("beyond", "paper")  # folders whose presets have twins on small data
_FOLDERS = (*_TWINS, "best", "study")
_MOST = 100_000  # experiments of one preset; a page of settings could ask for more than there are atoms
_ARM_KEYS = ("label", "preset", "set", "paper")


@dataclass(frozen=True)
class PresetArm:
    """A row of a table or a curve of a figure, before it is run.

    Attributes:
        label: Its name.
        values: Its experiments, but for the seed.
        paper: What the paper reports, in percent, by column.
    """

    label: str
    values: Mapping[str, Any]
    paper: Mapping[str, float]


@dataclass(frozen=True)
class Preset:
    """The experiments behind a table or figure.

    Attributes:
        name: What it is called.
        title: Its heading.
        kind: How a report draws it; one of `KINDS`.
        seeds: The seeds of every arm.
        columns: The targets of a table, in order; empty for all.
        means: What a table shows besides the average: by its name, over which targets a mean is taken.
        arms: The rows or curves.
        published: Rows of the paper that have no arm.
    """

    name: str
    title: str
    kind: str
    seeds: tuple[int, ...]
    columns: tuple[str, ...]
    means: Mapping[str, tuple[str, ...]]
    arms: tuple[PresetArm, ...]
    published: tuple[Mapping[str, Any], ...]

    def experiments(self, changes: Mapping[str, Any] | None = None) -> list[Experiment]:
        """Every experiment: each arm with each seed.

        Args:
            changes: Nested values on top of all of them; ``seed`` among them stands for all seeds.
        """
        changes = changes or {}
        seeds = (changes["seed"],) if "seed" in changes else self.seeds
        return [
            make_experiment(merge({"label": arm.label}, arm.values, changes, {"seed": seed}))
            for arm in self.arms
            for seed in seeds
        ]


@cache
def list_presets() -> tuple[str, ...]:
    """The names of the presets that come with the package."""
    twins = [f"{folder}/{name}{mini}" for folder in _TWINS for name in shipped.names(folder) for mini in ("", "_mini")]
    others = [f"{folder}/{name}" for folder in _FOLDERS if folder not in _TWINS for name in shipped.names(folder)]
    return (*shipped.names("."), *sorted(_methods()), *sorted(twins), *others)


@cache
def _methods() -> dict[str, tuple[str, str]]:
    """The presets of methods by name: the file, and the family of benchmarks."""
    families = shipped.read("methods/_families")
    files = [f"methods/{name}" for name in shipped.names("methods")]
    return {f"{file}_{family}": (file, family) for file in files for family in families}


def load_preset(name: str | Path) -> Preset:
    """Load a preset by its name, such as ``"paper/table1_digits"``, or from a file of one's own.

    Raises:
        UserError: There is no such preset, or something in it is wrong.
    """
    name = str(name)
    if name in list_presets():
        return _preset(name, _shipped(name))
    if Path(name).suffix != ".toml":
        raise UserError(unknown_name("preset", name, list_presets()))
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the preset {name}: {getattr(error, 'strerror', None) or error}") from error
    values = _with_arms(parse_toml(text, name))
    _check(values, name)
    return _preset(Path(name).stem, values)


def _shipped(name: str) -> dict[str, Any]:
    """The values of a preset of the package."""
    if name in _methods():
        return _of_method(*_methods()[name])
    values = _with_arms(shipped.read(name.removesuffix("_mini")))
    mini = values.pop("mini", {})
    return _twin(values, mini) if name.endswith("_mini") else values


def _with_arms(values: dict[str, Any]) -> dict[str, Any]:
    """With the arms of the preset that ``arms_of`` names, where it does: the same rows on other data."""
    if "arms_of" not in values:
        return values
    other = values.pop("arms_of")
    if other not in (known := [f"{folder}/{name}" for folder in _FOLDERS for name in shipped.names(folder)]):
        raise UserError(unknown_name("preset in arms_of", str(other), known))
    return {"arms": _with_arms(shipped.read(other))["arms"], **values}


def _of_method(name: str, family: str) -> dict[str, Any]:
    """A method by itself on the benchmark of a family: its file is an arm, with what is different there."""
    arm, values = shipped.read(name), shipped.read("methods/_families")[family]
    arm = merge(arm, arm.pop("for").get(family, {}))
    return {**values, "title": f"{arm['label']} {values['title']}", "arms": [arm]}


def _twin(values: Mapping[str, Any], mini: Mapping[str, Any]) -> dict[str, Any]:
    """The same arms on small data, by the recipe "mini", with one seed, and with none of the paper's numbers.

    Args:
        values: The preset.
        mini: Its table ``mini``: another title and, where an arm needs it, what is set there, by its label.
    """
    arms = []
    for arm in values["arms"]:
        own = merge(arm.get("set", {}), mini.get("set", {}).get(arm.get("label"), {}))
        arms.append({**arm, "set": own, "paper": {}})
    base = merge(values["base"], {"benchmark": f"{values['base']['benchmark']}-mini"})
    small = {"recipe": "mini", "seeds": [0], "columns": [], "means": {}, "base": base, "arms": arms}
    return {**values, "title": mini["title"], **small}


def _preset(name: str, values: Mapping[str, Any]) -> Preset:
    base = {"benchmark": Experiment().benchmark, **values["base"]}
    if "recipe" in values:
        base = merge(load_recipe(values["recipe"], base["benchmark"]), base)
    across = values.get("across", {})
    each = [override(dict(zip(across, choice, strict=True))) for choice in product(*across.values())]
    arms = [_arm(arm, base) for arm in values["arms"]]
    return Preset(
        name=name,
        title=values["title"],
        kind=values.get("kind", "table"),
        seeds=tuple(values.get("seeds", (0,))),
        columns=tuple(values.get("columns", ())),
        means={name: tuple(targets) for name, targets in values.get("means", {}).items()},
        arms=tuple(PresetArm(arm.label, merge(arm.values, choice), arm.paper) for arm in arms for choice in each),
        published=tuple(values.get("published", ())),
    )


def _arm(values: Mapping[str, Any], base: Mapping[str, Any]) -> PresetArm:
    """What an arm sets, over what all arms share; or over the arm of a method's preset, in place of both."""
    own = override(values.get("set", {}))
    if "preset" not in values:
        return PresetArm(values["label"], merge(base, own), values.get("paper", {}))
    name, benchmark = values["preset"], base["benchmark"]
    if name not in _methods():  # it is without a benchmark, and gets this one
        name += "_mini" if benchmark.endswith("-mini") else f"_{benchmark}"
        own = merge({"benchmark": benchmark}, own)
    (other,) = load_preset(name).arms
    return PresetArm(values.get("label", other.label), merge(other.values, own), values.get("paper", other.paper))


def _check(values: Mapping[str, Any], name: str) -> None:
    """Explain in one line what is wrong with a preset of the user's own, if anything is.

    Raises:
        UserError: Something is.
    """

    def expect(truth: bool, complaint: str) -> None:
        if not truth:
            raise UserError(f"preset {name}: {complaint}")

    for key in values:
        expect(key in _KEYS, unknown_name("key", key, _KEYS))
    for key in ("title", "arms", "base"):
        expect(bool(values.get(key)), f"{key} is missing")
    kind, seeds, across = values.get("kind", "table"), values.get("seeds", [0]), values.get("across", {})
    expect(kind in KINDS, unknown_name("kind", kind, KINDS))
    numbers = isinstance(seeds, list) and seeds and all(type(seed) is int for seed in seeds)
    expect(bool(numbers), f"seeds must be a list of numbers such as [0, 1, 2], not {seeds!r}")
    expect(isinstance(values["base"], dict), "base must be a table of settings")
    lists = isinstance(across, dict) and all(isinstance(choices, list) for choices in across.values())
    expect(lists, f"across must be a table of settings with a list of values for each, not {across!r}")
    means = values.get("means", {})
    lists = isinstance(means, dict) and all(
        isinstance(targets, list) and targets and all(isinstance(target, str) for target in targets)
        for targets in means.values()
    )
    expect(lists, f"means must be a table of names with a list of targets for each, not {means!r}")
    for key, text in (("title", values["title"]), ("recipe", values.get("recipe", ""))):
        expect(isinstance(text, str), f"{key} must be a text, not {text!r}")
    benchmark = values["base"].get("benchmark", "")
    expect(isinstance(benchmark, str), f"base.benchmark must be a name, not {benchmark!r}")
    columns = values.get("columns", [])
    texts = isinstance(columns, list) and all(isinstance(column, str) for column in columns)
    expect(texts, f"columns must be a list of names, not {columns!r}")
    for key in ("arms", "published"):
        rows = values.get(key, [])
        tables = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
        expect(tables, f"{key} must be tables, each under [[{key}]]")
        for row in rows:
            label = row.get("label", row.get("preset") if key == "arms" else None)
            expect(isinstance(label, str), f"one of the {key} has no label")
            if key == "arms":
                # Of methods, whose arms are their own, so that nothing goes in circles.
                other, known = (
                    str(row.get("preset", "none")),
                    ("none", *_methods(), *(file for file, _ in _methods().values())),
                )
                expect(other in known, unknown_name("preset of an arm", other, known[1:]))
                for inner in ("set", "paper"):
                    expect(isinstance(row.get(inner, {}), dict), f"{inner} of {label!r} must be a table")
                for inner in row:
                    expect(inner in _ARM_KEYS, unknown_name("key of an arm", inner, _ARM_KEYS))
            for column, value in (row if key == "published" else row.get("paper", {})).items():
                number = column == "label" or type(value) in (int, float)
                expect(number, f"{column} of {label!r} must be a number, not {value!r}")
    count = len(seeds) * len(values["arms"]) * math.prod(map(len, across.values()))
    expect(count <= _MOST, f"{count} experiments are more than {_MOST}; give across fewer values")
