"""Every word has one meaning, and what the glossary speaks of is there."""

import ast
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = re.findall(r"^\| ([^|]+) \| .* \| ([^|]*)\|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
WORDS = [word.strip() for words, _ in ROWS for word in words.split(",") if words != "word"]
NAMES = sorted({name for _, names in ROWS for name in re.findall(r"`(xcnorm[\w.]+)`", names)})


def find(name: str) -> object:
    """What a dotted name leads to: a module, or something in one."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        parent, _, last = name.rpartition(".")
        return getattr(find(parent), last)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_leads_somewhere(name):
    assert find(name) is not None


def test_every_word_has_one_meaning():
    assert len(WORDS) > 50
    assert [word for word, count in Counter(WORDS).items() if count > 1] == []


def test_no_two_public_classes_have_one_name():
    files = sorted((ROOT / "src" / "xcnorm").rglob("*.py"))
    classes = [node for file in files for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    counts = Counter(each.name for each in classes if not each.name.startswith("_"))
    assert [name for name, count in counts.items() if count > 1] == []
