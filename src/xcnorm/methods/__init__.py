"""Training methods, one file each: a class with `register_method` in a file of this folder is a method."""

import importlib
import pkgutil

from xcnorm.errors import UserError, unknown_name
from xcnorm.methods.augmentation import Augmentation
from xcnorm.methods.method import Method, register_method, registered
from xcnorm.methods.objective import Objective
from xcnorm.methods.training import Training

__all__ = [
    "Augmentation",
    "Method",
    "Objective",
    "Training",
    "find_augmentation",
    "find_method",
    "list_methods",
    "register_method",
]


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


def find_augmentation(name: str) -> type[Augmentation]:
    """A method by name that can stand beside another one.

    Raises:
        UserError: There is none of that name.
    """
    known = {each: kind for each in list_methods() if issubclass(kind := registered()[each], Augmentation)}
    if name not in known:
        raise UserError(unknown_name("augmentation", name, known))
    return known[name]
