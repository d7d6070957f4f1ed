"""What is built for a package index: the wheel's files, and a description that shows without the files beside it."""

import zipfile
from email import message_from_string
from pathlib import Path

import pytest

hatchling = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "xcnorm"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    (path,) = hatchling.WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"]
    )
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_it_holds_the_package_and_nothing_else(wheel):
    files = {path.relative_to(ROOT / "src").as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    wanted = {name for name in files if "__pycache__" not in name}
    built = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert built == wanted
    assert {"xcnorm/py.typed", "xcnorm/presets/demo.toml"} <= built


def test_its_description_has_no_link_that_leads_nowhere(wheel):
    (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    message = message_from_string(wheel.read(metadata).decode())
    description = message.get_payload()
    assert message["Description-Content-Type"] == "text/markdown"
    assert description.startswith("# xcnorm\n")
    assert "](" not in description.replace("](http", "")
    assert "front.png" not in description
    assert "the table of variants has the controls" in " ".join(description.lower().split())
