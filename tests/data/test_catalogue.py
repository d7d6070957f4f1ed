"""Benchmarks are found by name."""

from pathlib import Path

import pytest

from xcnorm import data
from xcnorm.errors import UserError
from xcnorm.folders import cache_root, data_root

NAMES = {
    "breakhis",
    "camelyon17",
    "camelyon17-mini",
    "cifar10c",
    "cifar10c-mini",
    "digits",
    "digits-mini",
    "folder",
}


def test_names():
    assert set(data.list_benchmarks()) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_cards_are_filled_in(name):
    card = data.card(name)
    assert card.name == name
    assert card.title
    assert card.summary.endswith(".")
    assert card.metric in ("accuracy", "balanced_accuracy", "auroc")
    assert card.licence
    for file in card.files:
        assert file.urls or file.manual
        assert not Path(file.path).is_absolute()
        assert len(file.md5 or 32 * "0") == 32
        assert len(file.sha256 or 64 * "0") == 64


def test_unknown_names_and_options():
    with pytest.raises(UserError, match="did you mean 'digits-mini'"):
        data.load("digits_mini")
    with pytest.raises(UserError, match=r"unknown option of digits 'subst'; did you mean 'subset'"):
        data.load("digits", subst=1)


def test_where_data_lies(monkeypatch, tmp_path):
    for name in ("XCNORM_DATA", "XCNORM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_root() == Path("~/.cache/xcnorm").expanduser()
    assert data_root() == cache_root() / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "xcnorm"
    monkeypatch.setenv("XCNORM_CACHE", str(tmp_path / "c"))
    assert data_root() == tmp_path / "c" / "data"
    monkeypatch.setenv("XCNORM_DATA", str(tmp_path / "d"))
    assert data_root() == tmp_path / "d"
    assert data_root("~/mine") == Path("~/mine").expanduser()
