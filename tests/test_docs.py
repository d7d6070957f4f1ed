"""The examples of the documentation run, page by page, from top to bottom.

Those below docs/extending add something to the package; `tests.promises` runs each of them in a process of its own.
Those of the tutorial are run as its notebook.
"""

import re
import shutil
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


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def examples(page: Path) -> list[str]:
    return blocks(page, "python")


RUN_ELSEWHERE = ("extending", "tutorial")  # a folder, and a page
RUN_HERE = [page for page in PAGES if examples(page) and not {page.parent.name, page.stem} & set(RUN_ELSEWHERE)]


@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "tests" / "compatibility" / "0.1.0" / "continued" / "folder", tmp_path / "runs")
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


def test_what_cannot_run_here_is_at_least_python():
    """Blocks under ``py`` need a package that not everybody has; tests/examples runs what they are taken from."""
    found = [(page, block) for page in PAGES for block in blocks(page, "py")]
    assert len(found) < 4
    for page, block in found:
        compile(block, page.name, "exec")


def test_every_block_is_of_a_kind_that_is_looked_at():
    kinds = {kind for page in PAGES for kind in re.findall(r"^```(\w+)$", page.read_text(), re.MULTILINE)}
    assert kinds == {"python", "py", "sh", "bash", "text", "toml"}
