"""`xcnorm train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from xcnorm.cli import _experiments, _output, _runs
from xcnorm.errors import UserError


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
    layer: Annotated[str | None, typer.Option(help="conv, xcnorm or r_xcnorm.", show_default="conv")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="Optimiser and schedule: fast, paper, cifar_fast or mini.", show_default="fast"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random.", show_default="0")] = None,
    changes: _experiments.Changes = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A config.toml to start from, instead of the options above.", show_default=False),
    ] = None,
    data: _experiments.Data = None,
    out: _experiments.Runs = Path("runs"),
    device: _experiments.Device = "auto",
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
    from xcnorm.engine import load_recipe, make_experiment, world
    from xcnorm.engine.experiment import merge
    from xcnorm.engine.runs import RunFolder, read_config
    from xcnorm.evaluate.complete import complete

    if config is not None:
        beside = {
            "benchmark": benchmark,
            "method": method,
            "augment": augment,
            "model": model,
            "layer": layer,
            "recipe": recipe,
            "seed": seed,
        }
        for option, value in beside.items():
            if value is not None:
                raise UserError(f"--{option} is for a recipe, not for --config; change the file's settings with --set")
        values = merge(read_config(config), _experiments.parse_changes(changes))
    else:
        benchmark = benchmark or "digits-mini"
        chosen: dict[str, Any] = {"benchmark": benchmark, "seed": seed or 0}
        chosen["method"] = {"name": method or "erm", "augment": augment or "none"}
        chosen["model"] = {"layer": layer or "conv"}
        if model is not None:
            chosen["model"]["name"] = model
        values = merge(load_recipe(recipe or "fast", benchmark), chosen, _experiments.parse_changes(changes))
    experiment = make_experiment(values)
    if dry_run:
        folder = RunFolder.of(experiment, out)
        if json:
            values = experiment.model_dump(mode="json")
            _output.print_json({"folder": str(folder.path), "finished": folder.finished, "experiment": values})
        else:
            print(f"# {folder.path}\n{experiment.to_toml()}", end="")
        return
    with world(device) as here, _runs.training_bar(str(experiment.folder), show=here.leads) as bar:
        folder = complete(experiment, out, here, data=data, progress=bar.update, said=bar.say, tensorboard=tensorboard)
    if here.leads:
        _runs.print_run(folder.path, json)
