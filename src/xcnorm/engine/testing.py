"""Testing: what networks answer to every image of every domain, and how good that is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from xcnorm.data import Benchmark, Domain
from xcnorm.data.grid import SEVERITIES
from xcnorm.engine.batches import preparation
from xcnorm.engine.experiment import Experiment
from xcnorm.engine.precision import autocast
from xcnorm.engine.probe import probe
from xcnorm.engine.runs import RunFolder, Trained
from xcnorm.metrics import robustness_score, score

Weights = Mapping[str, Tensor]


@torch.no_grad()
def predict(model: nn.Module, images: Tensor, experiment: Experiment) -> Tensor:
    """The probability of each class, ``(N, C)``, float32 on the CPU; the network is in evaluation mode meanwhile.

    Args:
        model: The network; it computes where it is.
        images: In bytes, ``(N, C, H, W)``.
        experiment: How they are prepared, and how exactly the network computes.
    """
    device, prepare = next(model.parameters()).device, preparation(experiment)
    batch = 1000 if device.type == "cuda" else 100  # what goes fastest: a CPU's caches hold little
    training = model.training
    model.eval()
    parts = []
    for part in images.split(batch):
        with autocast(experiment.run.precision, device):
            logits = model(prepare(part.to(device)))
        parts.append(logits.float().softmax(1))
    model.train(training)
    return torch.cat(parts).cpu()


@dataclass
class Answers:
    """What a network answered with each of its weights.

    Attributes:
        probabilities: By the name of the weights, then by domain: ``"source"``, each ``"probe/NAME"`` and each
            ``"targets/NAME"``.
        labels: By domain.
        notes: What a reader must know of a target.
    """

    probabilities: dict[str, dict[str, Tensor]]
    labels: dict[str, Tensor]
    notes: dict[str, str]


def evaluate(weights: Mapping[str, Weights], model: nn.Module, experiment: Experiment, benchmark: Benchmark) -> Answers:
    """Ask a network about the source's held-out images and every target.

    A target may have to be made, such as that of a corruption. It is made once, where the network is, and all weights
    answer before the next one is.

    Args:
        weights: Weights of the network, by name; those of the last name stay in it.
        model: The network.
        experiment: What it was trained by.
        benchmark: The data.
    """
    answers = Answers({name: {} for name in weights}, {}, {})
    for place, domain in _domains(benchmark, experiment.run.probe, next(model.parameters()).device):
        answers.labels[place] = domain.labels
        if domain.note and place != "source":
            answers.notes[domain.name] = domain.note
        for name, state in weights.items():
            model.load_state_dict(state)
            answers.probabilities[name][place] = predict(model, domain.images, experiment)
    return answers


def write_results(
    folder: RunFolder, trained: Trained, model: nn.Module, experiment: Experiment, benchmark: Benchmark
) -> None:
    """Test the weights that a run kept, on all domains; writes ``predictions.npz``, then ``metrics.json``.

    Args:
        folder: Of the run.
        trained: What came of its training.
        model: Its network, with whatever weights.
        experiment: Its experiment.
        benchmark: Its data.
    """
    answers = evaluate({rule: folder.weights(rule) for rule in trained.selected}, model, experiment, benchmark)
    arrays = {f"labels/{place}": labels.numpy() for place, labels in answers.labels.items()}
    selection: dict[str, Any] = {}
    for rule, probabilities in answers.probabilities.items():
        arrays |= {f"{rule}/{place}": values.half().numpy() for place, values in probabilities.items()}
        selection[rule] = {"step": trained.selected[rule], **_numbers(probabilities, answers.labels)}
    with folder.writing("predictions.npz") as part, part.open("wb") as handle:
        np.savez_compressed(handle, **dict[str, Any](arrays))
    metrics = {
        "format": 1,
        "benchmark": benchmark.card.name,
        "title": benchmark.title,
        "metric": benchmark.card.metric,
        "classes": list(benchmark.classes),
        "notes": answers.notes,
        "missing": dict(benchmark.missing),
        "warnings": list(benchmark.warnings),
        "steps": trained.steps,
        "seconds": round(trained.seconds, 3),
        "selection": selection,
    }
    folder.write("metrics.json", json.dumps(metrics, indent=1) + "\n")


def _domains(benchmark: Benchmark, views: Sequence[str], device: torch.device) -> Iterator[tuple[str, Domain]]:
    """The domains to test on, one after the other."""
    yield "source", benchmark.validation
    for name, seen in probe(benchmark.validation, views, device).items():
        yield f"probe/{name}", seen
    targets = benchmark.targets.on(device)
    for name in targets:
        yield f"targets/{name}", targets[name]


def _numbers(probabilities: Mapping[str, Tensor], labels: Mapping[str, Tensor]) -> dict[str, Any]:
    """``"source"`` and ``"targets"``, scored, and ``"probe"`` if there is one; of a grid also ``"robustness"``."""
    scores = {place: score(values, labels[place]) for place, values in probabilities.items()}
    clean = probabilities["source"]
    numbers: dict[str, Any] = {"source": scores.pop("source")}
    if probed := [place for place in scores if place.startswith("probe/")]:
        numbers["probe"] = {place.removeprefix("probe/"): scores.pop(place) for place in probed}
    numbers["targets"] = {place.removeprefix("targets/"): found for place, found in scores.items()}
    corrupted: dict[str, list[Tensor]] = {}
    for name in numbers["targets"]:
        corruption, slash, severity = name.rpartition("/")
        if slash and severity.isdigit() and torch.equal(labels[f"targets/{name}"], labels["source"]):
            corrupted.setdefault(corruption, []).append(probabilities[f"targets/{name}"])
    # The score is defined over all severities; a corruption that lacks one has none.
    all_five = {name: found for name, found in corrupted.items() if len(found) == len(SEVERITIES)}
    if all_five:
        numbers["robustness"] = {name: robustness_score(clean, found) for name, found in all_five.items()}
    return numbers
