import re
from importlib import metadata, resources
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import xcnorm

ROOT = Path(__file__).parents[1]
INSTALLED = {canonicalize_name(distribution.name) for distribution in metadata.distributions()}
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


def pins(name):
    lines = (ROOT / "constraints" / name).read_text().splitlines()
    found = [Requirement(line.removesuffix(" \\")) for line in lines if re.match(r"\w", line)]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in found}


def wanted(extras):
    """What the extras of xcnorm install, as far as it is installed here."""
    found, waiting = set(), [("xcnorm", extra) for extra in ("", *extras)]
    while waiting:
        name, extra = asked = waiting.pop()
        if asked not in found and asked[0] in INSTALLED:
            found.add(asked)
            for requirement in map(Requirement, metadata.requires(name) or ()):
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    waiting += [(canonicalize_name(requirement.name), extra) for extra in ("", *requirement.extras)]
    return {name for name, _ in found} - {"xcnorm"}


def test_every_requirement_is_pinned_for_developers():
    pinned = pins("ci.txt")
    required = {canonicalize_name(requirement.name) for requirement in REQUIREMENTS} - {"xcnorm"}
    assert required - pinned.keys() == set()
    # A local version such as +cpu would tie the pin to one index.
    assert [version for version in pinned.values() if "+" in version] == []
    for requirement in REQUIREMENTS:
        name = canonicalize_name(requirement.name)
        assert name == "xcnorm" or requirement.specifier.contains(pinned[name]), requirement


def test_what_is_installed_for_developers_has_its_hashes():
    """But torch, of which there is another file for each kind of machine."""
    pinned, hashed = pins("ci.txt"), pins("hashes.txt")
    foreign = {"colorama"}  # needed on Windows only, which pins nothing
    assert {name: version for name, version in hashed.items() if name not in foreign}.items() <= pinned.items()
    assert wanted(["dev", "docs"]) - hashed.keys() == {"torch"}


def test_every_pin_of_the_hashes_has_one():
    text = (ROOT / "constraints" / "hashes.txt").read_text()
    for pin in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}( |$)", pin), pin


def test_the_package_is_marked_as_typed():
    assert resources.files("xcnorm").joinpath("py.typed").is_file()


def test_the_command_is_installed():
    (script,) = metadata.entry_points(group="console_scripts", name="xcnorm")
    assert callable(script.load())
