"""The examples of the documentation run, page by page, from top to bottom.

Those below docs/extending add something to the package; `tests.promises` runs each of them in a process of its own.
"""

import re
from pathlib import Path

import pytest

from tests.test_glossary import find

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SPEAKING = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "src").rglob("*.py"))]
NAMES = sorted({name for file in SPEAKING for name in re.findall(r"`(xcnorm(?:\.\w+)+)", file.read_text())})
FILES = sorted(
    {name for file in SPEAKING for name in re.findall(r"`((?:src|tests|benchmarks|docs)/[\w./-]+)`", file.read_text())}
)


def examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page) and page.parent.name != "extending"], ids=lambda page: page.name
)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(examples(page)), page.name, "exec"), {"__name__": page.stem})


def test_links_between_pages_lead_somewhere():
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())]
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_what_docs_and_docstrings_name_is_there():
    assert len(NAMES) > 40
    for name in NAMES:
        assert find(name) is not None, name
    assert [name for name in FILES if "NAME" not in name and not (ROOT / name).exists()] == []
