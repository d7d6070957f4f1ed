"""Recipes: network, optimiser and schedule for each benchmark, by name."""

from __future__ import annotations

from typing import Any

from xcnorm.data.catalogue import BENCHMARKS
from xcnorm.engine import shipped
from xcnorm.engine.experiment import merge
from xcnorm.errors import UserError, unknown_name


def list_recipes() -> tuple[str, ...]:
    """The names of the recipes that come with the package."""
    return shipped.names("recipes")


def load_recipe(name: str, benchmark: str) -> dict[str, Any]:
    """The values of a recipe for a benchmark.

    A recipe is a file of an experiment's values. Its tables ``for`` hold more values for some benchmarks: those of
    ``for.digits`` also hold for ``digits-mini`` unless that has a table of its own, and those of ``for.others`` for
    every benchmark that is not named and brings no recipe of its own. A recipe without ``for.others`` is for the named
    ones alone.

    Raises:
        UserError: There is no such recipe or benchmark, or the recipe has nothing for it.
    """
    if name not in list_recipes():
        raise UserError(unknown_name("recipe", name, list_recipes()))
    values = shipped.read(f"recipes/{name}")
    tables = values.pop("for")
    for known in (benchmark, benchmark.removesuffix("-mini")):
        if known in tables:
            return merge(values, tables[known])
    entry = BENCHMARKS[benchmark]  # a benchmark that nobody knows is not the recipe's fault
    if "others" in tables:
        return merge(values, entry.recipe or tables["others"])
    raise UserError(f"recipe {name!r} is for {', '.join(tables)}, not for {benchmark}; choose another recipe")
