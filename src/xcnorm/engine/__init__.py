"""Experiments: what they are, how they are trained, and where they are kept."""

from xcnorm.engine.distributed import World, world
from xcnorm.engine.experiment import Experiment, make_experiment
from xcnorm.engine.presets import Preset, list_presets, load_preset
from xcnorm.engine.recipes import list_recipes, load_recipe
from xcnorm.engine.runs import RunFolder
from xcnorm.engine.training import Trainer, train

__all__ = [
    "Experiment",
    "Preset",
    "RunFolder",
    "Trainer",
    "World",
    "list_presets",
    "list_recipes",
    "load_preset",
    "load_recipe",
    "make_experiment",
    "train",
    "world",
]
