"""How commands show a run: a bar while it is trained, a table when it is finished."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xcnorm.cli import _output


class TrainingBar:
    """A bar for training, and lines above it; silent where nobody should hear.

    Args:
        show: Whether anything is shown.
        name: What is trained.
    """

    def __init__(self, name: str, show: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._show = show
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TimeRemainingColumn(),
        )
        console = _output.progress()
        self.bars = Progress(*columns, console=console, disable=not show or not console.is_terminal)
        self._task = self.bars.add_task(name, total=None, loss=float("nan"))

    def update(self, done: int, total: int, loss: float) -> None:
        """Tell how far it is."""
        self.bars.update(self._task, completed=done, total=total, loss=loss)

    def say(self, text: str) -> None:
        """Say something above the bar."""
        if self._show:
            self.bars.console.print(text, soft_wrap=True, markup=False)


@contextmanager
def training_bar(name: str, *, show: bool = True) -> Iterator[TrainingBar]:
    """Show a bar while a network is trained."""
    bar = TrainingBar(name, show)
    with bar.bars:
        yield bar


def print_run(folder: Path, as_json: bool) -> None:
    """Print what a finished run found."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    if as_json:
        _output.print_json({"folder": str(folder), **metrics})
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    metric = metrics["metric"]
    rules = list(metrics["selection"])
    table = Table(title=f"{metrics['title']}: {metric.replace('_', ' ')} in percent", box=SIMPLE_HEAD)
    table.add_column("domain")
    for rule in rules:
        diagnostic = " (diagnostic: chosen on the targets)" if rule == "oracle" else ""
        table.add_column(f"{rule.replace('_', ' ')}{diagnostic}", justify="right")
    domains = metrics["selection"][rules[0]]["targets"]
    rows = {"source": [metrics["selection"][rule]["source"][metric] for rule in rules]}
    rows |= {name: [metrics["selection"][rule]["targets"][name][metric] for rule in rules] for name in domains}
    if len(rows) > 40:  # a grid of corruptions: its mean says more than a hundred lines
        rows = {"source": rows["source"]}
    for name, values in rows.items():
        table.add_row(name, *("-" if value is None else f"{100 * value:.2f}" for value in values))
    means = []
    for rule in rules:
        known = [numbers[metric] for numbers in metrics["selection"][rule]["targets"].values()]
        known = [value for value in known if value is not None]
        means.append(f"{100 * sum(known) / len(known):.2f}" if known else "-")
    table.add_row(f"mean of {len(domains)} targets", *means, style="bold")
    console = _output.results()
    console.print(table)
    console.print(f"{metrics['steps']} steps, {metrics['seconds']:.0f} s. Run: {folder}", soft_wrap=True, markup=False)
