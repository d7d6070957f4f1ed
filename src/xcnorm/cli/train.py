"""`xcnorm train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from xcnorm.cli import _experiments, _output


def command(
    benchmark: Annotated[str, typer.Option(help="What to learn; xcnorm data list shows the names.")] = "digits-mini",
    method: Annotated[str, typer.Option(help="How to train, such as erm or randconv.")] = "erm",
    model: Annotated[
        str | None, typer.Option(help="The network; unless given, the recipe's.", show_default=False)
    ] = None,
    layer: Annotated[str, typer.Option(help="conv, xcnorm or r_xcnorm.")] = "conv",
    recipe: Annotated[str, typer.Option(help="Optimiser and schedule: fast, paper, cifar_fast or mini.")] = "fast",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    changes: _experiments.Changes = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A config.toml, instead of the options above but --set.", show_default=False),
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
    from xcnorm.evaluate.protocol import complete

    if config is not None:
        values = merge(read_config(config), _experiments.parse_changes(changes))
    else:
        chosen: dict[str, Any] = {"benchmark": benchmark, "seed": seed}
        chosen |= {"method": {"name": method}, "model": {"layer": layer} | ({"name": model} if model else {})}
        values = merge(load_recipe(recipe, benchmark), chosen, _experiments.parse_changes(changes))
    experiment = make_experiment(values)
    if dry_run:
        folder = RunFolder.of(experiment, out)
        if json:
            values = experiment.model_dump(mode="json")
            _output.print_json({"folder": str(folder.path), "finished": folder.finished, "experiment": values})
        else:
            print(f"# {folder.path}\n{experiment.to_toml()}", end="")
        return
    with world(device) as here, _output.training_bar(str(experiment.folder), show=here.leads) as bar:
        folder = complete(experiment, out, here, data=data, progress=bar.update, said=bar.say, tensorboard=tensorboard)
    if here.leads:
        _output.print_run(folder.path, json)
