"""Charts as inline SVG: drawn here, so that they can be seen without a script, which only adds the hovering.

A chart carries a list of stops, the places along x where it has values, with what is to be shown there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from html import escape

from xcnorm.report.charts import Chart, Series
from xcnorm.report.palette import LIGHT

_WIDTH, _HEIGHT = 560, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 10, 46

_Scale = Callable[[float], float]


def chart_html(chart: Chart) -> str:
    """A chart with its legend, its values and a place for the one that is pointed at."""
    low, high = _range(chart)
    ticks = list(_ticks(low, high, chart.logarithmic))
    across, up = _across(chart), _up(low, high, chart.logarithmic)
    marks = _bars(chart, across, up) if chart.bars else _lines(chart, across, up)
    legend = "".join(
        f'<span style="--c:{_colour(series)}"{" class=dashed" if series.dashed else ""}>{escape(series.name)}</span>'
        for series in chart.series
    )
    # A text such as </script> in a label must not end the element it stands in.
    stops = json.dumps(list(_stops(chart, across))).replace("<", "\\u003c")
    return f"""<figure class="chart card" tabindex="0" aria-label="{escape(chart.title)}; arrow keys show the values">
<figcaption>{escape(chart.title)}</figcaption><div class="legend">{legend}</div>
<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(chart.title)}">
<rect width="{_WIDTH}" height="{_HEIGHT}" fill="transparent"/>
{"".join(_axes(chart, across, up, ticks))}{"".join(marks)}
<line class="cross" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" visibility="hidden"/></svg>
<div class="tip" role="status" hidden></div><script type="application/json">{stops}</script></figure>"""


def _colour(series: Series) -> str:
    return f"var(--s{series.colour % len(LIGHT.series)})"


def _range(chart: Chart) -> tuple[float, float]:
    low = min(min(series.low) for series in chart.series)
    high = max(max(series.high) for series in chart.series)
    if chart.logarithmic:
        return low / 1.15, high * 1.15
    low = min(0.0, low) if chart.bars else low
    margin = 0.05 * (high - low) or 1.0
    return (low if chart.bars else low - margin), high + margin


def _across(chart: Chart) -> _Scale:
    if chart.ticks:
        first, last = -0.5, len(chart.ticks) - 0.5
    else:
        first = min(series.x[0] for series in chart.series)
        last = max(series.x[-1] for series in chart.series)
    width = _WIDTH - _LEFT - _RIGHT
    return lambda x: _LEFT + width * (x - first) / ((last - first) or 1)


def _up(low: float, high: float, logarithmic: bool) -> _Scale:
    place: _Scale = math.log if logarithmic else float
    height = _HEIGHT - _TOP - _BOTTOM
    return lambda y: _HEIGHT - _BOTTOM - height * (place(y) - place(low)) / (place(high) - place(low))


def _ticks(low: float, high: float, logarithmic: bool) -> Iterator[float]:
    """Round numbers within a range, some five of them."""
    if logarithmic:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
        steps = (1, 2, 5) if len(decades) < 4 else (1,)
        yield from (t for d in decades for s in steps if low <= (t := s * 10.0**d) <= high)
        return
    rough = (high - low) / 6
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(s * decade for s in (1, 2, 5, 10) if s * decade >= rough)
    yield from (n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1))


def _axes(chart: Chart, across: _Scale, up: _Scale, ticks: list[float]) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    for tick in ticks:
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
    if chart.ticks:
        named = {float(place): name for place, name in enumerate(chart.ticks)}
    else:
        ends = min(s.x[0] for s in chart.series), max(s.x[-1] for s in chart.series)
        named = {tick: f"{tick:g}" for tick in _ticks(*ends, logarithmic=False)} if ends[0] < ends[1] else {}
    for place, name in named.items():
        yield f'<text x="{across(place):.1f}" y="{bottom + 18}" text-anchor="middle">{escape(name)}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(chart.x_label)}</text>'
    yield f'<text transform="translate(13 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
    yield f"{escape(chart.y_label)}</text>"


def _lines(chart: Chart, across: _Scale, up: _Scale) -> Iterator[str]:
    for series in chart.series:
        upper = [f"{across(x):.1f},{up(y):.1f}" for x, y in zip(series.x, series.high, strict=True)]
        lower = [f"{across(x):.1f},{up(y):.1f}" for x, y in zip(series.x, series.low, strict=True)]
        line = [f"{across(x):.1f},{up(y):.1f}" for x, y in zip(series.x, series.y, strict=True)]
        dash = ' stroke-dasharray="6 5"' if series.dashed else ""
        if upper != lower:
            yield f'<polygon class="band" fill="{_colour(series)}" points="{" ".join(upper + lower[::-1])}"/>'
        yield f'<polyline class="line" stroke="{_colour(series)}"{dash} points="{" ".join(line)}"/>'
        if len(line) <= 12:
            for point in line:
                x, y = point.split(",")
                yield f'<circle cx="{x}" cy="{y}" r="3.5" fill="{_colour(series)}"/>'


def _bars(chart: Chart, across: _Scale, up: _Scale) -> Iterator[str]:
    width = 0.8 / len(chart.series)
    for number, series in enumerate(chart.series):
        look = (
            f'fill="none" stroke-dasharray="4 3" stroke="{_colour(series)}"'
            if series.dashed
            else f'fill="{_colour(series)}"'
        )
        for x, y, low, high in zip(series.x, series.y, series.low, series.high, strict=True):
            left, right = (across(x - 0.4 + (number + side) * width) for side in (0.04, 0.96))
            top, foot = sorted((up(y), up(0)))
            size = f'width="{right - left:.1f}" height="{foot - top:.1f}"'
            yield f'<rect x="{left:.1f}" y="{top:.1f}" {size} rx="2" {look}/>'
            if low < high:
                middle = f"{(left + right) / 2:.1f}"
                yield f'<line class="whisker" x1="{middle}" x2="{middle}" y1="{up(low):.1f}" y2="{up(high):.1f}"/>'


def _stops(chart: Chart, across: _Scale) -> Iterator[dict[str, object]]:
    for x in sorted({x for series in chart.series for x in series.x}):
        name = chart.ticks[int(x)] if chart.ticks else f"{x:g}"
        values = []
        for series in chart.series:
            if x in series.x:
                place = series.x.index(x)
                y, low, high = (
                    f"{numbers[place]:.{chart.decimals}f}" for numbers in (series.y, series.low, series.high)
                )
                spread = f" ({low} to {high})" if low != high else ""
                values.append((series.colour % len(LIGHT.series), series.name, y.replace("-", "−") + spread))
        yield {"x": round(across(x), 1), "title": f"{chart.x_label} {name}".strip(), "values": values}
