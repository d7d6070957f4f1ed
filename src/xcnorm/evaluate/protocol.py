"""From a trained network to numbers: every image of every domain, nothing left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from xcnorm.data import Benchmark
from xcnorm.data.grid import SEVERITIES
from xcnorm.engine.batches import predict, preparation
from xcnorm.engine.distributed import World
from xcnorm.engine.experiment import Experiment
from xcnorm.engine.precision import autocast, precision
from xcnorm.engine.runs import RunFolder, whole, write
from xcnorm.engine.training import Trained, build_model
from xcnorm.errors import UserError
from xcnorm.evaluate.metrics import score
from xcnorm.evaluate.robustness import robustness_score

Predictor = Callable[[Tensor], Tensor]


def evaluate_run(folder: RunFolder, benchmark: Benchmark, world: World, trained: Trained) -> dict[str, Any]:
    """Test the weights that a run kept, on all domains; writes ``predictions.npz``, then ``metrics.json``.

    Args:
        folder: Of the run.
        benchmark: Its data.
        world: Where to compute.
        trained: What came of its training.
    """
    experiment = folder.experiment()
    model = build_model(experiment, benchmark, world.device)
    arrays: dict[str, np.ndarray] = {}
    selection: dict[str, Any] = {}
    for rule, step in trained.selected.items():
        model.load_state_dict(folder.weights(rule))
        with precision(experiment.run.precision):
            results = evaluate(benchmark, answers(model, experiment, world.device))
        for name, (probabilities, labels) in results.predictions.items():
            arrays[f"labels/{name}"] = labels.numpy()
            arrays[f"{rule}/{name}"] = probabilities.half().numpy()
        selection[rule] = {"step": step, **results.numbers}
    _save_arrays(folder.path / "predictions.npz", arrays)
    metrics = {
        "format": 1,
        "benchmark": benchmark.card.name,
        "title": benchmark.title,
        "metric": benchmark.card.metric,
        "classes": list(benchmark.classes),
        "notes": results.notes,
        "missing": dict(benchmark.missing),
        "warnings": list(benchmark.warnings),
        "steps": trained.steps,
        "seconds": round(trained.seconds, 3),
        "selection": selection,
    }
    write(folder.path / "metrics.json", json.dumps(metrics, indent=1) + "\n")
    return metrics


def training_of(folder: RunFolder) -> Trained:
    """What came of the training of a finished run.

    Raises:
        UserError: The run is not finished.
    """
    try:
        metrics = json.loads((folder.path / "metrics.json").read_text(encoding="utf-8"))
        selected = {rule: numbers["step"] for rule, numbers in metrics["selection"].items()}
        return Trained(selected, metrics["steps"], metrics["seconds"])
    except FileNotFoundError as error:
        raise UserError(f"{folder.path} is not finished; finish it with xcnorm train") from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {folder.path / 'metrics.json'}: {error}; delete it and train again") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder.path / 'metrics.json'} lacks {error}; delete it and train again") from error


class Results:
    """What a network answered, and how good that is.

    Attributes:
        predictions: Probabilities and labels of ``"source"`` and of each ``"targets/NAME"``.
        numbers: ``"source"`` and ``"targets"``, scored; for a grid of corruptions also ``"robustness"``.
        notes: What a reader must know of a target.
    """

    def __init__(self) -> None:
        self.predictions: dict[str, tuple[Tensor, Tensor]] = {}
        self.numbers: dict[str, Any] = {"source": {}, "targets": {}}
        self.notes: dict[str, str] = {}


def answers(model: nn.Module, experiment: Experiment, device: torch.device) -> Predictor:
    """What a network says to images in bytes, prepared and computed as the experiment has it."""
    prepare = preparation(experiment.data, experiment.run.channels_last)
    rounding = partial(autocast, experiment.run.precision, device)
    return lambda images: predict(model, images, prepare, device, autocast=rounding)


def evaluate(benchmark: Benchmark, answer: Predictor) -> Results:
    """Test a network on the source's held-out images and on every target.

    Args:
        benchmark: The data.
        answer: From images in bytes to the probability of each class.
    """
    results = Results()
    held_out = benchmark.validation
    clean = answer(held_out.images)
    results.predictions["source"] = clean, held_out.labels
    results.numbers["source"] = score(clean, held_out.labels)
    corrupted: dict[str, list[Tensor]] = {}
    for name in benchmark.targets:
        domain = benchmark.targets[name]
        probabilities = answer(domain.images)
        results.predictions[f"targets/{name}"] = probabilities, domain.labels
        results.numbers["targets"][name] = score(probabilities, domain.labels)
        if domain.note:
            results.notes[name] = domain.note
        corruption, slash, severity = name.rpartition("/")
        if slash and severity.isdigit() and torch.equal(domain.labels, held_out.labels):
            corrupted.setdefault(corruption, []).append(probabilities)
    # The score is defined over all severities; a corruption that lacks one has none.
    all_five = {name: found for name, found in corrupted.items() if len(found) == len(SEVERITIES)}
    if all_five:
        results.numbers["robustness"] = {name: robustness_score(clean, found) for name, found in all_five.items()}
    return results


def _save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with whole(path) as part, part.open("wb") as handle:
        np.savez_compressed(handle, **dict[str, Any](arrays))
