"""The HTML page: the report as one file that needs nothing beside it, no network and no other file.

Every text that comes from a run or a preset is escaped on its way in. The page also forbids itself to load anything.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from PIL import Image

from xcnorm._version import __version__
from xcnorm.engine.experiment import to_toml
from xcnorm.report.arms import Arm
from xcnorm.report.build import ORACLE, SELECTIONS, Report, Section
from xcnorm.report.charts import Chart, Series
from xcnorm.report.figures import inline_chart
from xcnorm.report.palette import DARK, LIGHT, Palette
from xcnorm.report.runs import Broken, Run
from xcnorm.report.sheets import Picture, Sheet
from xcnorm.report.tables import Cell, Row, Table

_PAGE = files("xcnorm.report") / "page"
_RANKS = {0: "", 1: "best", 2: "second"}


def html(report: Report, sheets: Sequence[Sheet | str], functions: Iterable[Chart]) -> str:
    """The page.

    Args:
        report: What to show.
        sheets: For each section its contact sheet, or why there is none.
        functions: Charts that belong to no section.
    """
    runs = sum(len(arm.runs) for section in report.sections for arm in section.arms)
    lead = f"{_count(runs, 'run')}; results of {SELECTIONS[report.selection]}"
    parts = []
    for number, (section, sheet) in enumerate(zip(report.sections, sheets, strict=True)):
        parts.append((section.title, _section(section, sheet, f"section{number}")))
    parts.append(("Functions", chart_cards(functions, "functions")))
    parts.append(("Runs", "".join(_details(section) for section in report.sections)))
    main = [f'<p class="card warning"><b>Diagnostic.</b> {escape(ORACLE)}</p>'] if report.selection == "oracle" else []
    if report.broken:
        main.append(_broken(report.broken))
    return whole_page(report.title, lead, "".join(main), parts, "from run folders alone")


def whole_page(title: str, lead: str, first: str, parts: Iterable[tuple[str, str]], source: str) -> str:
    """A page of parts, each under a heading that the top of the page links to.

    Args:
        title: Its heading.
        lead: What stands below that.
        first: HTML that comes before all parts.
        parts: The heading of each part, and its HTML.
        source: What it was made from.
    """
    links, main = [], [first]
    for number, (heading, content) in enumerate(parts):
        links.append(f'<a href="#part{number}">{escape(heading)}</a>')
        main.append(f'<h2 id="part{number}">{escape(heading)}</h2>{content}')
    return Template(_file("page.html")).substitute(
        title=escape(title),
        lead=escape(lead),
        version=escape(__version__),
        source=escape(source),
        nav="".join(links),
        main="\n".join(main),
        style=stylesheet(),
        script=script(),
    )


def stylesheet() -> str:
    """What pages look like, light and dark."""
    return Template(_file("page.css")).substitute(light=_variables(LIGHT), dark=_variables(DARK))


def script() -> str:
    """What makes pages move: light or dark, tables that can be sorted, values of charts."""
    return _file("page.js")


def _file(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def _variables(palette: Palette) -> str:
    return "".join(f"{name}: {colour}; " for name, colour in palette.variables.items())


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _broken(broken: Iterable[Broken]) -> str:
    items = [f"<li><code>{escape(str(b.folder))}</code>: {escape(b.reason)}</li>" for b in broken]
    return (
        f'<section class="card warning" id="broken"><h3>Not in this report: {_count(len(items), "run")}</h3>'
        f"<ul>{''.join(items)}</ul></section>"
    )


def _section(section: Section, sheet: Sheet | str, name: str) -> str:
    parts = [note_list(section.notes)]
    parts += [table_card(table) for table in section.tables]
    parts.append(chart_cards(section.charts, name))
    parts.append(_sheet(sheet) if isinstance(sheet, Sheet) else note_list([f"There is no contact sheet: {sheet}."]))
    return "".join(parts)


def note_list(lines: Iterable[str]) -> str:
    """Notes, one to a line; nothing where there are none."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="notes">{items}</ul>' if items else ""


def table_card(table: Table, rows_are: str = "Method") -> str:
    """A table that can be sorted, with its notes.

    Args:
        table: What to show.
        rows_are: The heading of its first column.
    """
    first = "ascending" if table.measure.lower_is_better else "descending"
    heads = [f'<th scope="col" data-first="ascending"><button type="button">{escape(rows_are)}</button></th>']
    for column in table.columns:
        name = f"{escape(column.name)}{_marks(column.notes)}"
        heads.append(f'<th scope="col" data-first="{first}"><button type="button">{name}</button></th>')
    rows = "".join(_row(table, row) for row in table.rows)
    numbered = "".join(f"<li>{_marks((n,))} {escape(note)}</li>" for n, note in enumerate(table.notes))
    compared = "".join(f"<li>{escape(sentence)}</li>" for sentence in table.comparisons)
    below = f'<ul class="notes">{numbered}{compared}</ul>' if numbered or compared else ""
    verdict = f'<p class="verdict">{escape(table.verdict)}</p>' if table.verdict else ""
    return f"""<section class="card"><h3>{escape(table.title)}</h3><p class="unit">{escape(table.caption)}</p>
<div class="scroll"><table class="sortable"><thead><tr>{"".join(heads)}</tr></thead><tbody>{rows}</tbody></table></div>
{verdict}{below}</section>"""


def _row(table: Table, row: Row) -> str:
    measured = row.origin == "measured"
    tag = "" if measured else f'<span class="tag">{row.origin}</span>'
    head = f'<th scope="row" data-value="{escape(row.label)}">{escape(row.label)}{tag}{_marks(row.notes)}</th>'
    cells = "".join(_cell(table, cell) for cell in row.cells)
    return f"<tr{'' if measured else ' class=unmeasured'}>{head}{cells}</tr>"


def _cell(table: Table, cell: Cell) -> str:
    value = "" if cell.value is None else repr(cell.value)
    number = f'<span class="{_RANKS[cell.rank]}">{table.number(cell.value)}</span>'
    spread = "" if cell.deviation is None else f' <span class="spread">± {table.number(cell.deviation)}</span>'
    beside = ""
    if cell.gap is not None:
        kind = "missed" if table.miss(cell) else "reached"
        beside = (
            f'<span class="paper">paper {table.number(cell.paper)} <span class="{kind}">{table.gap(cell)}</span></span>'
        )
    elif cell.paper is not None:
        beside = f'<span class="paper">paper {table.number(cell.paper)}</span>'
    interval = ""
    if cell.low is not None and cell.high is not None:
        interval = f"; 95 % interval of the mean {table.number(cell.low)} to {table.number(cell.high)}"
    seeds = f' title="{_count(cell.count, "seed")}{interval}"' if cell.count else ""
    return f'<td data-value="{value}"{seeds}>{number}{spread}{_marks(cell.notes)}{beside}</td>'


def _marks(notes: Iterable[int]) -> str:
    numbers = ",".join(str(note + 1) for note in notes)
    return f"<sup>{numbers}</sup>" if numbers else ""


def chart_cards(charts: Iterable[Chart], place: str) -> str:
    """Charts side by side.

    Args:
        charts: What to draw.
        place: What no other group of charts on the page is called.
    """
    return f'<div class="charts">{"".join(_chart(chart, f"{place}-{chart.name}") for chart in charts)}</div>'


def _chart(chart: Chart, name: str) -> str:
    """A chart with its legend, its values and a place for the one that is pointed at."""
    svg, places = inline_chart(chart, name)
    legend = "".join(
        f'<span style="--c:{_colour(series)}"{" class=dashed" if series.dashed else ""}>{escape(series.name)}</span>'
        for series in chart.series
    )
    # A text such as </script> in a label must not end the element it stands in.
    stops = json.dumps([_stop(chart, *x) for x in zip(chart.places, places, strict=True)]).replace("<", "\\u003c")
    title = escape(chart.title)
    return f"""<figure class="chart card" tabindex="0" aria-label="{title}; arrow keys show the values">
<figcaption>{title}</figcaption><div class="legend">{legend}</div>{svg}
<div class="tip" role="status" hidden></div><script type="application/json">{stops}</script></figure>"""


def _colour(series: Series) -> str:
    return f"var(--s{series.colour % len(LIGHT.series)})"


def _stop(chart: Chart, x: float, place: float) -> dict[str, object]:
    """What is shown when a place along x is pointed at."""
    values = []
    for series in chart.series:
        if x in series.x:
            index = series.x.index(x)
            y, low, high = (f"{n[index]:.{chart.decimals}f}" for n in (series.y, series.low, series.high))
            spread = f" ({low} to {high})" if low != high else ""
            values.append((_colour(series), series.name, y.replace("-", "−") + spread))
    name = chart.ticks[int(x)] if chart.ticks else f"{x:g}"
    return {"x": place, "title": f"{chart.x_label} {name}".strip(), "values": values}


def _sheet(sheet: Sheet) -> str:
    rows = []
    for domain, pictures in sheet.rows.items():
        rows.append(f'<div class="domain"><b>{escape(domain)}</b>{"".join(map(_picture, pictures))}</div>')
    # It can be wider than the screen, and must then be reached by the keyboard to be moved.
    part = f'<div class="sheet" tabindex="0" role="group" aria-label="Contact sheet">{"".join(rows)}</div>'
    return f'<section class="card"><h3>{escape(sheet.title)}</h3>{part}</section>'


def _picture(picture: Picture) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture.pixels).save(buffer, "png")
    source = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    lines = []
    for guess in picture.guesses:
        kind, sign = ("reached", "✓") if guess.right else ("missed", "✗")
        text = f"{sign} {escape(guess.name)} {round(100 * guess.confidence)} %"
        lines.append(f'<div class="{kind}" title="{escape(guess.arm)}">{text}</div>')
    return f'<div class="picture"><img src="{source}" alt="{escape(picture.truth)}">{"".join(lines)}</div>'


def _details(section: Section) -> str:
    items = "".join(_run(arm, run) for arm in section.arms for run in arm.runs)
    return f'<section class="card"><h3>{escape(section.title)}</h3>{items}</section>'


def _run(arm: Arm, run: Run) -> str:
    source = f", source {run.source}" if run.source else ""
    time = f"<small>{run.metrics['steps']:,} steps in {_time(run.metrics['seconds'])}</small>"
    return f"""<details><summary><b>{escape(arm.label)}</b>, seed {run.seed}{escape(source)} {time}</summary>
<code>{escape(str(run.folder))}</code>
<div class="columns"><pre>{escape(to_toml(run.config))}</pre><pre>{escape("".join(_lines(run.environment)))}</pre></div>
</details>"""


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _lines(values: Mapping[str, object]) -> Iterator[str]:
    for key, value in values.items():
        yield f"{key}: {value if isinstance(value, str) else json.dumps(value)}\n"
