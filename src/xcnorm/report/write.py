"""Output files of a report: a page with a folder of figures and tables beside it, or one text file."""

from __future__ import annotations

import re
from pathlib import Path

from xcnorm.errors import UserError, unknown_name
from xcnorm.files import write_text
from xcnorm.report import renderers
from xcnorm.report.build import Report
from xcnorm.report.charts import functions
from xcnorm.report.figures import require_matplotlib, save_chart, save_sheet
from xcnorm.report.html import html
from xcnorm.report.sheets import Sheet, make_sheet

TEXTS = {"markdown": renderers.markdown, "latex": renderers.latex, "csv": renderers.csv}
_SUFFIXES = {".html": "html", ".htm": "html", ".md": "markdown", ".tex": "latex", ".csv": "csv"}


def format_of(path: Path) -> str:
    """The format that the name of a file asks for.

    Raises:
        UserError: It asks for none that we have.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise UserError(f"{path}: {unknown_name('ending', path.suffix, _SUFFIXES)}; or choose one with --format")
    return _SUFFIXES[path.suffix.lower()]


def write(report: Report, path: Path, how: str, root: Path | None = None) -> list[Path]:
    """Write a report.

    Args:
        report: What to write.
        path: The file; what goes beside an HTML page is put into a folder of its name with ``_files`` behind it.
        how: ``"html"``, ``"markdown"``, ``"latex"`` or ``"csv"``.
        root: The folder that holds the data, for contact sheets.

    Returns:
        All files that were written, `path` first.

    Raises:
        UserError: Matplotlib is missing, which the page's figures need.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if how != "html":
        write_text(path, TEXTS[how](report))
        return [path]
    require_matplotlib()
    path.open("a").close()  # a file that cannot be written should not cost the figures first
    folder = path.with_name(f"{path.stem}_files")
    folder.mkdir(exist_ok=True)
    written = [path]
    sheets: list[Sheet | str] = []
    for section in report.sections:
        name = _slug(section.name)
        try:
            sheet = make_sheet(section, report.selection, root)
        except UserError as error:
            sheets.append(str(error))
        else:
            sheets.append(sheet)
            written += save_sheet(sheet, folder / f"{name}_sheet")
        for chart in section.charts:
            written += save_chart(chart, folder / f"{name}_{chart.name}")
        for table in section.tables:
            stem = folder / f"{name}_{_slug(table.title)}"
            for suffix, text in ((".md", renderers.markdown_table(table)), (".tex", renderers.latex_table(table))):
                write_text(stem.with_suffix(suffix), text)
                written.append(stem.with_suffix(suffix))
    for chart in functions():
        written += save_chart(chart, folder / chart.name)
    write_text(folder / "tables.csv", renderers.csv(report))
    write_text(path, html(report, sheets, functions()))
    return [*written, folder / "tables.csv"]


def _slug(text: str) -> str:
    """A text as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "report"
