"""Block sizes by trial: what is tried, what is remembered, and when nothing of it happens."""

import json
import warnings

import pytest
import torch
import triton

import xcnorm.nn as xnn
from xcnorm.ops.triton import autotune
from xcnorm.ops.triton.autotune import Block
from xcnorm.ops.triton.geometry import Geometry, Problem

DEFAULT = Block(64, 64, 32, 4, 3, False, 128)
SHAPE = Geometry(2, 4, 4, 8, 4, 4, 8, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 8, 8)
PROBLEM = Problem(SHAPE, "zeros", None, False, 1e-5, "ieee")
DTYPES = (torch.float32, torch.float32)


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """Tuning is on, by a clock that finds more stages faster; a list of what was timed."""
    monkeypatch.setenv("XCNORM_AUTOTUNE", "1")
    monkeypatch.setenv("XCNORM_CACHE", str(tmp_path))
    monkeypatch.setattr(autotune, "_remembered", {})
    monkeypatch.setattr(autotune, "_can_time", lambda: True)
    timed = []

    def milliseconds(run, block):
        run(block)
        timed.append(block)
        return 10.0 - block.stages

    monkeypatch.setattr(autotune, "_milliseconds", milliseconds)
    return timed


def tuned(**changes):
    arguments = {
        "kernel": "forward",
        "default": DEFAULT,
        "problem": PROBLEM,
        "dtypes": DTYPES,
        "run": lambda block: None,
    }
    return autotune.tuned(**arguments | changes)


def test_candidates_differ_from_the_default_in_one_respect():
    found = autotune.candidates(DEFAULT)
    assert found[0] == DEFAULT
    assert len(found) == len(set(found)) == 8
    assert all(sum(a != b for a, b in zip(block, DEFAULT, strict=True)) == 1 for block in found[1:])


def test_the_fastest_is_chosen_and_nothing_is_timed_twice(clock):
    fastest = DEFAULT._replace(stages=4)
    assert tuned() == fastest
    assert clock == autotune.candidates(DEFAULT)
    assert tuned() == fastest
    assert len(clock) == len(autotune.candidates(DEFAULT))


@pytest.mark.parametrize(("gain", "chosen"), [(0.02, DEFAULT), (0.04, DEFAULT._replace(warps=8))])
def test_what_is_hardly_faster_stays_as_it_is(clock, monkeypatch, gain, chosen):
    monkeypatch.setattr(autotune, "_milliseconds", lambda run, block: 1 - gain * (block.warps == 8))
    assert tuned() == chosen


@pytest.mark.parametrize("fits", [False, True])
def test_a_default_without_room_on_the_gpu_is_replaced_if_anything_fits(clock, monkeypatch, fits):
    monkeypatch.setattr(
        autotune, "_milliseconds", lambda run, block: 1.0 if fits and block.stages == 1 else float("inf")
    )
    assert tuned() == (DEFAULT._replace(stages=1) if fits else DEFAULT)


def test_another_process_remembers(clock, monkeypatch, tmp_path):
    first, other_shape = tuned(), PROBLEM._replace(geometry=SHAPE._replace(images=3))
    monkeypatch.setattr(autotune, "_remembered", {})
    other = tuned(problem=other_shape)  # must not lose the first
    clock.clear()
    monkeypatch.setattr(autotune, "_remembered", {})
    assert tuned() == first
    assert tuned(problem=other_shape) == other
    assert not clock
    assert [path.name for path in tmp_path.iterdir()] == ["autotune.json"]


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": "input gradient"},
        {"dtypes": (torch.float16, torch.float32)},
        {"problem": PROBLEM._replace(precision="tf32")},
        {"problem": PROBLEM._replace(geometry=SHAPE._replace(width=5))},
        {"default": DEFAULT._replace(rows=128)},
    ],
    ids=["kernel", "dtype", "precision", "geometry", "table"],
)
def test_whatever_differs_is_timed_anew(clock, changes):
    tuned()
    clock.clear()
    tuned(**changes)
    assert clock


def test_a_key_names_gpu_and_triton(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    assert autotune.key("forward", DEFAULT, PROBLEM, DTYPES).startswith(
        f"Some GPU; triton {triton.__version__}; forward"
    )


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": 1}', '{"a": [1, 2]}', "\x00"])
def test_a_corrupt_file_is_ignored_with_one_warning(clock, tmp_path, content):
    path = tmp_path / "autotune.json"
    path.write_text(content)
    with pytest.warns(UserWarning, match="is not a file of tuned block sizes and is ignored") as caught:
        assert tuned() == DEFAULT._replace(stages=4)
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert list(json.loads(path.read_text())) == [autotune.key("forward", DEFAULT, PROBLEM, DTYPES)]


def test_blocks_that_are_no_candidates_are_not_trusted(clock, tmp_path):
    name = autotune.key("forward", DEFAULT, PROBLEM, DTYPES)
    (tmp_path / "autotune.json").write_text(json.dumps({name: DEFAULT._replace(columns=1024)}))
    assert tuned() == DEFAULT._replace(stages=4)


def test_a_folder_that_cannot_be_written_costs_only_memory(clock, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XCNORM_CACHE", str(tmp_path / "file"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tuned() == DEFAULT._replace(stages=4)


@pytest.mark.parametrize("why", ["off", "cannot be timed"])
def test_otherwise_the_table_decides(clock, monkeypatch, tmp_path, why):
    if why == "off":
        monkeypatch.delenv("XCNORM_AUTOTUNE")
    else:
        monkeypatch.setattr(autotune, "_can_time", lambda: False)
    assert tuned() == DEFAULT
    assert not clock
    assert not list(tmp_path.iterdir())


def test_nothing_is_timed_while_a_graph_is_recorded(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not autotune._can_time()


def test_a_tuned_layer_has_the_same_answers(clock, monkeypatch):
    """Every candidate of every kernel runs; the chosen one gives what the table's does."""
    layer = xnn.RXCNormConv2d(2, 4, 2, backend="triton")
    x = torch.randn(2, 2, 2, 2, requires_grad=True)
    tuned = torch.autograd.grad(layer(x).sum(), [x, layer.weight])
    assert {block.depth for block in clock} == {16, 32, 64}
    monkeypatch.delenv("XCNORM_AUTOTUNE")
    for a, e in zip(tuned, torch.autograd.grad(layer(x).sum(), [x, layer.weight]), strict=True):
        torch.testing.assert_close(a, e)
