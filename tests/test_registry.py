"""Registries, and the files that a user names to fill them."""

import os
import sys

import pytest

from xcnorm.errors import UserError
from xcnorm.methods.method import METHODS
from xcnorm.registry import VARIABLE, Registry, discover, load_plugins


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Load plugins whose files are given by name and text, and forget them afterwards."""
    known, before = dict(METHODS), set(sys.modules)

    def load(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setenv(VARIABLE, os.pathsep.join(str(tmp_path / f"{name}.py") for name in files))
        load_plugins.__wrapped__()

    yield load
    METHODS._items.clear()
    METHODS._items.update(known)
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


METHOD = """
from xcnorm.methods import Method, register_method

@register_method("{name}")
class Mine(Method):
    "Mine."
"""


def test_files_that_the_variable_names_register_what_they_hold(load):
    load(one_of_mine=METHOD.format(name="mine-1"), another_of_mine=METHOD.format(name="mine-2"))
    assert {"mine-1", "mine-2"} <= set(METHODS)
    assert METHODS["mine-1"].__module__ == "one_of_mine"  # so that pickle finds it again


def test_a_plugin_may_look_things_up_while_it_is_imported(load):
    load(curious_of_mine="from xcnorm.methods import list_methods\nassert 'erm' in list_methods()")


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"broken_of_mine": "1 / 0"}, "cannot be imported: division by zero; mend it"),
        ({"taken_of_mine": METHOD.format(name="erm")}, "method 'erm' is registered already; choose another name"),
        ({"random": ""}, "is called like another module; rename it"),
    ],
    ids=["broken", "taken", "named like a module"],
)
def test_a_file_that_cannot_be_used_is_told_with_its_path(load, tmp_path, files, complaint):
    with pytest.raises(UserError, match=complaint) as raised:
        load(**files)
    assert str(tmp_path / f"{next(iter(files))}.py") in str(raised.value)


def test_a_file_that_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere.py"))
    with pytest.raises(UserError, match=r"nowhere\.py, which is not there; correct it"):
        load_plugins.__wrapped__()


def test_private_modules_are_not_discovered():
    names = {module.__name__.rpartition(".")[2] for module in discover("xcnorm.data.corruptions")}
    assert {"fog", "frost"} <= names
    assert [name for name in names if name.startswith("_")] == []


def test_names_are_sorted_and_one_can_be_taken_once():
    letters = Registry("letter", "xcnorm.data.corruptions")
    letters.register("b", 2)
    letters.registered("a")(1)
    assert dict(letters) == {"a": 1, "b": 2}
    assert list(letters) == ["a", "b"]
    with pytest.raises(ValueError, match="letter 'a' is registered already"):
        letters.register("a", 3)
    with pytest.raises(UserError, match="unknown letter 'c'"):
        letters["c"]
