"""Every page has a whole file, which works as the rest of the page says."""

import pytest

from tests.promises import PAGES, blocks, plugin, run

NAMES = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index")


def test_the_index_has_them_all():
    assert [name for name in NAMES if f"]({name}.md)" not in (PAGES / "index.md").read_text()] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_short(name):
    assert blocks(name, "python")[0].count("\n") < 60


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_run(name, tmp_path):
    program = "\n".join(blocks(name, "python")[1:])
    assert program
    run("-W", "error", "-c", program, plugin=plugin(name, tmp_path))
