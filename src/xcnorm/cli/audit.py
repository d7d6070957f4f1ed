"""`xcnorm audit`: how well any model recognises pictures that go wrong."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xcnorm.cli import _arguments, _output

if TYPE_CHECKING:
    from xcnorm.auditing import Audit


def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="A run's folder, FILE.pt2, FILE.onnx, package.module:callable, timm:NAME or hf:NAME; several are "
            "compared.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path, typer.Option("--data", help="Folder of pictures: FOLDER/CLASS/picture.png.", show_default=False)
    ],
    types: Annotated[str, typer.Option(help="Corruptions: standard (15), all (19), or names between commas.")] = "all",
    mean: Annotated[
        str | None, typer.Option(help="Mean of normalisation, such as 0.5 or 0.485,0.456,0.406.", show_default=False)
    ] = None,
    std: Annotated[str | None, typer.Option(help="Deviation of normalisation.", show_default=False)] = None,
    pixels: Annotated[
        int | None, typer.Option(min=4, help="Height and width that pictures are brought to.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    device: _arguments.Device = "auto",
    baseline: Annotated[
        Path | None, typer.Option(help="A saved audit.json that mCE is relative to.", show_default=False)
    ] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=100,
            help="Exit with 1 if the accuracy under corruptions is lower, in percent.",
            show_default=False,
        ),
    ] = None,
    max_drop: Annotated[
        float | None,
        typer.Option(help="Exit with 1 if corruptions cost more than so many points.", show_default=False),
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="JUnit file to write.", show_default=False)] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for audit.html, audit.json, and what is known already.")
    ] = Path("xcnorm-audit"),
    json: _output.Json = False,
) -> int:
    """Audit models on your pictures: accuracy, confidence and calibration under corruptions, and what breaks first.

    The same command goes on where it was interrupted.
    """
    from xcnorm import auditing
    from xcnorm.files import disk_errors, write_text
    from xcnorm.report.figures import require_matplotlib

    require_matplotlib()  # before hours of work that it would be missing after
    reference = None if baseline is None else auditing.load_audit(baseline)
    audit = auditing.audit(
        models,
        data,
        corruptions=types,
        mean=_arguments.parse_numbers("--mean", mean),
        std=_arguments.parse_numbers("--std", std),
        pixels=pixels,
        seed=seed,
        device=device,
        baseline=reference,
        keep=out / "cells",
    )
    files = [out / "audit.json", out / "audit.html"]
    for file in files:
        audit.save(file)
    checked = auditing.check(audit, fail_under, max_drop)
    if junit is not None:
        with disk_errors(junit, "choose another --junit"):
            write_text(junit, auditing.junit(audit, checked))
        files.append(junit)
    failures = [one for one in checked if one.failure]
    if json:
        found = {"files": list(map(str, files)), "failures": [f"{one.model}: {one.failure}" for one in failures]}
        _output.print_json(audit.to_dict() | found)
    else:
        _print(audit)
        console = _output.results()
        console.print(f"Page: {out / 'audit.html'}", soft_wrap=True, markup=False)
        for one in failures:
            console.print(f"FAILED {one.model}: {one.failure}", soft_wrap=True, markup=False)
    return 1 if failures else 0


def _print(audit: "Audit") -> None:
    """A column for each model, a row for each corruption, and the verdicts."""
    from rich.markup import escape

    from xcnorm.auditing import verdict

    rows = [["clean", *(f"{100 * model.clean.accuracy:.2f}" for model in audit.models)]]
    rows += [
        [name, *(f"{100 * model.by_corruption[name]:.2f}" for model in audit.models)] for name in audit.corruptions
    ]
    rows.append(["mean of corruptions", *(f"{100 * model.corrupted:.2f}" for model in audit.models)])
    rows.append(["calibration error", *(f"{100 * model.calibration_error:.2f}" for model in audit.models)])
    heads = ["corruption", *(escape(model.name) for model in audit.models)]
    _output.print_table("Accuracy in percent, over five severities", heads, rows)
    console = _output.results()
    for model in audit.models:
        for note in model.notes:
            console.print(f"{model.name}: {note}", soft_wrap=True, markup=False)
        console.print(verdict(audit, model), soft_wrap=True, markup=False)
