"""The folder of a run: who may write into it, and what it says."""

import json
import re

import pytest
import torch

from tests.engine import small
from xcnorm.engine import RunFolder, train
from xcnorm.errors import UserError


@pytest.fixture
def run(tmp_path):
    experiment = small.experiment()
    folder = RunFolder.of(experiment, tmp_path)
    folder.begin(experiment, {"torch": "2"})
    return folder


def test_a_run_begins_with_what_it_was_asked(run, tmp_path):
    assert run.path == tmp_path / small.experiment().folder
    assert run.experiment() == small.experiment()
    assert json.loads((run.path / "environment.json").read_text()) == {"torch": "2"}
    assert not run.finished
    run.fail("out of\nmemory")
    assert (run.path / "failed.txt").read_text() == "out of memory\n"
    run.begin(small.experiment(label="by another name", run__checkpoint_every=3), {"torch": "3"})
    assert run.experiment() == small.experiment()
    assert not (run.path / "failed.txt").exists()


@pytest.mark.parametrize("changes", [{"seed": 1}, {"schedule__iterations": 7}])
def test_the_folder_of_another_experiment_is_refused(run, changes):
    with pytest.raises(UserError, match=r"seed0 belongs to another experiment; choose another --out$"):
        run.begin(small.experiment(**changes), {})
    assert run.experiment() == small.experiment()


@pytest.mark.parametrize("text", ["seed = ", 'seed = "a"', "\x00"])
def test_a_damaged_config_is_one_line(run, text):
    (run.path / "config.toml").write_text(text)
    with pytest.raises(UserError) as error:
        run.experiment()
    assert "\n" not in str(error.value)


def test_a_folder_without_config_is_no_run(tmp_path):
    with pytest.raises(UserError, match=r"has no config\.toml"):
        RunFolder(tmp_path).experiment()
    with pytest.raises(UserError, match="has no weights for 'last'"):
        RunFolder(tmp_path).weights("last")


def test_a_run_is_claimed_by_one_at_a_time(run):
    with run.claimed():
        with pytest.raises(UserError, match="is being worked on by another process"), run.claimed():
            pass
        with pytest.raises(UserError, match="is being worked on by another process"), RunFolder(run.path).claimed():
            pass
    with run.claimed():
        pass


def test_the_log_is_cut_where_the_run_goes_on(run):
    lines = [{"step": step, "loss": 1 / step} for step in (1, 2, 3, 4)]
    for line in lines:
        run.log(line)
    with (run.path / "log.jsonl").open("a") as handle:
        handle.write('{"step": 5, "lo')
    run.cut_log(3)
    assert [json.loads(line) for line in (run.path / "log.jsonl").read_text().splitlines()] == lines[:3]
    run.cut_log(0)
    assert (run.path / "log.jsonl").read_text() == ""


def test_weights_come_back(run):
    weights = {
        "kernel": torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        "count": torch.tensor(3),
    }
    run.save_weights("last", weights)
    torch.testing.assert_close(run.weights("last"), weights, rtol=0, atol=0)


def test_what_cannot_be_written_is_one_line_and_leaves_nothing(run):
    for name in ("last.safetensors", "log.jsonl", "config.toml"):
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).mkdir()  # even the superuser cannot write a file here
        (run.path / name / "full").touch()
    before = sorted(run.path.iterdir())
    for write in (lambda: run.log({}), lambda: run.save_weights("last", {"a": torch.ones(3)})):
        with pytest.raises(
            UserError, match=r"^cannot write .*(last\.safetensors|log\.jsonl): Is a directory; choose another"
        ):
            write()
    assert sorted(run.path.iterdir()) == before


def log(run):
    return [json.loads(line) for line in (run.path / "log.jsonl").read_text().splitlines()]


def test_training_writes_log_checkpoints_and_weights(run):
    told = []
    trainer = small.trainer(small.experiment(run__evaluate_every=4, run__checkpoint_every=4))
    trained = train(trainer, run, lambda *progress: told.append(progress))
    assert trained.steps == 6
    assert trained.selected["last"] == 6
    assert trained.selected["best_on_source"] in (4, 6)
    lines = log(run)
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]
    assert [line["epoch"] for line in lines if "loss" in line] == [0, 0, 0, 1, 1, 1]
    assert [line["step"] for line in lines if "validation" in line] == [4, 6]
    assert told == [(line["step"], 6, line["loss"]) for line in lines if "loss" in line]
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["step-000000004", "step-000000006"]
    # A run that was trained, but killed before it was tested, is not trained again.
    assert train(small.trainer(small.experiment()), run) == trained
    assert log(run) == lines


def test_a_loss_that_is_no_number_ends_the_run(run):
    # Weights overflow, and the difference of two infinities is no number.
    experiment = small.experiment(optimiser={"name": "sgd", "learning_rate": 1e30}, schedule__warmup=0.0)
    with pytest.raises(UserError) as error:
        train(small.trainer(experiment), run)
    said = r"the loss became (nan|inf) in step \d; try a smaller optimiser.learning_rate, or run.precision='float32'"
    assert re.fullmatch(said, str(error.value))
    assert all(line["loss"] < 1e30 for line in log(run) if "loss" in line)
