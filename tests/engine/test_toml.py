"""TOML from anybody: what is ours is read, and bombs are refused before they go off."""

import pytest

from xcnorm.engine import load_preset
from xcnorm.engine.runs import read_config
from xcnorm.engine.toml import parse_toml
from xcnorm.errors import UserError

BOMBS = {
    "lists in lists": "a = " + "[\n" * 100_000,
    "lists in lists that end": "a = " + "[" * 50 + "]" * 50,
    "tables in tables": "a = " + "{a=" * 3_000,
    "a key of many parts": "a." * 100_000 + "b = 1",
    "a key of some parts": "a." * 1_000 + "b = 1",
    "a table of many parts": "[" + "a." * 100_000 + "b]",
    "a huge number": "a = " + "1" * 9_000,
    "a huge line": "a = '" + "x" * 100_000 + "'",
    "a huge text": "# nothing\n" * 200_000,
}


def test_a_setting_may_be_as_deep_as_any_of_ours():
    assert parse_toml("[a.b]\nc = [{ d = [[1]] }]", "x") == {"a": {"b": {"c": [{"d": [[1]]}]}}}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_in_one_line(bomb, tmp_path):
    path = tmp_path / "bomb.toml"
    path.write_text(BOMBS[bomb])
    for read in (read_config, load_preset):
        with pytest.raises(UserError, match=r"bomb\.toml (is too long|is nested|is not valid TOML)") as error:
            read(path)
        assert len(str(error.value)) < 1_000
