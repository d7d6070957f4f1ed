"""`xcnorm train` and `xcnorm evaluate`, from the command to the files."""

import json
import tomllib

import numpy as np
import pytest

from tests.engine import small
from xcnorm.cli import main
from xcnorm.engine import RunFolder, load_recipe, make_experiment
from xcnorm.engine.experiment import merge

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("cli_train")

SETTINGS = {
    "benchmark_options.source": "source",
    "benchmark_options.validation": "0.2",
    "model.name": "digits_cnn",
    "schedule.epochs": "0",
    "schedule.iterations": "6",
    "schedule.batch": "8",
    "run.evaluate_every": "2",
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    small.pictures(root)
    return root


def command(pictures, out, *more, **settings):
    args = ["train", "--benchmark", "folder", "--data", str(pictures), "--out", str(out), "--device", "cpu", *more]
    for key, value in {**SETTINGS, **settings}.items():
        args += ["--set", f"{key}={value}"]
    return args


@pytest.fixture(scope="module")
def trained(pictures, tmp_path_factory):
    """A finished run that was also judged on the targets."""
    out = tmp_path_factory.mktemp("runs")
    assert main(command(pictures, out, **{"run.selection": '["last","best_on_source","oracle"]'})) == 0
    (config,) = out.glob("**/config.toml")
    return config.parent


def metrics(run):
    return json.loads((run / "metrics.json").read_text())


def test_a_run_leaves_its_files(trained):
    assert trained.parts[-3] == "folder"
    assert trained.parts[-2].startswith("erm+conv-")
    assert trained.name == "seed0"
    names = {path.name for path in trained.iterdir() if not path.name.startswith(".")}
    rules = {"last", "best_on_source", "oracle"}
    assert names - {"lock"} == {
        "config.toml",
        "environment.json",
        "log.jsonl",
        "checkpoint",
        "predictions.npz",
        "metrics.json",
        *(f"{rule}.safetensors" for rule in rules),
    }
    found = metrics(trained)
    assert found["format"] == 1
    assert (found["benchmark"], found["metric"], found["steps"]) == ("folder", "accuracy", 6)
    assert set(found["selection"]) == rules
    assert found["selection"]["last"]["step"] == 6
    predictions = np.load(trained / "predictions.npz")
    for rule, numbers in found["selection"].items():
        for name, scored in {"source": numbers["source"], **numbers["targets"]}.items():
            place = name if name == "source" else f"targets/{name}"
            answers, labels = predictions[f"{rule}/{place}"], predictions[f"labels/{place}"]
            assert answers.dtype == np.float16
            assert scored["count"] == len(answers) == len(labels)
            assert scored["accuracy"] == pytest.approx((answers.argmax(1) == labels).mean(), abs=1e-9)


def test_the_oracle_is_the_best_on_the_targets(trained):
    selection = metrics(trained)["selection"]
    means = {
        rule: np.mean([numbers["accuracy"] for numbers in found["targets"].values()])
        for rule, found in selection.items()
    }
    assert means["oracle"] >= max(means.values())
    assert selection["oracle"]["step"] in (2, 4, 6)


def test_the_oracle_is_labelled(trained, capsys, pictures):
    assert main(["evaluate", str(trained), "--data", str(pictures), "--device", "cpu"]) == 0
    assert "diagnostic" in capsys.readouterr().out


def test_evaluate_finds_what_train_found(trained, capsys, pictures):
    before, predictions = metrics(trained), dict(np.load(trained / "predictions.npz"))
    (trained / "predictions.npz").unlink()
    assert main(["evaluate", str(trained), "--data", str(pictures), "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(trained), **before}
    assert metrics(trained) == before
    after = np.load(trained / "predictions.npz")
    assert set(after) == set(predictions)
    assert all(np.array_equal(after[name], array) for name, array in predictions.items())


def test_a_finished_run_is_left_alone(trained, capsys):
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    again = ["train", "--config", str(trained / "config.toml"), "--out", str(trained.parents[2])]
    # Neither data nor anything else is needed to find out that there is nothing to do.
    assert main([*again, "--data", "no/such/folder", "--device", "cpu", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"folder": str(trained), **metrics(trained)}
    assert "is finished already" in captured.err
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_the_same_command_gives_the_same_numbers(trained, pictures, tmp_path):
    assert (
        main(["train", "--config", str(trained / "config.toml"), "--data", str(pictures), "--out", str(tmp_path)]) == 0
    )
    (other,) = tmp_path.glob("**/metrics.json")
    one, two = metrics(trained), metrics(other.parent)
    assert one["selection"] == two["selection"]
    assert other.parent.relative_to(tmp_path) == trained.relative_to(trained.parents[2])


def test_a_run_starts_from_another_converted_and_can_be_tested_again(trained, pictures, capsys):
    out = trained.parents[2]
    start = ["--start", str(trained), "--layer", "xcnorm", "--set", "model.options.norm=batch"]
    few = {"schedule.iterations": "2"}
    assert main([*command(pictures, out, **few), *start]) == 0
    (run,) = out.glob("folder/erm+xcnorm-*/seed0")
    assert RunFolder(run).experiment().start.run == trained.relative_to(out).as_posix()
    found = metrics(run)
    assert main(["evaluate", str(run), "--data", str(pictures), "--device", "cpu"]) == 0
    assert metrics(run) == found
    assert main([*command(pictures, out / "elsewhere"), *start]) == 2
    assert "give the folder of runs that it is in as --out" in capsys.readouterr().err


def test_a_dry_run_only_says_what_it_would_do(pictures, tmp_path, capsys):
    assert main(command(pictures, tmp_path / "runs", "--dry-run", "--seed", "4", "--layer", "xcnorm")) == 0
    first, _, config = capsys.readouterr().out.partition("\n")
    experiment = make_experiment(tomllib.loads(config))
    assert first == f"# {tmp_path / 'runs' / experiment.folder}"
    assert (experiment.seed, experiment.model.layer, experiment.schedule.iterations) == (4, "xcnorm", 6)
    expected = merge(load_recipe("fast", "folder"), {"benchmark": "folder"})
    assert experiment.optimiser.name == expected["optimiser"]["name"]
    assert main(command(pictures, tmp_path / "runs", "--dry-run", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["finished"] is False
    assert not (tmp_path / "runs").exists()


def test_steps_take_the_place_of_the_epochs_of_a_recipe(capsys):
    args = ["train", "--benchmark", "cifar10c", "--recipe", "paper", "--dry-run", "--set", "schedule.iterations=60"]
    assert main(args) == 0
    schedule = tomllib.loads(capsys.readouterr().out)["schedule"]
    assert (schedule["iterations"], schedule["epochs"], schedule["batch"]) == (60, 0, 128)
    assert main([*args, "--set", "schedule.epochs=2"]) == 2
    assert "not both" in capsys.readouterr().err


def test_a_run_that_another_process_works_on_is_one_line(trained, pictures, tmp_path, capsys):
    experiment = RunFolder(trained).experiment()
    folder = RunFolder.of(experiment, tmp_path)
    args = ["train", "--config", str(trained / "config.toml"), "--data", str(pictures), "--out", str(tmp_path)]
    with folder.claimed():
        assert main(args) == 2
    complaint = capsys.readouterr().err
    assert complaint == f"xcnorm: {folder.path} is being worked on by another process\n"
    assert not (folder.path / "failed.txt").exists()


def test_a_run_that_explodes_says_so_and_writes_it_down(pictures, tmp_path, capsys):
    explosive = {"optimiser.name": "sgd", "optimiser.learning_rate": "1e30", "schedule.warmup": "0.0"}
    assert main(command(pictures, tmp_path, **explosive)) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "the loss became" in complaint
    (failed,) = tmp_path.glob("**/failed.txt")
    assert failed.read_text() == complaint.removeprefix("xcnorm: ")
    assert not (failed.parent / "metrics.json").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--set", "schedule.iteration=3"], "did you mean 'iterations'"),
        (["--set", "seed"], "--set takes KEY=VALUE"),
        (["--method", "ermm"], "did you mean 'erm'"),
        (["--layer", "xcnrm"], "xcnrm"),
        (["--set", "run.precision=fp16"], "needs a CUDA device"),
        (["--set", "schedule.batch=500"], "images do not fill one batch of 500"),
        (["--device", "tpu"], "device must be auto, cpu or cuda"),
        (["--set", "benchmark_options.source=nowhere"], "unknown source 'nowhere'"),
    ],
)
def test_mistakes_are_one_line(pictures, tmp_path, more, words, capsys):
    assert main([*command(pictures, tmp_path), *more]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert words in complaint


def test_a_run_that_is_not_finished_cannot_be_evaluated(pictures, tmp_path, capsys, trained):
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "has no config.toml" in capsys.readouterr().err
    (tmp_path / "config.toml").write_bytes((trained / "config.toml").read_bytes())
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "is not finished; finish it with xcnorm train" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--seed", "5"], ["--layer", "conv"], ["--recipe", "mini"], ["--model", "wrn16_4"]])
def test_options_that_a_config_would_override_are_refused(option, tmp_path, capsys):
    (tmp_path / "config.toml").write_text('benchmark = "digits-mini"\n')
    assert main(["train", "--config", str(tmp_path / "config.toml"), "--dry-run", *option]) == 2
    assert f"{option[0]} is for a recipe, not for --config" in capsys.readouterr().err


def test_a_config_that_is_not_there(capsys):
    assert main(["train", "--config", "no/such/config.toml"]) == 2
    assert "no/such/config.toml" in capsys.readouterr().err
