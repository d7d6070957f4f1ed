"""What is compiled before anything is measured."""

import os
from pathlib import Path

from xcnorm.bench import ahead
from xcnorm.bench.ahead import layers_ahead
from xcnorm.bench.layers import _axes
from xcnorm.bench.shapes import Shape
from xcnorm.bench.sides import OURS, small

SHAPES = [Shape(128, 64, 64, 32, 3, padding=1), Shape(128, 64, 64, 16, 3, padding=1)]


def test_every_side_and_gate_once():
    jobs = layers_ahead(SHAPES, [("xcnorm", SHAPES[0]), ("xcnorm", Shape(128, 8, 8, 32, 1))])
    assert len(jobs) == len(set(jobs)) == 3 * len(OURS) + 1  # both shapes have one gate
    assert {("r_xcnorm paper", shape) for shape in (*SHAPES, small(SHAPES[0]))} <= set(jobs)
    assert ("xcnorm", Shape(128, 8, 8, 32, 1)) in jobs


def _note(precision, side, shape):
    Path(side).write_text(os.environ["XCNORM_AUTOTUNE"])


def test_nothing_is_tuned_while_many_processes_share_the_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("XCNORM_AUTOTUNE", "1")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    monkeypatch.setattr(ahead, "_run", _note)
    ahead.compile_ahead([], [(str(tmp_path / "seen"), SHAPES[0])], ["float32"], lambda line: None)
    assert (tmp_path / "seen").read_text() == "0"
    assert os.environ["XCNORM_AUTOTUNE"] == "1"


def test_every_axis_of_growth_has_several_sizes():
    axes = _axes("cuda")
    assert set(axes) == {"images", "channels", "pixels", "kernel values"}
    assert all(len(set(sizes.values())) == len(sizes) >= 4 for sizes in axes.values())
