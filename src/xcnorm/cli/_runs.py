"""Runs on the screen: a bar while one is trained, a table when it is finished."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xcnorm.cli import _output
from xcnorm.errors import printable

if TYPE_CHECKING:
    from xcnorm.engine import RunFolder

_MANY = 39  # targets of a grid of corruptions: their mean says more than a hundred lines


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
            self.bars.console.print(printable(text), soft_wrap=True, markup=False)


@contextmanager
def training_bar(name: str, *, show: bool = True) -> Iterator[TrainingBar]:
    """Show a bar while a network is trained."""
    bar = TrainingBar(name, show)
    with bar.bars:
        yield bar


def print_run(folder: "RunFolder", as_json: bool) -> None:
    """Print what a finished run found."""
    with folder.metrics() as metrics:
        if as_json:
            _output.print_json({"folder": str(folder.path), **metrics})
            return
        _print_table(metrics)
        last = f"{metrics['steps']} steps, {metrics['seconds']:.0f} s. Run: {folder.path}"
        _output.results().print(last, soft_wrap=True, markup=False)


def _print_table(metrics: Mapping[str, Any]) -> None:
    """A column for each selection rule."""
    from xcnorm.engine.runs import mean_over_targets

    metric, selection = metrics["metric"], metrics["selection"]
    heads = [
        rule.replace("_", " ") + (" (diagnostic: chosen on the targets)" * (rule == "oracle")) for rule in selection
    ]
    rows = {"source": [tested["source"][metric] for tested in selection.values()]}
    targets = [tested["targets"] for tested in selection.values()]
    if len(targets[0]) <= _MANY:
        rows |= {name: [scores[name][metric] for scores in targets] for name in targets[0]}
    rows[f"mean of {len(targets[0])} targets"] = [mean_over_targets(metrics, rule) for rule in selection]
    lines = ([name, *("-" if n is None else f"{100 * n:.2f}" for n in numbers)] for name, numbers in rows.items())
    _output.print_table(f"{metrics['title']}: {metric.replace('_', ' ')} in percent", ["domain", *heads], lines)
