"""The log, as TensorBoard reads it."""

import sys

import pytest

from xcnorm.engine.runs import RunFolder
from xcnorm.engine.tensorboard import TensorBoard
from xcnorm.errors import UserError


def test_tensorboard_reads_what_was_logged(tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = RunFolder(tmp_path)
    folder.board = TensorBoard(tmp_path)
    folder.log({"step": 3, "epoch": 1, "loss": 0.5, "learning_rate": 0.1, "seconds": 2.0})
    folder.log({"step": 6, "validation": 0.75})
    events = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert set(events.Tags()["scalars"]) == {"loss", "learning_rate", "validation"}
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 0.5)]
    assert [(event.step, event.value) for event in events.Scalars("validation")] == [(6, 0.75)]


def test_a_missing_package_is_named_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r'pip install "xcnorm\[tensorboard\]"'):
        TensorBoard(tmp_path)
