import re
from importlib import metadata, resources
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import xcnorm

ROOT = Path(__file__).parents[1]
REQUIREMENTS = [Requirement(line) for line in metadata.requires("xcnorm") or ()]


def test_the_version_is_the_same_everywhere():
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert citation
    assert metadata.version("xcnorm") == xcnorm.__version__ == citation[1]
    assert f"## [{xcnorm.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_core_needs_what_it_says_and_caps_nothing():
    core = {requirement.name for requirement in REQUIREMENTS if not requirement.marker}
    assert core == {"torch", "numpy", "pillow", "safetensors", "pydantic", "typer", "rich", "filelock"}
    bounds = {spec.operator for requirement in REQUIREMENTS for spec in requirement.specifier}
    assert bounds == {">="}


def test_every_requirement_is_pinned_for_developers():
    lines = (ROOT / "constraints" / "ci.txt").read_text().splitlines()[1:]
    pins = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}
    required = {canonicalize_name(requirement.name) for requirement in REQUIREMENTS} - {"xcnorm"}
    assert required - pins.keys() == set()
    # A local version such as +cpu would tie the pin to one index.
    assert [version for version in pins.values() if "+" in version] == []
    for requirement in REQUIREMENTS:
        name = canonicalize_name(requirement.name)
        assert name == "xcnorm" or requirement.specifier.contains(pins[name]), requirement


def test_the_package_is_marked_as_typed():
    assert resources.files("xcnorm").joinpath("py.typed").is_file()


def test_the_command_is_installed():
    (script,) = metadata.entry_points(group="console_scripts", name="xcnorm")
    assert callable(script.load())
