"""Figures: charts and contact sheets drawn by matplotlib (the extra ``report``), as files and for the HTML page.

Files are PNG and SVG, for light pages and for dark ones. The same runs give the same files, byte for byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from xcnorm.extras import needed
from xcnorm.report.charts import Chart
from xcnorm.report.palette import DARK, LIGHT, Palette
from xcnorm.report.sheets import Sheet

_MARKERS = "os^Dv<>P"
_FEW = 12  # points that are few enough to be told apart


def require_matplotlib() -> Any:
    """Matplotlib, or the advice to install it.

    Raises:
        UserError: It is not installed.
    """
    with needed("figures", "report"):
        import matplotlib.figure
    return matplotlib


def save_chart(chart: Chart, stem: Path) -> list[Path]:
    """Draw a chart into files.

    Args:
        chart: What to draw.
        stem: The path of the files without what stands behind the name, such as ``.png`` or ``_dark.svg``.

    Returns:
        The files.
    """

    def draw(palette: Palette) -> Any:
        figure = _chart(chart, palette)
        figure.axes[0].set_title(_text(chart.title))
        figure.legend(loc="outside lower center", ncols=min(3, len(chart.series)), fontsize=9)
        return figure

    return _save(draw, stem)


def save_sheet(sheet: Sheet, stem: Path) -> list[Path]:
    """Draw a contact sheet into files; the arguments are those of `save_chart`."""
    return _save(lambda palette: _sheet(sheet, palette), stem)


def inline_chart(chart: Chart, name: str) -> tuple[str, list[float]]:
    """A chart as an SVG element for a page, without title and legend, in the colours of the page's CSS variables.

    Args:
        chart: What to draw.
        name: What no other SVG element of the page is called.

    Returns:
        The element, and where each of the chart's places along x lies in it, from left to right.
    """
    with _style(LIGHT, name, fonttype="none"):  # text stays text, in the page's own letters
        figure = _chart(chart, LIGHT)
        figure.patch.set_visible(False)
        figure.axes[0].patch.set_visible(False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    across = figure.axes[0].get_xaxis_transform()  # in pixels; an SVG is in points
    places = [round(across.transform((x, 0))[0] * 72 / figure.dpi, 1) for x in chart.places]
    return _element(buffer.getvalue(), chart.title, name), places


def _element(svg: bytes, title: str, name: str) -> str:
    """A file of matplotlib's as an element that can stand beside others like it."""
    colours = {colour: f"var({variable})" for variable, colour in LIGHT.variables.items()}
    root = ElementTree.fromstring(svg)
    names = {element.get("id") for element in root.iterfind(".//{*}defs/{*}path")}  # the markers, which are referred to
    for parent in root.iter():
        parent.tag = parent.tag.rpartition("}")[2]
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style", "clipPath"):
                parent.remove(child)  # a style would hold for the whole page, and nothing is outside the axes
        parent.attrib.pop("clip-path", None)
        if (own := parent.attrib.pop("id", None)) in names:
            parent.set("id", f"{name}-{own}")
        if (reference := parent.attrib.pop("{http://www.w3.org/1999/xlink}href", None)) is not None:
            parent.set("href", f"#{name}-{reference.removeprefix('#')}")
        for colour, variable in colours.items():
            if colour in parent.get("style", ""):
                parent.set("style", parent.get("style", "").replace(colour, variable))
    root.attrib = {"viewBox": root.get("viewBox", ""), "role": "img", "aria-label": _text(title)}
    ElementTree.SubElement(root, "line", {"class": "cross", "y1": "0", "y2": "100%", "visibility": "hidden"})
    return ElementTree.tostring(root, encoding="unicode")


def _save(draw: Callable[[Palette], Any], stem: Path) -> list[Path]:
    paths = []
    for palette, variant in ((LIGHT, ""), (DARK, "_dark")):
        with _style(palette, stem.name):
            figure = draw(palette)
            for suffix, metadata in ((".png", {}), (".svg", {"Date": None})):
                path = stem.with_name(f"{stem.name}{variant}{suffix}")
                figure.savefig(path, dpi=200, metadata=metadata)
                figure.set_layout_engine("none")  # it is laid out now; doing it again takes as long as all the rest
                paths.append(path)
    return paths


@contextmanager
def _style(palette: Palette, name: str, fonttype: str = "path") -> Iterator[None]:
    settings = {
        "figure.facecolor": palette.page,
        "axes.facecolor": palette.page,
        "savefig.facecolor": "auto",
        "text.color": palette.ink,
        "axes.labelcolor": palette.ink,
        "axes.edgecolor": palette.ink,
        "xtick.color": palette.ink,
        "ytick.color": palette.ink,
        "grid.color": palette.faint,
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "legend.frameon": False,
        "text.parse_math": False,  # a dollar in a label is a dollar
        "svg.hashsalt": name,  # else the names inside an SVG differ each time
        "svg.fonttype": fonttype,
    }
    with require_matplotlib().rc_context(settings):
        yield


def _text(text: str) -> str:
    """A text without what has no place in a picture: XML would break at control characters."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _chart(chart: Chart, palette: Palette) -> Any:
    matplotlib = require_matplotlib()
    figure = matplotlib.figure.Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.set_axisbelow(True)
    axes.grid(axis="y", linewidth=0.6)
    axes.set(xlabel=chart.x_label, ylabel=_text(chart.y_label))
    (_bars if chart.bars else _lines)(axes, chart, palette)
    if chart.ticks:
        axes.set_xticks(range(len(chart.ticks)), map(_text, chart.ticks))
        axes.set_xlim(-0.5, len(chart.ticks) - 0.5)
    if chart.logarithmic:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        powers = matplotlib.ticker.LogLocator(subs=(1, 2, 5) if high / low < 1e4 else (1,))
        axes.yaxis.set_major_locator(
            powers if high / low > 10 else matplotlib.ticker.MaxNLocator(6, steps=(1, 2, 5, 10))
        )
        axes.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    return figure


def _lines(axes: Any, chart: Chart, palette: Palette) -> None:
    for series in chart.series:
        colour = palette.colour(series.colour)
        marker = {"marker": _MARKERS[series.colour % len(_MARKERS)], "markersize": 4.5} if len(series.x) <= _FEW else {}
        style = "--" if series.dashed else "-"
        axes.plot(series.x, series.y, style, color=colour, linewidth=1.6, label=_text(series.name), **marker)
        if series.low != series.high:
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.18, linewidth=0)


def _bars(axes: Any, chart: Chart, palette: Palette) -> None:
    width = 0.8 / len(chart.series)
    for number, series in enumerate(chart.series):
        places = [x - 0.4 + (number + 0.5) * width for x in series.x]
        colour = palette.colour(series.colour)
        fill = {"color": "none", "edgecolor": colour, "linestyle": "--"} if series.dashed else {"color": colour}
        axes.bar(places, series.y, 0.92 * width, label=_text(series.name), **fill)
        if series.low != series.high:
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
    axes.text(left + 0.1, top + 0.2, _text(sheet.title), va="center", fontsize=10, fontweight="bold")
    for row, (name, pictures) in enumerate(sheet.rows.items()):
        axes.text(-0.1, row * high + 0.5, _text(name.replace("_", " ")), ha="right", va="center", fontsize=9)
        for column, picture in enumerate(pictures):
            x, y = column * wide, row * high
            axes.imshow(picture.pixels, extent=(x, x + 1, y + 1, y), interpolation="nearest")
            for line, guess in enumerate(picture.guesses):
                sign, colour = ("✓", palette.right) if guess.right else ("✗", palette.wrong)
                text = _text(f"{sign} {guess.name} {round(100 * guess.confidence)} %")
                axes.text(x + 0.5, y + 1.11 + 0.17 * line, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set(xlim=(left, right), ylim=(bottom, top))  # the last word: each picture sets its own
    return figure
