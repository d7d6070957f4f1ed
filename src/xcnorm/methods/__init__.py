"""Training methods, one file each: a class with `register_method` in a file of this folder is a method."""

import importlib
import pkgutil

from xcnorm.errors import UserError, unknown_name
from xcnorm.methods.method import Method, register_method, registered

__all__ = ["Method", "find_method", "list_methods", "register_method"]


def list_methods() -> tuple[str, ...]:
    """The names of all methods.

    Example:
        >>> "erm" in list_methods()
        True
    """
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(sorted(registered()))


def find_method(name: str) -> type[Method]:
    """A method by name.

    Raises:
        UserError: There is none of that name.
    """
    if name not in list_methods():
        raise UserError(unknown_name("method", name, list_methods()))
    return registered()[name]
