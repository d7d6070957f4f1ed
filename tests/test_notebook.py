"""The notebook is the tutorial, cell by cell; run this file to write it anew."""

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOK = DOCS / "tutorial.ipynb"
PARTS = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def notebook() -> dict[str, Any]:
    """Cells of text and of Python in turn, as they follow one another on the page."""
    page = (DOCS / "tutorial.md").read_text().replace(" As a [notebook](tutorial.ipynb).", "")
    cells = []
    for number, part in enumerate(PARTS.split(page)):
        code = number % 2 == 1
        if not part.strip():
            continue
        cell: dict[str, Any] = {"cell_type": "code" if code else "markdown", "id": f"cell-{number}", "metadata": {}}
        cell["source"] = part.strip().splitlines(keepends=True)
        cells.append(cell | ({"execution_count": None, "outputs": []} if code else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def test_the_notebook_is_the_tutorial():
    assert json.loads(NOTEBOOK.read_text()) == notebook()


def test_its_cells_run_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    said = capsys.readouterr().out
    plain, ours = (
        float(found) for found in re.findall(r"inverted.*'plain': '([\d.]+) %', 'R-XCNorm': '([\d.]+) %'", said)[0]
    )
    assert ours > 80 > 40 > plain


if __name__ == "__main__":
    NOTEBOOK.write_text(json.dumps(notebook(), indent=1, ensure_ascii=False) + "\n")
