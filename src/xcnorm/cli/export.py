"""`xcnorm export`: a trained network as a file for other runtimes, or as a folder to hand on."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xcnorm.cli import _arguments, _output
from xcnorm.errors import UserError

if TYPE_CHECKING:
    from xcnorm.auditing.subject import Subject
    from xcnorm.models import About


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A run's folder, a folder of save_pretrained, package.module:callable, timm:NAME or hf:NAME.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="FILE.onnx, FILE.pt2 (torch.export), FILE.aoti.pt2 (compiled), or a FOLDER for from_pretrained.",
            show_default=False,
        ),
    ],
    pixels: Annotated[
        int | None,
        typer.Option(min=4, help="Height and width it was made for, if that is not known.", show_default=False),
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Mean of normalisation, such as 0.5 or 0.485,0.456,0.406.", show_default=False)
    ] = None,
    std: Annotated[str | None, typer.Option(help="Deviation of normalisation.", show_default=False)] = None,
    device: Annotated[str, typer.Option(help="What a .pt2 or .aoti.pt2 computes on: cpu or cuda.")] = "cpu",
    json: _output.Json = False,
) -> None:
    """Write a trained network as a file that runs without xcnorm, or as a folder of description, weights and card.

    A file has its name only when it was read back and has answered as the network itself does.
    """
    import torch

    from xcnorm.auditing import open_model
    from xcnorm.export import export_model
    from xcnorm.export.exporting import find_format
    from xcnorm.models import save_pretrained

    folder = not out.suffix or out.is_dir()
    if not folder:
        find_format(out)  # before anything is loaded
    subject = open_model(model, torch.device("cpu"))
    if subject.module is None or Path(model).suffix.lower() == ".pt2":
        raise UserError(f"{model} was exported already; name the run, or whatever else it was made from")
    about = _about(subject, pixels, _arguments.parse_numbers("--mean", mean), _arguments.parse_numbers("--std", std))
    if folder:
        trained, metrics = _of_run(Path(model))
        written = save_pretrained(subject.module, out, about=replace(about, trained_on=trained), metrics=metrics)
        found: dict[str, Any] = {"folder": str(written), "metrics": metrics}
        told = f"Wrote {written}: load it with xcnorm.from_pretrained({str(written)!r})"
    else:
        exported = export_model(subject.module, out, about=about, device=device)
        found = {
            "file": str(exported.path),
            "format": exported.format,
            "any_size": exported.any_size,
            "difference": exported.difference,
        }
        told = f"Wrote {exported}"
    if json:
        _output.print_json(found)
    else:
        _output.results().print(told, soft_wrap=True, markup=False)


def _about(
    subject: "Subject", pixels: int | None, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> "About":
    """What is known of a network, and what was given in its place."""
    from xcnorm.models import About, Network

    module, own = subject.module, subject.normalisation
    made = module.made_of if isinstance(module, Network) else None
    return About(
        network=f"{made['name']} ({made['layer']})" if made else type(module).__name__,
        classes=subject.classes or (),
        mean=mean or (own.mean if own else None),
        std=std or (own.std if own else None),
        pixels=pixels or subject.pixels,
    )


def _of_run(path: Path) -> tuple[str, dict[str, float]]:
    """What a run learnt from and how, and what it scored; nothing of what is no run."""
    from xcnorm.engine import RunFolder

    if not (path / "metrics.json").is_file():
        return "", {}
    folder = RunFolder(path)
    experiment = folder.experiment()
    with folder.metrics() as metrics:
        tested, metric = metrics["selection"]["last"], metrics["metric"]
        scores = {f"{metrics['title']}, source": tested["source"], **tested["targets"]}
        known = {name: numbers[metric] for name, numbers in scores.items() if numbers[metric] is not None}
        how = f"{experiment.method.name}, {metrics['steps']} steps, seed {experiment.seed}"
        return f"{metrics['title']} ({experiment.benchmark}), by {how}", known
