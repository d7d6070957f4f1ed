"""The networks of experiments: drawn from their seed, or made of what another run has trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xcnorm.conversion import calibrate, convert
from xcnorm.data import Benchmark
from xcnorm.engine import seeding
from xcnorm.engine.batches import preparation
from xcnorm.engine.experiment import Experiment, convert_options
from xcnorm.engine.runs import RunFolder
from xcnorm.engine.settings import ModelSettings, StartSettings
from xcnorm.errors import UserError
from xcnorm.models import Network, create_model
from xcnorm.nn import XCNormLayer

_BATCHES = 4  # that a converted network is calibrated on
_BATCH = 128


def build_model(
    experiment: Experiment,
    benchmark: Benchmark,
    device: torch.device,
    weights: Mapping[str, Tensor] | None = None,
) -> Network:
    """The experiment's network with its first weights: they depend on the seed, and on what it starts from, alone.

    Args:
        experiment: The experiment.
        benchmark: Its data.
        device: Where the network is wanted.
        weights: What the run has learnt that it starts from; left out, its network is as it was drawn.

    Raises:
        UserError: The weights are not those of the network that the start names.
    """
    images = None if weights is None else _first_batches(experiment, benchmark, device)
    return build_network(experiment, len(benchmark.classes), device, weights, images)


def build_network(
    experiment: Experiment,
    classes: int,
    device: torch.device,
    weights: Mapping[str, Tensor] | None = None,
    images: Iterator[Tensor] | None = None,
) -> Network:
    """The same, where the number of classes is all that is known of the benchmark.

    Args:
        experiment: The experiment.
        classes: How many there are.
        device: Where the network is wanted.
        weights: What the run has learnt that it starts from.
        images: Batches of training images to calibrate the network on, if it is converted.
    """
    start, (method, _) = experiment.start, experiment.method.make()
    with seeding.seeded(seeding.derive(experiment.seed, "weights")):
        model = _created(experiment.model if start is None else start.model, classes)
        if start is not None and weights is not None:
            _load(model, weights, start)
        if start is not None and start.model != experiment.model:
            model = _converted(model.to(device), experiment.model, images)
        model = method.adapt(model)
    model = model.to(device)
    if experiment.run.channels_last:
        for parameter in model.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return model.train()


def _converted(model: Network, wanted: ModelSettings, images: Iterator[Tensor] | None = None) -> Network:
    """A network as `xcnorm.convert` makes another form of it, calibrated where there are images for it."""
    convert(model, wanted.layer, **convert_options(wanted))
    ours = any(isinstance(module, XCNormLayer) for module in model.modules())
    if images is not None and ours:
        calibrate(model, images)
    return model


def start_weights(experiment: Experiment, runs: Path) -> dict[str, Tensor] | None:
    """What the run has learnt that an experiment starts from; None if it starts from nothing.

    Args:
        experiment: The experiment.
        runs: The folder of runs.

    Raises:
        UserError: That run is not there, is not finished, or trained another network.
    """
    if (start := experiment.start) is None:
        return None
    folder = RunFolder(runs / start.run)
    if (found := folder.experiment().model) != start.model:
        raise UserError(f"{folder.path} trained {_told(found)}, but start.model is {_told(start.model)}; correct it")
    if not folder.finished:
        raise UserError(f"{folder.path} is not finished, so nothing can start from it; finish it with xcnorm train")
    return folder.weights(start.selection)


def _created(section: ModelSettings, classes: int) -> Network:
    options: dict[str, Any] = dict(section.options)
    return create_model(section.name, section.layer, num_classes=classes, **options)


def _load(model: Network, weights: Mapping[str, Tensor], start: StartSettings) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise UserError(
            f"the weights of {start.run} do not fit {_told(start.model)}: {first}; start from a run on as many classes "
            "whose method leaves the network as it is, such as erm"
        ) from error


def _first_batches(experiment: Experiment, benchmark: Benchmark, device: torch.device) -> Iterator[Tensor]:
    """Of the training images, without augmentation."""
    order = torch.randperm(len(benchmark.train), generator=seeding.stream(experiment.seed, "calibration"))
    prepare = preparation(experiment)
    for index in islice(order.split(_BATCH), _BATCHES):
        yield prepare(benchmark.train.images[index].to(device))


def _told(section: ModelSettings) -> str:
    options = "".join(f", {name}={value!r}" for name, value in section.options.items())
    return f"{section.name} ({section.layer}{options})"
