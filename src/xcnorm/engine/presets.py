"""Presets: files that name the experiments behind a table or figure, and recipes that they are trained by."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from xcnorm.engine.experiment import Experiment, make_experiment, merge, override
from xcnorm.errors import UserError, unknown_name

KINDS = ("table", "categories", "severity", "mrs", "bars", "convergence")
_SHIPPED = files("xcnorm") / "presets"
_KEYS = ("title", "kind", "recipe", "seeds", "columns", "base", "arms", "published")


@dataclass(frozen=True)
class Arm:
    """A row of a table or a curve of a figure.

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
        arms: The rows or curves.
        published: Rows of the paper that have no arm.
    """

    name: str
    title: str
    kind: str
    seeds: tuple[int, ...]
    columns: tuple[str, ...]
    arms: tuple[Arm, ...]
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


def list_presets() -> tuple[str, ...]:
    """The names of the presets that come with the package."""
    return (*_names("."), *_names("methods"), *_names("paper"))


def list_recipes() -> tuple[str, ...]:
    """The names of the recipes that come with the package."""
    return tuple(name.removeprefix("recipes/") for name in _names("recipes"))


def load_preset(name: str | Path) -> Preset:
    """Load a preset by its name, such as ``"paper/table1_digits"``, or from a file of one's own.

    Raises:
        UserError: There is no such preset, or something in it is wrong.
    """
    if str(name) in list_presets():
        text = (_SHIPPED / f"{name}.toml").read_text(encoding="utf-8")
    elif Path(name).suffix == ".toml":
        text = _read(Path(name))
    else:
        raise UserError(unknown_name("preset", str(name), list_presets()))
    values = _parse(text, str(name))
    for key in values:
        if key not in _KEYS:
            raise UserError(f"preset {name}: {unknown_name('key', key, _KEYS)}")
    for key in ("title", "arms", "base"):
        if not values.get(key):
            raise UserError(f"preset {name}: {key} is missing")
    kind = values.get("kind", "table")
    if kind not in KINDS:
        raise UserError(f"preset {name}: {unknown_name('kind', kind, KINDS)}")
    _check_arms(values, str(name))
    base = values["base"]
    if "recipe" in values:
        base = merge(load_recipe(values["recipe"], base.get("benchmark", Experiment().benchmark)), base)
    return Preset(
        name=Path(name).stem if Path(name).suffix == ".toml" else str(name),
        title=values["title"],
        kind=kind,
        seeds=tuple(values.get("seeds", (0,))),
        columns=tuple(values.get("columns", ())),
        arms=tuple(_arm(arm, base) for arm in values["arms"]),
        published=tuple(values.get("published", ())),
    )


def _arm(values: Mapping[str, Any], base: Mapping[str, Any]) -> Arm:
    """What an arm sets, over what all arms share; or over the arm of another preset, in place of both."""
    own = override(values.get("set", {}))
    if "preset" not in values:
        return Arm(values["label"], merge(base, own), values.get("paper", {}))
    (other,) = load_preset(values["preset"]).arms
    return Arm(values.get("label", other.label), merge(other.values, own), values.get("paper", other.paper))


def _check_arms(values: Mapping[str, Any], name: str) -> None:
    seeds, lent = values.get("seeds", [0]), _names("methods")
    if not isinstance(seeds, list) or not seeds or any(type(seed) is not int for seed in seeds):
        raise UserError(f"preset {name}: seeds must be a list of numbers such as [0, 1, 2], not {seeds!r}")
    if not isinstance(values["base"], dict):
        raise UserError(f"preset {name}: base must be a table of settings")
    for key, known in (("arms", ("label", "preset", "set", "paper")), ("published", None)):
        rows = values.get(key, [])
        if not isinstance(rows, list) or any(not isinstance(row, dict) for row in rows):
            raise UserError(f"preset {name}: {key} must be tables, each under [[{key}]]")
        for row in rows:
            label = row.get("label", row.get("preset") if key == "arms" else None)
            if not isinstance(label, str):
                raise UserError(f"preset {name}: one of the {key} has no label")
            if not isinstance(row.get("set", {}), dict):
                raise UserError(f"preset {name}: set of {label!r} must be a table of settings")
            # Of the package, whose arms are its own, so that nothing goes in circles.
            if key == "arms" and str(row.get("preset", lent[0])) not in lent:
                raise UserError(f"preset {name}: {unknown_name('preset of an arm', str(row['preset']), lent)}")
            for inner in row:
                if known is not None and inner not in known:
                    raise UserError(f"preset {name}: {unknown_name('key of an arm', inner, known)}")
            numbers = row if key == "published" else row.get("paper", {})
            for column, value in numbers.items():
                if column != "label" and type(value) not in (int, float):
                    raise UserError(f"preset {name}: {column} of {label!r} must be a number, not {value!r}")


def load_recipe(name: str, benchmark: str) -> dict[str, Any]:
    """The values of a recipe for a benchmark.

    A recipe is a file of an experiment's values. Its table ``for`` may hold values for families of benchmarks, such as
    ``for.digits``, which then also holds for ``digits-mini`` unless that has a table of its own.

    Raises:
        UserError: There is no such recipe, or it has nothing for this benchmark.
    """
    if name not in list_recipes():
        raise UserError(unknown_name("recipe", name, list_recipes()))
    values = _parse((_SHIPPED / "recipes" / f"{name}.toml").read_text(encoding="utf-8"), name)
    families = values.pop("for", {})
    own = families.get(benchmark, families.get(benchmark.removesuffix("-mini")))
    if families and own is None:
        raise UserError(f"recipe {name!r} is for {', '.join(families)}, not for {benchmark}; choose another recipe")
    return merge(values, own or {})


def _names(folder: str) -> tuple[str, ...]:
    found = (_SHIPPED / folder).iterdir()
    prefix = "" if folder == "." else f"{folder}/"
    return tuple(sorted(f"{prefix}{file.name.removesuffix('.toml')}" for file in found if file.name.endswith(".toml")))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the preset {path}: {getattr(error, 'strerror', None) or error}") from error


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{name} is not valid TOML: {error}") from error
