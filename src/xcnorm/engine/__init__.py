"""Experiments: what they are, how they are run, and where they are kept."""

from xcnorm.engine.distributed import World, world
from xcnorm.engine.experiment import Experiment, make_experiment
from xcnorm.engine.presets import Preset, list_presets, load_preset
from xcnorm.engine.recipes import list_recipes, load_recipe
from xcnorm.engine.run import evaluate_run, run_experiment
from xcnorm.engine.runs import RunFolder
from xcnorm.engine.trainer import Trainer
from xcnorm.engine.training import train

__all__ = [
    "Experiment",
    "Preset",
    "RunFolder",
    "Trainer",
    "World",
    "evaluate_run",
    "list_presets",
    "list_recipes",
    "load_preset",
    "load_recipe",
    "make_experiment",
    "run_experiment",
    "train",
    "world",
]
