"""Charts and contact sheets as figures for papers and slides: PNG and SVG, for light pages and for dark ones.

The same runs give the same files, byte for byte. Needs matplotlib (the extra ``report``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xcnorm.errors import UserError
from xcnorm.report.charts import Chart
from xcnorm.report.palette import DARK, LIGHT, Palette
from xcnorm.report.sheets import Sheet

_MARKERS = "os^Dv<>P"


def require_matplotlib() -> Any:
    """Matplotlib, or the advice to install it.

    Raises:
        UserError: It is not installed.
    """
    try:
        import matplotlib.figure
    except ImportError as error:
        raise UserError('figures need matplotlib; install it with: pip install "xcnorm[report]"') from error
    return matplotlib


def draw_chart(chart: Chart, stem: Path) -> list[Path]:
    """Draw a chart.

    Args:
        chart: What to draw.
        stem: The path of the files without what stands behind the name, such as ``.png`` or ``_dark.svg``.

    Returns:
        The files.
    """
    return _save(lambda palette: _chart(chart, palette), stem)


def draw_sheet(sheet: Sheet, stem: Path) -> list[Path]:
    """Draw a contact sheet; the arguments are those of `draw_chart`."""
    return _save(lambda palette: _sheet(sheet, palette), stem)


def _save(draw: Any, stem: Path) -> list[Path]:
    matplotlib = require_matplotlib()
    paths = []
    for palette, variant in ((LIGHT, ""), (DARK, "_dark")):
        settings = {
            "figure.facecolor": palette.page,
            "axes.facecolor": palette.page,
            "savefig.facecolor": palette.page,
            "text.color": palette.ink,
            "axes.labelcolor": palette.ink,
            "axes.edgecolor": palette.ink,
            "xtick.color": palette.ink,
            "ytick.color": palette.ink,
            "grid.color": palette.faint,
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "legend.frameon": False,
            "text.parse_math": False,  # a dollar in a label is a dollar
            "svg.hashsalt": stem.name,  # else the names inside an SVG differ each time
        }
        with matplotlib.rc_context(settings):
            figure = draw(palette)
            for suffix, metadata in ((".png", {}), (".svg", {"Date": None})):
                path = stem.with_name(f"{stem.name}{variant}{suffix}")
                figure.savefig(path, dpi=200, metadata=metadata)
                figure.set_layout_engine("none")  # it is laid out now; doing it again takes as long as all the rest
                paths.append(path)
    return paths


def _chart(chart: Chart, palette: Palette) -> Any:
    figure = require_matplotlib().figure.Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.set_axisbelow(True)
    axes.grid(axis="y", linewidth=0.6)
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    (_bars if chart.bars else _lines)(axes, chart, palette)
    if chart.ticks:
        axes.set_xticks(range(len(chart.ticks)), chart.ticks)
    if chart.logarithmic:
        axes.set_yscale("log")
    figure.legend(loc="outside lower center", ncols=min(3, len(chart.series)), fontsize=9)
    return figure


def _lines(axes: Any, chart: Chart, palette: Palette) -> None:
    for series in chart.series:
        colour = palette.colour(series.colour)
        few = len(series.x) <= 12  # points that are few enough to be told apart
        marker = {"marker": _MARKERS[series.colour % len(_MARKERS)], "markersize": 4.5} if few else {}
        style = "--" if series.dashed else "-"
        axes.plot(series.x, series.y, style, color=colour, linewidth=1.6, label=series.name, **marker)
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.18, linewidth=0)


def _bars(axes: Any, chart: Chart, palette: Palette) -> None:
    width = 0.8 / len(chart.series)
    for number, series in enumerate(chart.series):
        places = [x - 0.4 + (number + 0.5) * width for x in series.x]
        colour = palette.colour(series.colour)
        fill = {"color": "none", "edgecolor": colour, "linestyle": "--"} if series.dashed else {"color": colour}
        axes.bar(places, series.y, 0.92 * width, label=series.name, **fill)
        if not series.dashed:
            spread = [[y - low for y, low in zip(series.y, series.low, strict=True)]]
            spread.append([high - y for y, high in zip(series.y, series.high, strict=True)])
            axes.errorbar(places, series.y, spread, fmt="none", ecolor=palette.ink, elinewidth=0.8, capsize=2)


def _sheet(sheet: Sheet, palette: Palette) -> Any:
    """All pictures on one pair of axes, whose unit is the side of a picture: axes for each would take seconds."""
    columns = max(len(pictures) for pictures in sheet.rows.values())
    lines = max(len(picture.guesses) for pictures in sheet.rows.values() for picture in pictures)
    wide, high = 1.1, 1.1 + 0.17 * lines
    left, right, top, bottom = -1.4, wide * columns, -0.4, high * len(sheet.rows)
    figure = require_matplotlib().figure.Figure(figsize=(right - left, bottom - top))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.text(left + 0.1, top + 0.2, sheet.title, va="center", fontsize=10, fontweight="bold")
    for row, (name, pictures) in enumerate(sheet.rows.items()):
        axes.text(-0.1, row * high + 0.5, name.replace("_", " "), ha="right", va="center", fontsize=9)
        for column, picture in enumerate(pictures):
            x, y = column * wide, row * high
            axes.imshow(picture.pixels, extent=(x, x + 1, y + 1, y), interpolation="nearest")
            for line, guess in enumerate(picture.guesses):
                sign, colour = ("✓", palette.right) if guess.right else ("✗", palette.wrong)
                text = f"{sign} {guess.name} {round(100 * guess.confidence)} %"
                axes.text(x + 0.5, y + 1.11 + 0.17 * line, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set(xlim=(left, right), ylim=(bottom, top))  # the last word: each picture sets its own
    return figure
