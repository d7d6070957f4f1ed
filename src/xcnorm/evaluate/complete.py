"""One experiment from beginning to end: load, train, test, whatever of that is left to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from torch import Tensor, nn

from xcnorm.data import Benchmark, load
from xcnorm.engine.distributed import World
from xcnorm.engine.experiment import Experiment
from xcnorm.engine.runs import RunFolder
from xcnorm.engine.tensorboard import TensorBoard
from xcnorm.engine.training import Judge, Progress, train
from xcnorm.environment import environment
from xcnorm.errors import UserError
from xcnorm.evaluate.metrics import score
from xcnorm.evaluate.protocol import answers, evaluate, evaluate_run


def complete(
    experiment: Experiment,
    runs: Path,
    world: World,
    *,
    data: Path | None = None,
    progress: Progress | None = None,
    said: Callable[[str], None] = lambda text: None,
    tensorboard: bool = False,
) -> RunFolder:
    """Train and test an experiment. One that is finished is left alone; one that was interrupted goes on.

    Args:
        experiment: What to do.
        runs: The folder of runs.
        world: The processes that share the work.
        data: The folder that holds the data.
        progress: Is told how far training is.
        said: Is told in words what happens.
        tensorboard: Whether to log for TensorBoard as well.

    Returns:
        The folder of the run.

    Raises:
        UserError: It cannot run here, or another process is at it. The reason is also written into the folder.
    """
    folder = RunFolder.of(experiment, runs)
    if folder.finished:
        said(f"{folder.path} is finished already")
        return folder
    with folder.claimed() if world.leads else nullcontext():
        try:
            if world.leads:
                folder.begin(experiment, environment(world.device.type))
                if tensorboard:
                    folder.board = TensorBoard(folder.path)
            world.wait()
            benchmark = load(experiment.benchmark, data, **experiment.benchmark_options)
            for name, reason in benchmark.missing.items():
                said(f"without {name}: {reason}")
            for warning in benchmark.warnings:
                said(warning)
            judge, probe = _judge(benchmark), _oracle(experiment, benchmark, world)
            trained = train(experiment, benchmark, folder, world, judge=judge, probe=probe, progress=progress)
            if world.leads:
                said("testing")
                evaluate_run(folder, benchmark, world, trained)
            world.wait()
        except Exception as error:
            if world.leads and folder.path.exists():
                folder.fail(str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}")
            raise
    return folder


def _judge(benchmark: Benchmark) -> Judge:
    """The benchmark's own score; where that is undefined, such as AUROC of one class alone, nothing was learned."""

    def judge(probabilities: Tensor, labels: Tensor) -> float:
        return score(probabilities, labels)[benchmark.card.metric] or 0.0

    return judge


def _oracle(experiment: Experiment, benchmark: Benchmark, world: World) -> Callable[[nn.Module], float] | None:
    """The mean score on the targets themselves; choosing by it is cheating, and labelled so wherever it is shown."""
    if "oracle" not in experiment.run.selection:
        return None
    if not benchmark.targets:
        raise UserError("run.selection 'oracle' needs a target, and none is here")

    def probe(model: nn.Module) -> float:
        results = evaluate(benchmark, answers(model, experiment, world.device))
        values = [numbers[benchmark.card.metric] or 0.0 for numbers in results.numbers["targets"].values()]
        return sum(values) / len(values)

    return probe
