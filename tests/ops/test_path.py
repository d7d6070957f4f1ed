"""How many files a forward on the CPU crosses: whoever wants to know what a layer computes has to read no more."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import xcnorm
from xcnorm import ops

PACKAGE = Path(xcnorm.__file__).parent
GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
EQUATIONS = ("functional/", "registry.py")  # what is computed, and where a robust function is found by its name


def crossed(layer: torch.nn.Module, input: torch.Tensor) -> list[str]:
    """The files of the package that a call of the layer runs through, in that order, without the equations.

    That a backend is asked, and says that it cannot, is a line of the dispatch and no step towards the numbers.
    """
    questions = {question.__code__ for each in ops.backends() for question in (each.unsupported, each.unavailable)}
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code not in questions and path.is_relative_to(PACKAGE):
            files.setdefault(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        layer(input)
    finally:
        sys.setprofile(before)
    return [file for file in files if not file.startswith(EQUATIONS)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize(("kind", "most"), [(xcnorm.XCNormConv2d, 10), (xcnorm.RXCNormConv2d, 11)])
def test_a_forward_is_short_to_read(kind, most, preset, training):
    layer = kind(3, 8, 3, padding=1, padding_mode="replicate", preset=preset).train(training)
    with torch.set_grad_enabled(training):
        files = crossed(layer, torch.rand(2, 3, 8, 8))
    assert "ops/cpu/__init__.py" in files  # it is the path of this backend
    assert len(files) <= most, f"{len(files)} files, {most} are enough: {', '.join(files)}"
    told = GUIDE.read_text()
    unnamed = [file for file in files if f"`{file.removesuffix('/__init__.py')}`" not in told]
    assert not unnamed, f"a forward crosses files that CONTRIBUTING.md does not tell to read: {', '.join(unnamed)}"
