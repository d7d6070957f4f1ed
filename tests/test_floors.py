"""The map of the floors in CONTRIBUTING.md is that of the import contract; run this file to redraw it."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "xcnorm"
GUIDE = ROOT / "CONTRIBUTING.md"
LONGEST = 300


def floors() -> list[list[str]]:
    """The modules of each floor, from the top down, as the import contract has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [[name.strip(" ()") for name in re.split(r"[|:]", floor)] for floor in contract["layers"]]


def built() -> dict[str, Path]:
    """The modules of the package that are there, and the file of each."""
    files = {path.stem: path for path in SOURCE.glob("*.py") if not path.stem.startswith("__")}
    return files | {path.parent.name: path for path in SOURCE.glob("*/__init__.py")}


def heading(path: Path) -> str:
    """The first line of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{path} has no docstring"
    return docstring.splitlines()[0].rstrip(".:")


def floor_map() -> str:
    files, found = built(), floors()
    rows = [
        f"| {len(found) - place} | `{name}` | {heading(files[name])} |"
        for place, floor in enumerate(found)
        for name in floor
        if name in files  # the contract leaves room for what is not built yet
    ]
    return "\n".join(["| floor | module | what it holds |", "|---|---|---|", *rows])


def redrawn(guide: str) -> str:
    before, rest = guide.split("<!-- floors -->\n")
    _, after = rest.split("\n<!-- end of floors -->")
    return f"{before}<!-- floors -->\n{floor_map()}\n<!-- end of floors -->{after}"


def test_the_map_of_the_floors_is_that_of_the_import_contract():
    guide = GUIDE.read_text()
    assert redrawn(guide) == guide


def test_every_module_of_the_package_has_a_floor():
    assert set(built()) <= {name for floor in floors() for name in floor}


def test_no_file_of_the_package_is_long():
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_every_module_of_the_package_says_what_it_holds():
    silent = [path for path in SOURCE.rglob("*.py") if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


if __name__ == "__main__":
    GUIDE.write_text(redrawn(GUIDE.read_text()))
