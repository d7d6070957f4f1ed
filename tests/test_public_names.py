"""No public name appears or vanishes unnoticed; run this file to rewrite the inventory when one should."""

import json
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

INVENTORY = Path(__file__).with_name("public_names.toml")
MODULES = [
    "xcnorm",
    "xcnorm.auditing",
    "xcnorm.conversion",
    "xcnorm.data",
    "xcnorm.data.corruptions",
    "xcnorm.data.readers",
    "xcnorm.data.synthesis",
    "xcnorm.engine",
    "xcnorm.metrics",
    "xcnorm.export",
    "xcnorm.functional",
    "xcnorm.fusion",
    "xcnorm.methods",
    "xcnorm.models",
    "xcnorm.nn",
    "xcnorm.ops",
    "xcnorm.playground",
    "xcnorm.report",
    "xcnorm.sweep",
]


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_those_of_the_inventory(name):
    inventory = tomllib.loads(INVENTORY.read_text())
    assert sorted(import_module(name).__all__) == inventory[name]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_can_be_imported_and_is_listed(name):
    module = import_module(name)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []
    assert set(module.__all__) <= set(dir(module))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'xcnorm' has no attribute 'XCNormConv4d'"):
        _ = import_module("xcnorm").XCNormConv4d


def rewrite_inventory() -> None:
    inventory = {name: json.dumps(sorted(import_module(name).__all__), indent=4) for name in MODULES}
    INVENTORY.write_text("\n".join(f'"{name}" = {names}\n' for name, names in inventory.items()))


if __name__ == "__main__":
    rewrite_inventory()
