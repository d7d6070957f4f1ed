"""The benchmarks by name: registering, listing, describing and loading them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from xcnorm.data.card import Card
from xcnorm.data.domain import Benchmark
from xcnorm.data.parts import Finding, Part
from xcnorm.errors import UserError, unknown_name
from xcnorm.folders import data_root
from xcnorm.registry import Registry

Load = TypeVar("Load", bound=Callable[..., Benchmark])


@dataclass(frozen=True)
class CatalogueEntry:
    """What is registered of a benchmark.

    Attributes:
        card: What it is, whom to cite, which files it needs.
        load: Loads it, given the folder that holds the data; its keyword arguments are the benchmark's options.
        parts: What it reads from that folder; empty for one that is made here or reads a folder of the user's own.
        verify: What else ``xcnorm data verify`` should look at, given the same folder.
        recipe: How it is learned by the recipe ``fast`` where that does not name it: its network and schedule, and
            whatever else stands in a recipe. Unless given, what that recipe has for all others.
    """

    card: Card
    load: Callable[..., Benchmark]
    parts: tuple[Part, ...] = ()
    verify: Callable[[Path], Iterator[Finding]] | None = None
    recipe: Mapping[str, Any] | None = None


BENCHMARKS: Registry[CatalogueEntry] = Registry("benchmark", "xcnorm.data.benchmarks")


def register_benchmark(
    card: Card,
    *,
    parts: tuple[Part, ...] = (),
    verify: Callable[[Path], Iterator[Finding]] | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> Callable[[Load], Load]:
    """Make a function known as the one that loads a benchmark; the arguments are those of `CatalogueEntry`."""

    def register(load: Load) -> Load:
        BENCHMARKS.register(card.name, CatalogueEntry(card, load, parts, verify, recipe))
        return load

    return register


def list_benchmarks() -> tuple[str, ...]:
    """The names of all benchmarks."""
    return tuple(BENCHMARKS)


def card(name: str) -> Card:
    """The card of a benchmark: what it is, whom to cite, which files it needs.

    Raises:
        UserError: There is none of that name.
    """
    return BENCHMARKS[name].card


def load(name: str, root: Path | str | None = None, **options: Any) -> Benchmark:
    """Load a benchmark.

    Args:
        name: One of `list_benchmarks()`.
        root: The folder that holds the data; unless given, ``XCNORM_DATA`` or a folder below the user's cache folder.
        **options: Options of the benchmark; its page in the documentation lists them.

    Raises:
        UserError: The name or an option is unknown, the source is missing, or a file is damaged. Targets that are
            merely missing are listed in the result.

    Example:
        >>> from xcnorm import data
        >>> digits = data.load("digits-mini")
        >>> list(digits.targets)
        ['optdigits', 'mnist_m', 'syn_rendered', 'inverted', 'low_contrast']
    """
    check_options(name, options)
    return BENCHMARKS[name].load(data_root(root), **options)


def check_options(name: str, options: Iterable[str]) -> None:
    """Look whether a benchmark has these options.

    Raises:
        UserError: It has not, or there is no such benchmark.
    """
    known = list(inspect.signature(BENCHMARKS[name].load).parameters)[1:]  # the first is the data root
    for option in options:
        if option not in known:
            raise UserError(unknown_name(f"option of {name}", option, known))
