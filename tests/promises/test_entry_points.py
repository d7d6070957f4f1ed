"""What an installed package announces is there without a variable, as docs/extending/index.md says."""

import os
import subprocess
import sys
import tomllib

import pytest

from tests.promises import blocks, plugin


@pytest.fixture
def installed(tmp_path):
    """A folder with the package of the page, as an installer leaves it."""
    package, metadata = tmp_path / "my_research", tmp_path / "my_research-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").touch()
    for page in ("method", "network"):
        plugin(page, package)
    (announced,) = blocks("index", "toml")
    points = tomllib.loads(announced)["project"]["entry-points"]
    lines = (f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in points.items())
    (metadata / "entry_points.txt").write_text("".join(lines))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-research\nVersion: 1.0\n")
    return tmp_path


def python(installed, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "XCNORM_PLUGINS"}
    environment["PYTHONPATH"] = os.pathsep.join([str(installed), *sys.path])
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=installed, capture_output=True, text=True, check=False
    )


def test_what_a_package_announces_is_known(installed):
    result = python(installed, "-m", "xcnorm", "train", "--method", "mixup", "--model", "resnet9", "--dry-run")
    assert result.returncode == 0, result.stderr
    assert 'name = "mixup"' in result.stdout
    assert 'name = "resnet9"' in result.stdout


def test_a_package_that_cannot_be_imported_is_told_in_one_line(installed):
    (installed / "my_research" / "mixup.py").write_text("import nothing_of_that_name\n")
    result = python(installed, "-m", "xcnorm", "train", "--dry-run")
    assert result.returncode == 2
    assert result.stderr == (
        "xcnorm: plugin 'my_research.mixup' cannot be imported: No module named 'nothing_of_that_name'; mend or "
        "uninstall it\n"
    )
