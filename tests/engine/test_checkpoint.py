"""Checkpoints are complete or not there, whatever happens while they are written."""

import errno
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.errors import UserError

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]
tensors = st.builds(
    lambda shape, dtype: (torch.arange(math.prod(shape)) - 1).reshape(shape).to(dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(DTYPES),
)
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
states = st.recursive(
    tensors | plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text("ab/1", max_size=3) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=8,
)


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert one == other


@given(state=st.dictionaries(st.text("ab/1", max_size=3), states, max_size=4))
@settings(max_examples=60)
def test_nested_states_come_back(state, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    save_checkpoint(folder, 7, state)
    step, found = load_checkpoint(folder)
    assert step == 7
    assert_same(found, state)


def test_numbers_that_are_none_and_memory_that_is_shared_come_back(tmp_path):
    weight = torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    save_checkpoint(
        tmp_path, 1, {"nan": math.nan, "infinite": -math.inf, "one": weight, "two": weight, "row": weight[1]}
    )
    _, found = load_checkpoint(tmp_path)
    assert math.isnan(found["nan"])
    assert found["infinite"] == -math.inf
    assert torch.equal(found["one"], weight)
    assert torch.equal(found["two"], weight)
    assert torch.equal(found["row"], weight[1])


def test_keys_that_look_alike_stay_apart(tmp_path):
    state = {"a/b": torch.tensor(1), "a": {"b": torch.tensor(2)}, "c": {"1": torch.tensor(3), 1: torch.tensor(4)}}
    save_checkpoint(tmp_path, 1, state)
    assert_same(load_checkpoint(tmp_path)[1], state)


@pytest.mark.parametrize(
    ("state", "words"),
    [({"a": {1, 2}}, r"set \(/a\)"), ({"a": [object()]}, r"object \(/a/0\)"), ({"a": {(1, 2): 0}}, r"tuple \(/a\)")],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(state, words, tmp_path):
    with pytest.raises(TypeError, match=words):
        save_checkpoint(tmp_path / "checkpoints", 1, state)
    assert not (tmp_path / "checkpoints").exists()


def test_the_two_newest_are_kept(tmp_path):
    assert load_checkpoint(tmp_path / "nowhere") is None
    for step in (1, 2, 10, 9_999, 123_456):
        save_checkpoint(tmp_path, step, {"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000009999", "step-000123456"]
    assert load_checkpoint(tmp_path) == (123_456, {"step": 123_456})


@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors"])
@pytest.mark.parametrize("left", [0, 0.5, None])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, file, left):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {"weights": torch.full((50,), float(step))})
    damaged = tmp_path / "step-000000002" / file
    if left is None:
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[: int(left * damaged.stat().st_size)])
    said = []
    step, state = load_checkpoint(tmp_path, said.append)
    assert step == 1
    assert torch.equal(state["weights"], torch.ones(50))
    (words,) = said
    assert words.startswith(f"the checkpoint {damaged.parent} is damaged and not used: ")


@pytest.mark.parametrize("state", ["[1", '{"tensor": "none"}', '{"items": 3}', "[" * 100_000, "{}"])
def test_a_checkpoint_of_anything_else_is_passed_over(tmp_path, state):
    save_checkpoint(tmp_path, 1, {"step": 1})
    save_checkpoint(tmp_path, 2, {})
    (tmp_path / "step-000000002" / "state.json").write_text(state)
    save_file({}, tmp_path / "step-000000002" / "tensors.safetensors")  # as without a digest
    assert load_checkpoint(tmp_path) == (1, {"step": 1})


def test_a_flipped_bit_in_a_number_is_noticed(tmp_path):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {"seconds": 12.5})
    path = tmp_path / "step-000000002" / "state.json"
    path.write_text(path.read_text().replace("12.5", "13.5"))
    assert load_checkpoint(tmp_path) == (1, {"seconds": 12.5})


def test_a_checkpoint_that_may_not_be_read_is_not_passed_over(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, 1, {"step": 1})
    path = tmp_path / "step-000000001" / "state.json"

    def forbidden(self, *args, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "read_text", forbidden)  # root may read everything
    with pytest.raises(UserError, match=f"^cannot read {path}: Permission denied; give yourself the right to$"):
        load_checkpoint(tmp_path)


def test_damaged_checkpoints_of_later_steps_do_not_push_out_good_ones(tmp_path):
    for step in (5, 9):
        (tmp_path / f"step-{step:09d}").mkdir()
    save_checkpoint(tmp_path, 3, {"step": 3})
    assert load_checkpoint(tmp_path) == (3, {"step": 3})


def test_killed_at_any_point_of_the_writing(tmp_path):
    command = [sys.executable, "-m", "tests.engine.killed_while_saving", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    new, again = json.loads(done.stdout)
    assert all(result["named"] == (result["step"] == 3) for result in new)  # what has the name is complete
    for results in (new, again):
        assert len(results) > 10
        assert [result["killed"] for result in results] == [True] * (len(results) - 1) + [False]
        assert all(result["whole"] for result in results)
        steps = [result["step"] for result in results]
        assert steps == sorted(steps)  # the older one up to some point, and from there on the newer one
        assert set(steps) == {2, 3}
        assert all(result["left"] == ["step-000000002", "step-000000003"] for result in results)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"^cannot write the checkpoint .*step-000000001: .*; choose another --out"):
        save_checkpoint(tmp_path / "file", 1, {})
