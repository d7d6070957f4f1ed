"""The run of an experiment: load, train, test, whatever of that is left to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from xcnorm.data import Benchmark, load
from xcnorm.engine.distributed import World
from xcnorm.engine.experiment import Experiment
from xcnorm.engine.failures import machine_failures
from xcnorm.engine.networks import build_model, start_weights
from xcnorm.engine.precision import precision
from xcnorm.engine.runs import RunFolder
from xcnorm.engine.tensorboard import TensorBoard
from xcnorm.engine.testing import write_results
from xcnorm.engine.trainer import Trainer
from xcnorm.engine.training import Progress, train
from xcnorm.environment import environment
from xcnorm.errors import UserError


def run_experiment(
    experiment: Experiment,
    runs: Path,
    world: World,
    *,
    data: Path | None = None,
    progress: Progress | None = None,
    notify: Callable[[str], None] = lambda text: None,
    tensorboard: bool = False,
) -> RunFolder:
    """Train and test an experiment. One that is finished is left alone; one that was interrupted goes on.

    Args:
        experiment: What to do.
        runs: The folder of runs.
        world: The processes that share the work.
        data: The folder that holds the data.
        progress: Is told how far training is.
        notify: Is told in words what happens.
        tensorboard: Whether to log for TensorBoard as well.

    Returns:
        The folder of the run.

    Raises:
        UserError: It cannot run here, or another process is at it. The reason is also written into the folder.
    """
    folder = RunFolder.of(experiment, runs)
    if folder.finished:
        notify(f"{folder.path} is finished already")
        return folder
    with folder.claimed() if world.leads else nullcontext():
        try:
            if world.leads:
                folder.begin(experiment, environment(world.device.type))
                if tensorboard:
                    folder.board = TensorBoard(folder.path)
            world.wait()
            benchmark = _load(experiment, data)
            for name, reason in benchmark.missing.items():
                notify(f"without {name}: {reason}")
            for warning in benchmark.warnings:
                notify(warning)
            with machine_failures(experiment, world), precision(experiment.run.precision):
                trainer = Trainer(experiment, benchmark, world, start_weights(experiment, runs))
                trained = train(trainer, folder, progress, notify)
                if world.leads:
                    notify("testing")
                    write_results(folder, trained, trainer.model, experiment, benchmark)
                world.wait()
        except Exception as error:
            if world.leads and folder.path.exists():
                folder.fail(str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}")
            raise
    return folder


def evaluate_run(folder: RunFolder, world: World, *, data: Path | None = None) -> None:
    """Test the weights of a finished run again, for example on targets that were missing when it was trained.

    Args:
        folder: Of the run.
        world: Where to compute.
        data: The folder that holds the data.

    Raises:
        UserError: The run is not finished, or another process is at it.
    """
    experiment, trained = folder.experiment(), folder.trained()
    benchmark = _load(experiment, data)
    with folder.claimed(), machine_failures(experiment, world), precision(experiment.run.precision):
        write_results(folder, trained, build_model(experiment, benchmark, world.device), experiment, benchmark)


def _load(experiment: Experiment, data: Path | None) -> Benchmark:
    benchmark = load(experiment.benchmark, data, **experiment.benchmark_options)
    if experiment.data.share == 1:
        return benchmark
    return replace(benchmark, train=benchmark.train.share(experiment.data.share, experiment.seed))
