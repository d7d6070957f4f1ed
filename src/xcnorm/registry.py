"""Registries: methods, networks, benchmarks, corruptions and all else that one file can add, by name."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from xcnorm.errors import UserError, unknown_name

Item = TypeVar("Item")

GROUP = "xcnorm"
"""The entry point group in which an installed package names the modules that register something."""
VARIABLE = "XCNORM_PLUGINS"
"""The environment variable that names files to do the same, separated like those of ``PATH``."""


class Registry(Mapping[str, Item]):
    """What the files of a package, and plugins, have registered by name.

    A file is found by its being there: all public modules of the package are imported when a name is first looked up,
    and then, once for all registries, the user's plugins.

    Args:
        kind: What is being named, such as ``"method"``, for messages.
        package: Whose modules register.

    Example:
        >>> from xcnorm.registry import Registry
        >>> shapes = Registry("shape", "xcnorm.functional")
        >>> shapes.register("disc", "a disc")
        'a disc'
        >>> shapes["disc"]
        'a disc'
        >>> shapes["disk"]
        Traceback (most recent call last):
        xcnorm.errors.UserError: unknown shape 'disk'; did you mean 'disc'? (known: 'disc')
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._items: dict[str, Item] = {}
        self._complete = False

    def register(self, name: str, item: Item) -> Item:
        """Make an item known by a name.

        Raises:
            ValueError: The name is taken.
        """
        if name in self._items:
            raise ValueError(f"{self.kind} {name!r} is registered already; choose another name")
        self._items[name] = item
        return item

    def registered(self, name: str) -> Callable[[Item], Item]:
        """The same as a decorator."""
        return lambda item: self.register(name, item)

    def __getitem__(self, name: str) -> Item:
        self._complete_it()
        if name not in self._items:
            raise UserError(unknown_name(self.kind, name, self._items))
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        self._complete_it()
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        self._complete_it()
        return iter(sorted(self._items))

    def __len__(self) -> int:
        self._complete_it()
        return len(self._items)

    def _complete_it(self) -> None:
        if not self._complete:
            self._complete = True  # before the imports: a plugin may look around while it is imported
            try:
                discover(self._package)
                load_plugins()
            except BaseException:
                self._complete = False
                raise


def discover(package: str) -> list[ModuleType]:
    """Import every public module of a package, and hand them out."""
    names = [module.name for module in pkgutil.iter_modules(import_module(package).__path__)]
    return [import_module(f"{package}.{name}") for name in names if not name.startswith("_")]


@cache
def load_plugins() -> None:
    """Import what other packages announce by entry points, and the files that ``XCNORM_PLUGINS`` names.

    Raises:
        UserError: One of them cannot be imported.
    """
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise UserError(f"plugin {entry.value!r} cannot be imported: {error}; mend or uninstall it") from error
    for name in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        _import_file(Path(name))


def _import_file(path: Path) -> None:
    """Import a file under its own name, so that whatever pickles or compiles finds it again."""
    path = path.absolute()
    if getattr(sys.modules.get(path.stem), "__file__", None) == str(path):
        return  # it was imported before, or is being imported: a plugin may look something up itself
    if not path.is_file():
        raise UserError(f"{VARIABLE} names {path}, which is not there; correct it")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or path.stem in sys.modules:
        raise UserError(f"{VARIABLE} names {path}, which is no Python file or is called like another module; rename it")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise UserError(f"{VARIABLE} names {path}, which cannot be imported: {error}; mend it") from error
