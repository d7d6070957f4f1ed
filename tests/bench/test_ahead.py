"""What is compiled before anything is measured."""

import os
from pathlib import Path

import pytest

from xcnorm.bench import ahead
from xcnorm.bench.conditions import Conditions
from xcnorm.bench.gate import small
from xcnorm.bench.shapes import LayerShape
from xcnorm.bench.sides import CONV, OURS

WIDE, NARROW = LayerShape(128, 64, 64, 32, 3, padding=1), LayerShape(128, 64, 64, 16, 3, padding=1)


def _note(conditions, side, shape):
    name = f"{conditions.precision} {side.name} {shape.name}".replace("/", "_")
    with Path(os.environ["NOTES"], name).open("x") as note:  # fails if it is there
        note.write(os.environ["XCNORM_AUTOTUNE"])


@pytest.fixture
def notes(monkeypatch, tmp_path):
    """Compile for two cores; each job leaves a note of its name."""
    monkeypatch.setenv("XCNORM_AUTOTUNE", "1")
    monkeypatch.setenv("NOTES", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    monkeypatch.setattr(ahead, "_run", _note)
    layers = [(side, shape) for shape in (WIDE, NARROW) for side in (CONV, *OURS)]
    ahead.compile_ahead(layers, [Conditions("cuda", "bf16")])
    return {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_every_side_of_ours_and_its_gate_once_without_tuning(notes):
    """On a GPU that processes share, timed blocks mean nothing. Both shapes have one gate."""
    sizes = [WIDE, NARROW, small(WIDE)]
    assert notes == {f"bf16 {side.name} {shape.name}".replace("/", "_"): "0" for side in OURS for shape in sizes}
    assert os.environ["XCNORM_AUTOTUNE"] == "1"
