"""Renderers: tables as text, for the terminal, in Markdown, LaTeX and CSV.

The best number of a column is bold and underlined and the second best underlined, as in the paper. Under a row for
which the paper has numbers stand two more: the paper's, and the gap between ours and theirs.
"""

from __future__ import annotations

import csv as csv_module
import io
import re
from collections.abc import Iterable, Iterator

import rich.table
from rich.box import SIMPLE_HEAD
from rich.text import Text

from xcnorm.errors import printable
from xcnorm.report.build import ORACLE, Report
from xcnorm.report.tables import DASH, Cell, Row, Table

_RANKS = {0: "", 1: "bold underline", 2: "underline"}
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    DASH: "--",
    "−": "$-$",
    "±": r"$\pm$",
}


def terminal(report: Report) -> Iterator[rich.table.Table | Text]:
    """What a rich console prints: tables, notes, and the runs that are not in the report."""
    if report.selection == "oracle":
        yield Text(ORACLE, style="bold yellow")
    for section in report.sections:
        yield from (Text(printable(f"Note: {note}"), style="dim") for note in section.notes)
        for table in section.tables:
            yield _terminal_table(table)
            yield from (Text(printable(line), style="dim") for line in _below(table))
    if report.broken:
        yield Text(f"\nNot in this report: {len(report.broken)} runs", style="bold yellow")
        yield from (Text(printable(f"  {broken.folder}: {broken.reason}")) for broken in report.broken)


def _terminal_table(table: Table) -> rich.table.Table:
    drawn = rich.table.Table(
        title=Text(printable(f"{table.heading}: {table.caption}")),
        box=SIMPLE_HEAD,
        pad_edge=False,
        title_justify="left",
    )
    drawn.add_column("")
    for column in table.columns:
        # With spaces, a name can go over two lines on a narrow terminal instead of being cut off.
        drawn.add_column(Text(printable(column.name.replace("_", " ")) + _marks(column.notes)), justify="right")
    for row in table.rows:
        cells = [Text(_measured(table, cell) + _marks(cell.notes), _RANKS[cell.rank]) for cell in row.cells]
        drawn.add_row(Text(printable(_label(row))), *cells)
        for label, beside in _beside(table, row):
            drawn.add_row(Text(printable(f"  {label}"), "dim"), *(Text(text, "dim") for text in beside))
    return drawn


def markdown(report: Report) -> str:
    """The whole report in Markdown."""
    parts = [f"# {_markdown_text(report.title)}"]
    if report.selection == "oracle":
        parts.append(f"**{ORACLE}**")
    for section in report.sections:
        if section.title != report.title:
            parts.append(f"## {_markdown_text(section.title)}")
        if section.notes:
            parts.append("\n".join(f"- {_markdown_text(note)}" for note in section.notes))
        parts += [markdown_table(table) for table in section.tables]
    if report.broken:
        lines = [f"- `{broken.folder}`: {_markdown_text(broken.reason)}" for broken in report.broken]
        parts += [f"## Not in this report: {len(report.broken)} runs", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """A table in Markdown."""
    ranks = {0: "{}", 1: "<u>**{}**</u>", 2: "<u>{}</u>"}
    lines = [
        _pipes(["", *(_markdown_text(column.name) + _marks(column.notes) for column in table.columns)]),
        "|---" + len(table.columns) * "|---:" + "|",
    ]
    for row in table.rows:
        cells = [ranks[cell.rank].format(_measured(table, cell)) + _marks(cell.notes) for cell in row.cells]
        lines.append(_pipes([_markdown_text(_label(row)), *cells]))
        lines += [_pipes([f"*{label}*", *(f"*{text}*" for text in beside)]) for label, beside in _beside(table, row)]
    below = [f"- {_markdown_text(line)}" for line in _below(table)]
    return "\n".join(
        [
            f"**{_markdown_text(table.heading)}**: {_markdown_text(table.caption)}",
            "",
            *lines,
            *([""] if below else []),
            *below,
        ]
    )


def latex(report: Report) -> str:
    """All tables in LaTeX, each a float of its own; needs the package booktabs."""
    return "\n".join(latex_table(table) for section in report.sections for table in section.tables)


def latex_table(table: Table) -> str:
    r"""A table in LaTeX with booktabs; ``\best`` and ``\second`` may be defined otherwise before it."""
    ranks = {0: "{}", 1: r"\best{{{}}}", 2: r"\second{{{}}}"}
    lines = [
        r"\providecommand{\best}[1]{\underline{\textbf{#1}}}",
        r"\providecommand{\second}[1]{\underline{#1}}",
        r"\begin{table}[t]",
        r"\centering",
        rf"\begin{{tabular}}{{l{len(table.columns) * 'r'}}}",
        r"\toprule",
        _ampersands(["Method", *(_latex_text(column.name) + _latex_marks(column.notes) for column in table.columns)]),
        r"\midrule",
    ]
    for before, row in zip((None, *table.rows), table.rows, strict=False):
        if before is not None and before.origin == "published" and row.origin != "published":
            lines.append(r"\midrule")
        cells = [
            ranks[cell.rank].format(_latex_text(_measured(table, cell))) + _latex_marks(cell.notes)
            for cell in row.cells
        ]
        lines.append(_ampersands([_latex_text(row.label) + _latex_marks(row.notes), *cells]))
        for label, beside in _beside(table, row):
            lines.append(_ampersands([rf"\quad {label}", *map(_latex_text, beside)]))
    notes = " ".join(f"{_latex_marks((n,))}{_latex_text(note)}." for n, note in enumerate(table.notes))
    said = " ".join(f"{_latex_text(sentence)}." for sentence in (table.verdict, *table.comparisons) if sentence)
    caption = f"{_latex_text(f'{table.heading}: {table.caption}')}. {notes} {said}".strip()
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}", ""])


def csv(report: Report) -> str:
    """All numbers, one to a line, unrounded."""
    stream = io.StringIO()
    writer = csv_module.writer(stream, lineterminator="\n")
    heads = ["section", "table", "unit", "row", "column", "value", "deviation", "seeds", "origin", "paper", "gap"]
    writer.writerow([*heads, "low", "high", "notes"])
    for section in report.sections:
        for table in section.tables:
            for row in table.rows:
                for column, cell in zip(table.columns, row.cells, strict=True):
                    notes = dict.fromkeys((*row.notes, *column.notes, *cell.notes))
                    where = [section.title, table.title, table.measure.unit, row.label, column.name]
                    numbers = [
                        cell.value,
                        cell.deviation,
                        cell.count,
                        row.origin,
                        cell.paper,
                        cell.gap,
                        cell.low,
                        cell.high,
                    ]
                    writer.writerow([*where, *numbers, "; ".join(table.notes[note] for note in notes)])
    return stream.getvalue()


def _label(row: Row) -> str:
    return row.label if row.origin == "measured" else f"{row.label} ({row.origin}){_marks(row.notes)}"


def _measured(table: Table, cell: Cell) -> str:
    spread = "" if cell.deviation is None else f" ± {table.number(cell.deviation)}"
    return table.number(cell.value) + spread


def _beside(table: Table, row: Row) -> Iterator[tuple[str, list[str]]]:
    """The paper's numbers and the gaps, for a row that has any."""
    if any(cell.paper is not None for cell in row.cells):
        yield "paper", [table.number(cell.paper) for cell in row.cells]
        yield "gap", [table.gap(cell) for cell in row.cells]


def _below(table: Table) -> Iterator[str]:
    for number, note in enumerate(table.notes):
        yield f"{_marks((number,))} {note}"
    yield from filter(None, (table.verdict, *table.comparisons))


def _marks(notes: Iterable[int]) -> str:
    """Raised numbers, counted from 1."""
    return ",".join(str(note + 1) for note in notes).translate(str.maketrans("0123456789,", "⁰¹²³⁴⁵⁶⁷⁸⁹·"))


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex_marks(notes: Iterable[int]) -> str:
    numbers = ",".join(str(note + 1) for note in notes)
    return rf"\textsuperscript{{{numbers}}}" if numbers else ""


def _ampersands(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
