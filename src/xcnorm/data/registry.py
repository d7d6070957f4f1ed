"""Finding benchmarks by name. A benchmark is a file in `xcnorm.data.benchmarks` with a `CARD` and a `load`."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from xcnorm.data import benchmarks
from xcnorm.data.card import Card
from xcnorm.data.domain import Benchmark
from xcnorm.data.places import data_root
from xcnorm.errors import UserError, unknown_name


@cache
def _modules() -> dict[str, ModuleType]:
    modules = [
        import_module(f"{benchmarks.__name__}.{info.name}")
        for info in pkgutil.iter_modules(benchmarks.__path__)
        if not info.name.startswith("_")
    ]
    return {module.CARD.name: module for module in modules}


def list_benchmarks() -> tuple[str, ...]:
    """The names of all benchmarks."""
    return tuple(sorted(_modules()))


def find_benchmark(name: str) -> ModuleType:
    """The module of a benchmark.

    Raises:
        UserError: There is none of that name.
    """
    if name not in _modules():
        raise UserError(unknown_name("benchmark", name, _modules()))
    return _modules()[name]


def card(name: str) -> Card:
    """The card of a benchmark: what it is, whom to cite, which files it needs."""
    found: Card = find_benchmark(name).CARD
    return found


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
    benchmark: Benchmark = find_benchmark(name).load(data_root(root), **options)
    return benchmark


def check_options(name: str, options: Iterable[str]) -> None:
    """Look whether a benchmark has these options.

    Raises:
        UserError: It has not, or there is no such benchmark.
    """
    parameters = inspect.signature(find_benchmark(name).load).parameters
    known = [option for option in parameters if option != "root"]
    for option in options:
        if option not in known:
            raise UserError(unknown_name(f"option of {name}", option, known))
