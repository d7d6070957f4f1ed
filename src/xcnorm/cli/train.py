"""`xcnorm train`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from xcnorm.cli import _arguments, _output, _runs
from xcnorm.errors import UserError

_SETTINGS = {
    "benchmark": "benchmark",
    "method": "method.name",
    "augment": "method.augment",
    "model": "model.name",
    "layer": "model.layer",
    "seed": "seed",
}
"""What the options set; all else is changed with ``--set``."""


def command(
    benchmark: Annotated[
        str | None,
        typer.Option(help="What to learn; xcnorm data list shows the names.", show_default="digits-mini"),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="How to train, such as erm or randconv.", show_default="erm")
    ] = None,
    augment: Annotated[
        str | None,
        typer.Option(help="Random views on top of the method, such as randconv.", show_default="none"),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The network.", show_default="the recipe's")] = None,
    layer: Annotated[
        str | None,
        typer.Option(help="The form of the convolutions, such as r_xcnorm or bcos.", show_default="conv"),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="Optimiser and schedule, such as fast or paper.", show_default="fast"),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            help="A finished run to start from: its folder, below --out. Another --layer converts its network.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random.", show_default="0")] = None,
    changes: _arguments.Changes = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A config.toml to start from, instead of the options above.", show_default=False),
    ] = None,
    data: _arguments.Data = None,
    out: _arguments.Runs = Path("runs"),
    device: _arguments.Device = "auto",
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Log for TensorBoard too, into the run's folder.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the experiment and where it would go.")] = False,
    json: _output.Json = False,
) -> None:
    """Train a network on one source and test it on every target.

    The same command again goes on where it was interrupted, and does nothing when the run is finished. Under torchrun
    (torchrun --nproc-per-node=2 -m xcnorm train ...) several processes share the work.
    """
    from xcnorm.engine import RunFolder, make_experiment, run_experiment, world

    options = {
        "benchmark": benchmark,
        "method": method,
        "augment": augment,
        "model": model,
        "layer": layer,
        "recipe": recipe,
        "start": start,
        "seed": seed,
    }
    given = {option: value for option, value in options.items() if value is not None}
    experiment = make_experiment(_values(given, out, config, changes))
    if dry_run:
        folder = RunFolder.of(experiment, out)
        if json:
            values = experiment.model_dump(mode="json")
            _output.print_json({"folder": str(folder.path), "finished": folder.finished, "experiment": values})
        else:
            print(f"# {folder.path}\n{experiment.to_toml()}", end="")
        return
    with world(device) as here, _runs.training_bar(str(experiment.folder), show=here.leads) as bar:
        folder = run_experiment(
            experiment, out, here, data=data, progress=bar.update, notify=bar.say, tensorboard=tensorboard
        )
    if here.leads:
        _runs.print_run(folder, json)


def _values(given: Mapping[str, Any], out: Path, config: Path | None, changes: Iterable[str] | None) -> dict[str, Any]:
    """The settings: of a file or a recipe, under what was given, under what was changed."""
    from xcnorm.engine import Experiment, load_recipe
    from xcnorm.engine.experiment import merge, override
    from xcnorm.engine.runs import read_config

    changed = _arguments.parse_changes(changes)
    if config is not None:
        for option in given:
            raise UserError(f"--{option} is for a recipe, not for --config; change the file's settings with --set")
        return merge(read_config(config), changed)
    chosen = override({_SETTINGS[option]: value for option, value in given.items() if option in _SETTINGS})
    started = _started(given["start"], out) if "start" in given else {}
    benchmark = given.get("benchmark", started.get("benchmark", Experiment().benchmark))
    return merge(load_recipe(given.get("recipe", "fast"), benchmark), started, chosen, changed)


def _started(run: Path, out: Path) -> dict[str, Any]:
    """The settings of an experiment that starts from a run: benchmark, network, and what it sees are the run's."""
    from xcnorm.engine import RunFolder

    found = RunFolder(run).experiment().model_dump(mode="json")
    try:
        name = run.resolve().relative_to(out.resolve())
    except ValueError as error:
        raise UserError(f"--start {run} is not below {out}; give the folder of runs that it is in as --out") from error
    kept = {section: found[section] for section in ("benchmark", "benchmark_options", "model", "data")}
    return kept | {"start": {"run": name.as_posix(), "model": found["model"]}}
