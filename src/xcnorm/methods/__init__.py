"""Training methods, one file each: a class with `register_method` in a file of this folder is a method."""

from xcnorm.methods.augmentation import Augmentation, find_augmentation
from xcnorm.methods.method import Method, find_method, list_methods, register_method
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
