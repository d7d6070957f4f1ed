"""A network, a benchmark, experiments and pictures so small that training them takes a moment."""

import torch
from PIL import Image
from torch import nn

from xcnorm.data import Benchmark, Card, Domain
from xcnorm.data.domain import Targets
from xcnorm.engine import Experiment, Trainer, World, make_experiment
from xcnorm.engine.experiment import merge, override
from xcnorm.models import Network, Wiring

ALONE = World(0, 1, torch.device("cpu"))
CLASSES = ("upright", "level", "plain")
CARD = Card("small", "Small", "", CLASSES, 16, "accuracy", "", "")
BASE = {"model": {"name": "tiny"}, "schedule": {"iterations": 6, "batch": 8}}


def tiny(wiring: Wiring, num_classes: int, in_channels: int) -> Network:
    """Two convolutions, a dense layer, and a dropout that draws from torch's global generator."""
    trunk = nn.Sequential(
        wiring.unit(in_channels, 8, 5, first=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.1),
        wiring.unit(8, 8, 3),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        wiring.dense(32, 16),
    )
    return Network(trunk, 16, num_classes)


def experiment(**changes: object) -> Experiment:
    """An experiment with settings named with two underscores for a dot."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return make_experiment(merge(BASE, override(dotted)))


def domain(name: str, count: int, pixels: int, brightness: float = 1.0) -> Domain:
    """Noise with an edge that stands or lies, or with none: easy to learn by its shape, and no two images alike."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    labels = torch.arange(count) % len(CLASSES)
    images = torch.randint(0, 128, (count, 1, pixels, pixels), generator=generator)
    images[labels == 0, :, :, : pixels // 2] += 120
    images[labels == 1, :, : pixels // 2] += 120
    return Domain(name, (images * brightness).to(torch.uint8), labels)


def benchmark(pixels: int = 16, count: int = 32) -> Benchmark:
    """A source, and the same in the dark, twice."""
    return Benchmark(
        CARD,
        CARD.title,
        CLASSES,
        train=domain("train", count, pixels),
        validation=domain("validation", 30, pixels),
        targets=Targets({name: lambda name=name: domain(name, 30, pixels, 0.3) for name in ("dark", "darker")}),
    )


def trainer(experiment: Experiment, **options: object) -> Trainer:
    """Ready for its first step, on the small benchmark."""
    return Trainer(experiment, benchmark(**options), ALONE)


def pictures(root) -> None:
    """The small benchmark as a folder of pictures, for whole programs."""
    for name, count in (("source", 60), ("dark", 30), ("darker", 30)):
        drawn = domain(name, count, 16, 1.0 if name == "source" else 0.4)
        for number, (image, label) in enumerate(zip(drawn.images, drawn.labels.tolist(), strict=True)):
            path = root / name / CLASSES[label] / f"{number:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[0].numpy()).convert("RGB").save(path)
