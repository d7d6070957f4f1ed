"""The page of an audit: one HTML file that needs nothing beside it, in the looks of a report's."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from statistics import fmean

from xcnorm.auditing.result import Audit, AuditedModel, Specimen
from xcnorm.auditing.verdict import verdict
from xcnorm.data.grid import SEVERITIES
from xcnorm.errors import UserError
from xcnorm.report.charts import Chart, Series
from xcnorm.report.html import chart_cards, note_list, table_card, whole_page
from xcnorm.report.tables import Cell, Column, Measure, Row, Table

_CLASSES = 20  # of the classes that lose most; more would hide them

_GROUPINGS = {
    "sdg4": "brightness and contrast count as digital",
    "all19": "the four validation corruptions included; brightness and contrast count as digital",
}


def page(audit: Audit) -> str:
    """The page.

    Every text that comes from outside, such as the name of a class or of a picture, is escaped on its way in.

    Raises:
        UserError: Matplotlib is missing, which the charts need.
    """
    several = len(audit.models) > 1
    title = f"Audit of {len(audit.models)} models" if several else f"Audit of {audit.models[0].name}"
    height, width = audit.size
    lead = (
        f"{audit.count:,} pictures of {width}x{height} pixels from {audit.data}; {audit.types}, each at five "
        f"severities, as strong as in {'CIFAR-10-C' if audit.constants == 'cifar' else 'ImageNet-C'}; seed {audit.seed}"
    )
    paragraphs = "".join(f'<p class="paragraph">{escape(verdict(audit, model))}</p>' for model in audit.models)
    parts = [
        (
            "Verdict",
            f'<section class="card">{paragraphs}</section>{_notes(audit)}{table_card(_overview(audit), "Model")}',
        ),
        ("Charts", chart_cards(_charts(audit), "audit")),
        ("Corruptions", "".join(table_card(table, head) for table, head in _details(audit))),
        ("First to break", "".join(map(_first_to_break, audit.models))),
    ]
    return whole_page(
        title, lead, "", parts, f"from {audit.count:,} pictures, with random numbers of seed {audit.seed}"
    )


def _notes(audit: Audit) -> str:
    lines = [(model.name, note) for model in audit.models for note in model.notes]
    if not lines:
        return ""
    items = "".join(f"<li><b>{escape(name)}</b>: {escape(note)}</li>" for name, note in lines)
    return f'<section class="card warning"><h3>To know</h3><ul>{items}</ul></section>'


def _overview(audit: Audit) -> Table:
    columns: dict[str, Callable[[AuditedModel], float | None]] = {
        "clean": lambda m: 100 * m.clean.accuracy,
        "corrupted": lambda m: 100 * m.corrupted,
        "drop": lambda m: 100 * m.drop,
        "worst": lambda m: 100 * min(m.by_corruption.values()),
        "confidence": lambda m: 100 * m.confidence,
        "ECE clean": lambda m: 100 * m.clean.calibration_error,
        "ECE": lambda m: 100 * m.calibration_error,
    }
    if audit.baseline is not None:
        columns |= {"mCE": lambda m: m.mce, "rel. mCE": lambda m: m.relative_mce}
    rows = [(model.name, [value(model) for value in columns.values()]) for model in audit.models]
    notes = [f"{model.name}: pictures were normalised with {model.normalisation}" for model in audit.models]
    return _table(
        "All corruptions together",
        Measure("percent", lower_is_better=None, averaged=False),
        list(columns),
        rows,
        caption="percent; worst: under the worst corruption; confidence, ECE (calibration error): under corruption",
        comparisons=notes,
    )


def _details(audit: Audit) -> Iterator[tuple[Table, str]]:
    accuracy = Measure("accuracy in percent", averaged=False, lower_is_better=None)
    score = Measure("MRS", decimals=3, averaged=False, lower_is_better=None)
    names = list(audit.models[0].categories(audit.grouping))
    rows = [(m.name, [100 * m.categories(audit.grouping)[name] for name in names]) for m in audit.models]
    caption = f"accuracy in percent over five severities; {_GROUPINGS[audit.grouping]}"
    yield _table("Accuracy by category", accuracy, names, rows, caption=caption), "Model"
    names = list(audit.models[0].robustness_categories)
    rows = [(m.name, [m.robustness_categories[name] for name in names]) for m in audit.models]
    caption = "how far predictions move, in nats; lower is better"
    yield _table("Model Robustness Score by category", score, names, rows, caption=caption), "Model"
    if len(audit.models) > 1:
        beside = [(_words(n), [100 * m.by_corruption[n] for m in audit.models]) for n in audit.corruptions]
        heads = [model.name for model in audit.models]
        caption = "accuracy in percent over five severities"
        yield _table("Accuracy side by side", accuracy, heads, beside, caption=caption), "Corruption"
    for model in audit.models:
        whose = f" of {model.name}" if len(audit.models) > 1 else ""
        heads = [*(f"severity {severity}" for severity in SEVERITIES), "mean", "ECE", "MRS"]
        grid = []
        for name, mean in model.by_corruption.items():
            cells = [model.cells[f"{name}/{severity}"] for severity in SEVERITIES]
            errors = fmean(scored.calibration_error for scored in cells)
            numbers = [*(100 * scored.accuracy for scored in cells), 100 * mean, 100 * errors, model.robustness[name]]
            grid.append((_words(name), numbers))
        caption = (
            f"accuracy in percent, and its mean; {100 * model.clean.accuracy:.2f} on clean pictures; "
            "calibration error in percent; robustness score"
        )
        yield _table(f"Accuracy{whose} by corruption", accuracy, heads, grid, caption=caption), "Corruption"


def _first_to_break(model: AuditedModel) -> str:
    broken = sorted(model.classes, key=lambda scored: -scored.drop)[:_CLASSES]
    cells = [(f"{c.name} ({c.count:,})", [100 * c.clean, 100 * c.corrupted, 100 * c.drop]) for c in broken]
    left = len(model.classes) - len(broken)
    table = _table(
        f"Classes that lose most: {model.name}",
        Measure("percent", decimals=1, lower_is_better=None, averaged=False),
        ["clean", "corrupted", "drop"],
        cells,
        caption="accuracy in percent; behind the name the number of pictures"
        + (f"; the other {left} classes lose less" if left else ""),
        comparisons=[f"{c.name}: worst under {_words(c.worst)}" for c in broken[:3] if c.drop > 0],
    )
    twins = "".join(map(_twins, model.specimens))
    if not twins:
        return table_card(table, "Class") + note_list([f"{model.name}: no picture that is recognised clean breaks."])
    return (
        f'{table_card(table, "Class")}<h3>Pictures that break first: {escape(model.name)}</h3><p class="unit">'
        f'recognised when clean, beside the mildest corruption that breaks them</p><div class="twins">{twins}</div>'
    )


def _twins(specimen: Specimen) -> str:
    what = f"{_words(specimen.corruption)} {specimen.severity}"
    sure, deceived = round(100 * specimen.confidence), round(100 * specimen.guess_confidence)
    return f"""<figure class="card"><figcaption>{escape(specimen.name)}</figcaption><div class="pair">
<div>{_image(specimen.clean_png, f"{specimen.name}, clean")}<small>clean</small>
<span class="reached">✓ {escape(specimen.truth)} {sure} %</span></div>
<div>{_image(specimen.broken_png, f"{specimen.name}, {what}")}<small>{escape(what)}</small>
<span class="missed">✗ {escape(specimen.guess)} {deceived} %</span></div></div>
<small>withstands {specimen.withstood:.1f} of 5 severities on average</small></figure>"""


def _words(name: str) -> str:
    return name.replace("_", " ")


def _image(png: str, alt: str) -> str:
    try:
        base64.b64decode(png, validate=True)
    except binascii.Error as error:  # a file somebody changed
        raise UserError("the audit holds a picture that is none; audit again") from error
    return f'<img src="data:image/png;base64,{png}" alt="{escape(alt)}">'


def _charts(audit: Audit) -> Iterator[Chart]:
    lines: dict[str, tuple[str, str, Callable[[AuditedModel], Mapping[int, float]]]] = {
        "severity": ("Accuracy by severity", "accuracy in percent", lambda m: m.by_severity),
        "calibration": ("Calibration error by severity", "ECE in percent", lambda m: _mean_errors(m)),
    }
    for name, (title, label, values) in lines.items():
        series = [_series(m.name, values(m).items(), place, 100) for place, m in enumerate(audit.models)]
        yield Chart(name, f"{title}; 0 is clean", "severity", label, tuple(series))
    bars: dict[str, tuple[str, str, Callable[[AuditedModel], Mapping[str, float]], float]] = {
        "categories": ("Accuracy by category", "accuracy in percent", lambda m: m.categories(audit.grouping), 100),
        "mrs": ("Model Robustness Score; lower is better", "MRS", lambda m: m.robustness_categories, 1),
    }
    for name, (title, label, groups, factor) in bars.items():
        ticks = tuple(groups(audit.models[0]))
        series = [_series(m.name, enumerate(groups(m).values()), place, factor) for place, m in enumerate(audit.models)]
        yield Chart(name, title, "", label, tuple(series), bars=True, ticks=ticks, decimals=2 if factor > 1 else 3)


def _mean_errors(model: AuditedModel) -> dict[int, float]:
    """The mean calibration error at each severity, over the corruptions."""
    found = {0: model.clean.calibration_error}
    for severity in SEVERITIES:
        errors = [model.cells[f"{name}/{severity}"].calibration_error for name in model.robustness]
        found[severity] = fmean(errors)
    return found


def _series(name: str, points: Iterable[tuple[int, float]], colour: int, factor: float) -> Series:
    x, y = zip(*((float(place), factor * value) for place, value in points), strict=True)
    return Series(name, x, y, y, y, colour)


def _table(
    title: str,
    measure: Measure,
    columns: list[str],
    rows: Iterable[tuple[str, list[float | None]] | tuple[str, list[float]]],
    *,
    caption: str,
    comparisons: Iterable[str] = (),
) -> Table:
    made = tuple(Row(name, tuple(Cell(value) for value in values)) for name, values in rows)
    heads = tuple(Column(name) for name in columns)
    return Table(title, measure, heads, made, (), tuple(comparisons), heading=title, caption=caption)
