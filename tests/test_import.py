"""What an import drags in: each question is asked of a fresh interpreter."""

import subprocess
import sys

import pytest

EXTRAS = {"torchvision", "triton", "matplotlib", "sklearn", "mlxtend"}


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*(name for name in sys.modules if '.' not in name))"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(result.stdout.split())


@pytest.mark.parametrize("statement", ["import xcnorm", "import xcnorm; dir(xcnorm)", "import xcnorm.cli"])
def test_the_package_and_the_command_line_are_light(statement):
    assert loaded_by(statement).isdisjoint({"torch", "numpy", *EXTRAS})


def test_layers_networks_and_conversion_need_torch_alone():
    ours = loaded_by("import xcnorm.nn, xcnorm.models, xcnorm.conversion") - loaded_by("import torch")
    assert "xcnorm" in ours
    assert ours.isdisjoint({"pydantic", "typer", "rich", *EXTRAS})


def test_data_can_be_imported_without_its_extra():
    ours = loaded_by("import xcnorm.data") - loaded_by("import torch")
    assert "xcnorm" in ours
    assert ours.isdisjoint({"pydantic", *EXTRAS})
