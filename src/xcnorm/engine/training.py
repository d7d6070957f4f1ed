"""Training: a plain loop that can be stopped anywhere and goes on as if it had not been."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from xcnorm.data import Benchmark, Domain
from xcnorm.data.training_images import TrainingImages
from xcnorm.engine import seeding
from xcnorm.engine.batches import Batches, accuracy, predict, preparation
from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.engine.distributed import World
from xcnorm.engine.experiment import Experiment
from xcnorm.engine.graph import captured
from xcnorm.engine.optimisation import make_optimiser, rate_factor, restore, set_rate
from xcnorm.engine.precision import autocast, precision
from xcnorm.engine.runs import RunFolder
from xcnorm.engine.signals import stop_requests
from xcnorm.errors import UserError
from xcnorm.methods import Objective, Training
from xcnorm.models import Network, create_model
from xcnorm.nn import synchronise

Progress = Callable[[int, int, float], None]
"""Is told the steps done, the steps in all, and the latest loss."""

Judge = Callable[[Tensor, Tensor], float]
"""From the probabilities of each class and the right ones to a score; higher is better."""


class Trained(NamedTuple):
    """What came of a training.

    Attributes:
        selected: For each selection rule, the step that its weights are from.
        steps: The number of training steps.
        seconds: How long they took, interruptions left out.
    """

    selected: dict[str, int]
    steps: int
    seconds: float


_PATIENCE = 60.0  # seconds of work between steps after which a checkpoint is written
_LOOKS = 10  # how often validation images are looked at, and checkpoints written, unless the experiment says
_LOG_LINES = 200


class Trainer:
    """The state of one training, and its steps.

    Args:
        experiment: What is trained, and how.
        benchmark: Its data.
        world: The processes that share the work.
        judge: Scores the answers to validation images, for the selection ``"best_on_source"``.
        probe: Tests a network on the targets, for the selection ``"oracle"`` alone.

    Attributes:
        model: The network, in training.
        objective: What is minimised.
        pool: The images it learns from.
        training: What the method is told of all this.
        step: The number of training steps done.
        steps: The number of training steps in all.
        best: For each selection rule but ``"last"``: the best score so far, its step and its weights.
        seconds: How long the training has taken so far, also before it was interrupted.
    """

    def __init__(
        self,
        experiment: Experiment,
        benchmark: Benchmark,
        world: World,
        *,
        judge: Judge = accuracy,
        probe: Callable[[nn.Module], float] | None = None,
    ) -> None:
        self.experiment, self.benchmark, self.world = experiment, benchmark, world
        self._judge, self._probe = judge, probe
        run, schedule, seed = experiment.run, experiment.schedule, experiment.seed
        device = world.device
        if schedule.batch % world.size:
            raise UserError(f"schedule.batch {schedule.batch} cannot be shared by {world.size} processes evenly")
        source = _limited(benchmark.train, experiment.data.train_limit)
        self.steps = schedule.steps(len(source))
        if not self.steps:
            raise UserError(f"{len(source)} training images do not fill one batch of {schedule.batch}")
        self.model = build_model(experiment, benchmark, device)
        method, augmentation = experiment.method.make()
        if world.size > 1 and method.distributed:
            reason = method.distributed
            raise UserError(f"method {method.name} cannot run in several processes: {reason}; train it in one")
        capturable = method.capturable and run.precision != "fp16"  # whose scaler looks at every gradient first
        if run.graph and (device.type != "cuda" or not capturable or world.size > 1):
            raise UserError(
                "run.graph needs one process on a CUDA device, another precision than 'fp16', and a method that can be "
                "captured, such as erm"
            )
        if run.precision == "fp16" and device.type != "cuda":
            raise UserError("run.precision 'fp16' needs a CUDA device; on the CPU use 'bf16' or 'float32'")
        if run.precision == "fp16" and not method.scalable:
            raise UserError(f"method {method.name} takes gradients of its own, which fp16 would lose; use 'bf16'")
        self.generators = {name: seeding.stream(seed, name) for name in ("augment", "method")}
        self.prepare = preparation(experiment.data, run.channels_last)
        self.pool = TrainingImages(source, self.prepare, device)
        share = schedule.batch // world.size
        part = slice(world.rank * share, (world.rank + 1) * share)
        self.batches = Batches(
            self.pool,
            schedule.batch,
            experiment.data,
            seed=seeding.derive(seed, "order"),
            generator=self.generators["augment"],
            part=part,
            source_only=not method.learns_from_added,
        )
        self.training = Training(self.model, self.pool, device, schedule.batch, part, self.steps, self.batches.changes)
        if world.size > 1:
            synchronise(self.model)
        network = torch.compile(self.model) if run.compile else self.model
        with seeding.seeded(seeding.derive(seed, "method")):
            self.objective = Objective(method, augmentation, cast(Network, network), self.training)
        self.optimiser = make_optimiser(self.objective, experiment.optimiser, capturable=run.graph)
        self.scaler = torch.amp.GradScaler(device.type, enabled=run.precision == "fp16")
        self.average = None
        if schedule.average == "ema":
            self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(schedule.average_decay))
        self._loss: nn.Module = self.objective
        if world.size > 1:
            ids = [device.index] if device.type == "cuda" else None
            self._loss = DistributedDataParallel(self.objective, device_ids=ids)
        self._compute: Callable[..., Tensor] = captured(self._update) if run.graph else self._update
        self.step = 0
        self.seconds = 0.0
        self.best: dict[str, dict[str, Any]] = {}
        seeding.seed_globals(seeding.derive(seed, f"rank{world.rank}"))

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision that the experiment asks for."""
        return autocast(self.experiment.run.precision, self.world.device)

    def advance(self) -> Tensor | None:
        """One training step, and its loss, still on the device; or other work that the method does first, and None."""
        settings, generator = self.experiment, self.generators["method"]
        self.training.step = self.step
        self.training.rate = settings.optimiser.learning_rate * rate_factor(settings.schedule, self.step, self.steps)
        if self.objective.method.pending():
            with self.autocast():
                self.objective.method.work(generator)
            return None
        drawn = self.objective.draw(*next(self.batches), generator)
        set_rate(self.optimiser, self.training.rate)
        loss = self._compute(*drawn)
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.step += 1
        return loss

    def _update(self, *drawn: Tensor) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        with self.autocast():
            loss: Tensor = self._loss(*drawn)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        with self.autocast():
            self.objective.after(*drawn)
        return loss.detach()

    def tested_model(self) -> nn.Module:
        """The network that is judged: the averaged one, where there is one."""
        return self.model if self.average is None else self.average.module

    def look(self) -> float:
        """Score on the validation images; keeps the weights if they are better than all earlier ones."""
        domain, model = self.benchmark.validation, self.tested_model()
        probabilities = predict(model, domain.images, self.prepare, self.world.device, autocast=self.autocast)
        score = self._judge(probabilities, domain.labels)
        scores = {"best_on_source": score}
        if "oracle" in self.experiment.run.selection and self._probe is not None:
            scores["oracle"] = self._probe(model)
        for rule, value in scores.items():
            if rule in self.experiment.run.selection and value > self.best.get(rule, {"score": -math.inf})["score"]:
                weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
                self.best[rule] = {"score": value, "step": self.step, "weights": weights}
        return score

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on; all processes must ask."""
        return {
            "model": self.model.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
            "method": self.objective.method.state_dict(),
            "companion": None if self.objective.companion is None else self.objective.companion.state_dict(),
            "pool": self.pool.state_dict(),
            "sampler": self.batches.sampler.state_dict(),
            "generators": {name: generator.get_state() for name, generator in self.generators.items()},
            "globals": self.world.gather(seeding.global_state()),
            "best": self.best,
            "seconds": self.seconds,
        }

    def load_state_dict(self, step: int, state: dict[str, Any]) -> None:
        """Go on from a state after so many steps."""
        self.model.load_state_dict(state["model"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        restore(self.optimiser, state["optimiser"])
        self.scaler.load_state_dict(state["scaler"])
        self.objective.method.load_state_dict(state["method"])
        if self.objective.companion is not None:
            self.objective.companion.load_state_dict(state["companion"])
        self.pool.load_state_dict(state["pool"])
        self.batches.load_state_dict(state["sampler"])
        for name, generator in self.generators.items():
            generator.set_state(state["generators"][name].cpu())
        if len(state["globals"]) == self.world.size:  # else dropout goes on from the seeds of a new start
            seeding.set_global_state(state["globals"][self.world.rank])
        self.best = state["best"]
        self.seconds = state["seconds"]
        self.step = step


def build_model(experiment: Experiment, benchmark: Benchmark, device: torch.device) -> Network:
    """The experiment's network with its first weights, which depend on the seed alone."""
    section, (method, _) = experiment.model, experiment.method.make()
    options: dict[str, Any] = dict(section.options)
    with seeding.seeded(seeding.derive(experiment.seed, "weights")):
        model = create_model(section.name, section.layer, num_classes=len(benchmark.classes), **options)
        model = method.adapt(model)
    model = model.to(device)
    if experiment.run.channels_last:
        for parameter in model.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return model.train()


def train(
    experiment: Experiment,
    benchmark: Benchmark,
    folder: RunFolder,
    world: World,
    *,
    judge: Judge = accuracy,
    probe: Callable[[nn.Module], float] | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train to the end, from the newest checkpoint if there is one, and keep the selected weights in the run's folder.

    A request to stop (Ctrl-C, or the signal that cluster schedulers send) is answered after the current step, with a
    checkpoint.

    Args:
        experiment: What is trained, and how.
        benchmark: Its data.
        folder: Where checkpoints, log and weights go.
        world: The processes that share the work.
        judge: Scores the answers to validation images, for the selection ``"best_on_source"``.
        probe: Tests a network on the targets, for the selection ``"oracle"`` alone.
        progress: Is told how far it is.

    Raises:
        KeyboardInterrupt: It was asked to stop; the same call goes on from there.
        UserError: The experiment cannot run here, the loss is no longer finite, or the disk is full.
    """
    with precision(experiment.run.precision), stop_requests() as stopped:
        trainer = Trainer(experiment, benchmark, world, judge=judge, probe=probe)
        _resume(trainer, folder)
        run, steps = experiment.run, trainer.steps
        look_every = run.evaluate_every or max(1, steps // _LOOKS)
        save_every = run.checkpoint_every or max(1, steps // _LOOKS)
        log_every = max(1, steps // _LOG_LINES)
        started = time.perf_counter() - trainer.seconds
        saved = time.perf_counter()
        while trainer.step < steps:
            loss = trainer.advance()
            step, stepped = trainer.step, loss is not None
            trainer.seconds = time.perf_counter() - started
            if loss is not None and (step % log_every == 0 or step == steps):
                _log(trainer, folder, loss.item())
                if progress is not None:
                    progress(step, steps, loss.item())
            if stepped and world.leads and (step % look_every == 0 or step == steps):
                folder.log({"step": step, "validation": trainer.look()})
            stop = world.agree(stopped()) if step % log_every == 0 or world.size == 1 else False
            due = step % save_every == 0 or step == steps
            if not stepped:  # a phase may take longer than all steps; several processes would have to agree
                due = world.size == 1 and time.perf_counter() - saved > _PATIENCE
            if due or stop:
                state = trainer.state_dict()
                if world.leads:
                    save_checkpoint(folder.checkpoints, step, state)
                saved = time.perf_counter()
            if stop:
                raise KeyboardInterrupt
        return Trained(_keep_weights(trainer, folder) if world.leads else {}, steps, trainer.seconds)


def _resume(trainer: Trainer, folder: RunFolder) -> None:
    found = load_checkpoint(folder.checkpoints)
    if found is not None:
        trainer.load_state_dict(*found)
    if trainer.world.leads:
        folder.cut_log(trainer.step)
    trainer.world.wait()


def _log(trainer: Trainer, folder: RunFolder, loss: float) -> None:
    if not math.isfinite(loss):
        raise UserError(
            f"the loss became {loss} in step {trainer.step}; try a smaller optimiser.learning_rate, or "
            "run.precision='float32'"
        )
    if trainer.world.leads:
        rate = float(trainer.optimiser.param_groups[0]["lr"])
        epoch = trainer.batches.sampler.epoch
        seconds = round(trainer.seconds, 3)
        folder.log({"step": trainer.step, "epoch": epoch, "loss": loss, "learning_rate": rate, "seconds": seconds})


def _keep_weights(trainer: Trainer, folder: RunFolder) -> dict[str, int]:
    selected: dict[str, int] = {}
    for rule in trainer.experiment.run.selection:
        if rule == "last":
            weights, step = trainer.tested_model().state_dict(), trainer.step
        elif rule in trainer.best:
            weights, step = trainer.best[rule]["weights"], trainer.best[rule]["step"]
        else:
            continue
        folder.save_weights(rule, weights)
        selected[rule] = step
    return selected


def _limited(source: Domain, limit: int) -> Domain:
    if not limit or limit >= len(source):
        return source
    chosen = torch.linspace(0, len(source) - 1, limit).long()
    return Domain(source.name, source.images[chosen], source.labels[chosen], source.note)
