"""The trainer: the state of one training, and its steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from statistics import fmean
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from xcnorm.data import Benchmark, Domain
from xcnorm.data.training_images import TrainingImages
from xcnorm.engine import seeding
from xcnorm.engine.averaging import AveragedNetwork
from xcnorm.engine.batches import Batches, preparation
from xcnorm.engine.distributed import World
from xcnorm.engine.experiment import Experiment
from xcnorm.engine.feed import Feed
from xcnorm.engine.graph import captured
from xcnorm.engine.networks import build_model
from xcnorm.engine.optimisation import make_optimiser, rate_factor, restore, set_rate
from xcnorm.engine.precision import autocast
from xcnorm.engine.probe import probe
from xcnorm.engine.testing import predict
from xcnorm.errors import UserError
from xcnorm.methods import Augmentation, Method, Objective, Training
from xcnorm.metrics import score
from xcnorm.models import Network
from xcnorm.nn import synchronise


class Trainer:
    """The state of one training, and its steps.

    Args:
        experiment: What is trained, and how.
        benchmark: Its data.
        world: The processes that share the work.
        weights: What the network starts from, if the experiment has a start.

    Attributes:
        model: The network, in training.
        tested: What is validated and kept: the network, or where the experiment says so the average of its weights.
        objective: What is minimised.
        feed: What is drawn for its steps.
        images: The images it learns from.
        training: What the method is told of all this.
        step: The number of training steps done.
        steps: The number of training steps in all.
        best: For each selection rule but ``"last"``: the best score so far, its step and its weights.
        seconds: How long the training has taken so far, also before it was interrupted.

    Raises:
        UserError: The experiment cannot be trained here.
    """

    def __init__(
        self,
        experiment: Experiment,
        benchmark: Benchmark,
        world: World,
        weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.experiment, self.benchmark, self.world = experiment, benchmark, world
        run, schedule, seed, device = experiment.run, experiment.schedule, experiment.seed, world.device
        method, augmentation = experiment.method.make()
        _check(experiment, method, augmentation, benchmark, world)
        self.steps = schedule.steps(len(benchmark.train))
        self.model = build_model(experiment, benchmark, device, weights)
        self._averaged = AveragedNetwork(self.model, schedule.ema) if schedule.ema else None
        self.tested = self.model if self._averaged is None else self._averaged.network
        self.generators = {name: seeding.stream(seed, name) for name in ("augment", "method")}
        self.images = TrainingImages(benchmark.train, preparation(experiment), device)
        share = schedule.batch // world.size
        part = slice(world.rank * share, (world.rank + 1) * share)
        self.batches = Batches(
            self.images,
            schedule.batch,
            experiment.data,
            seed=seeding.derive(seed, "order"),
            generator=self.generators["augment"],
            part=part,
            source_only=not method.learns_from_added,
        )
        self.training = Training(
            self.model, self.images, device, schedule.batch, part, self.steps, self.batches.changes
        )
        if world.size > 1:
            synchronise(self.model)
        network = torch.compile(self.model) if run.compile else self.model
        with seeding.seeded(seeding.derive(seed, "method")):
            self.objective = Objective(method, augmentation, cast(Network, network), self.training)
        self.optimiser = make_optimiser(self.objective, experiment.optimiser, capturable=run.graph)
        self.scaler = torch.amp.GradScaler(device.type, enabled=run.precision == "fp16")
        shape = torch.Size((share, 3, *benchmark.train.images.shape[2:]))
        self.feed = Feed(self.batches, self.objective, self.generators, shape, device)
        chosen_by = run.probe if "best_on_probe" in run.selection else ()
        self._probe = probe(benchmark.validation, chosen_by, device)
        self._loss: nn.Module = self.objective
        if world.size > 1:
            ids = [device.index] if device.type == "cuda" else None
            self._loss = DistributedDataParallel(self.objective, device_ids=ids)
        self._update: Callable[..., Tensor] = captured(self._plain_update) if run.graph else self._plain_update
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
        drawn = next(self.feed)
        set_rate(self.optimiser, self.training.rate)
        if self._averaged is not None:
            self._averaged.prepare(self.step)
        loss = self._update(*drawn)
        self.step += 1
        return loss

    def _plain_update(self, *drawn: Tensor) -> Tensor:
        """Forward, backward, and a step of the optimiser."""
        self.optimiser.zero_grad(set_to_none=True)
        with self.autocast():
            loss: Tensor = self._loss(*drawn)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        with self.autocast():
            self.objective.after(*drawn)
        if self._averaged is not None:
            self._averaged.follow()
        return loss.detach()

    def validate(self) -> float:
        """Score on the validation images; keeps the weights if they are better than all earlier ones."""
        scores = {"best_on_source": self._score(self.benchmark.validation)}
        if self._probe:
            scores["best_on_probe"] = fmean(map(self._score, self._probe.values()))
        if "oracle" in self.experiment.run.selection:  # choosing by the targets is cheating, and labelled so
            targets = self.benchmark.targets.on(self.world.device)
            scores["oracle"] = fmean(map(self._score, targets.values()))
        for rule, value in scores.items():
            if rule in self.experiment.run.selection and value > self.best.get(rule, {"score": -math.inf})["score"]:
                weights = {name: tensor.detach().clone() for name, tensor in self.tested.state_dict().items()}
                self.best[rule] = {"score": value, "step": self.step, "weights": weights}
        return scores["best_on_source"]

    def _score(self, domain: Domain) -> float:
        """By the benchmark's metric; where that is undefined, as AUROC of one class alone, nothing was learned."""
        probabilities = predict(self.tested, domain.images, self.experiment)
        if not probabilities.isfinite().all():
            return 0.0  # the loss of the next step says so
        return score(probabilities, domain.labels)[self.benchmark.card.metric] or 0.0

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on; all processes must ask."""
        return {
            "model": self.model.state_dict(),
            "averaged": None if self._averaged is None else self.tested.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
            "method": self.objective.method.state_dict(),
            "companion": None if self.objective.companion is None else self.objective.companion.state_dict(),
            "pool": self.images.state_dict(),
            **self.feed.state_dict(),
            "globals": self.world.gather(seeding.global_state()),
            "best": self.best,
            "seconds": self.seconds,
        }

    def load_state_dict(self, step: int, state: dict[str, Any]) -> None:
        """Go on from a state after so many steps."""
        self.model.load_state_dict(state["model"])
        if self._averaged is not None:
            self.tested.load_state_dict(state["averaged"])
        restore(self.optimiser, state["optimiser"])
        self.scaler.load_state_dict(state["scaler"])
        self.objective.method.load_state_dict(state["method"])
        if self.objective.companion is not None:
            self.objective.companion.load_state_dict(state["companion"])
        self.images.load_state_dict(state["pool"])
        self.feed.load_state_dict(state)
        if len(state["globals"]) == self.world.size:  # else dropout goes on from the seeds of a new start
            seeding.set_global_state(state["globals"][self.world.rank])
        self.best = state["best"]
        self.seconds = state["seconds"]
        self.step = step


def _check(
    experiment: Experiment, method: Method, augmentation: Augmentation | None, benchmark: Benchmark, world: World
) -> None:
    """Refuse what cannot be trained here."""
    images = len(benchmark.train)
    run, schedule, on_gpu = experiment.run, experiment.schedule, world.device.type == "cuda"
    half = run.precision == "fp16"  # its scaler looks at every gradient before the step
    if schedule.batch % world.size:
        raise UserError(f"schedule.batch {schedule.batch} cannot be shared by {world.size} processes evenly")
    if not schedule.steps(images):
        raise UserError(f"{images} training images do not fill one batch of {schedule.batch}")
    for part in filter(None, (method, augmentation)):
        if world.size > 1 and part.distributed:
            reason = part.distributed
            raise UserError(f"method {part.name} cannot run in several processes: {reason}; train it in one")
    if run.graph and not (on_gpu and method.capturable and not half and world.size == 1):
        raise UserError(
            "run.graph needs one process on a CUDA device, another precision than 'fp16', and a method that can be "
            "captured, such as erm"
        )
    if half and not on_gpu:
        raise UserError("run.precision 'fp16' needs a CUDA device; on the CPU use 'bf16' or 'float32'")
    if half and not method.scalable:
        raise UserError(f"method {method.name} takes gradients of its own, which fp16 would lose; use 'bf16'")
    if known := {experiment.method.name, experiment.method.augment}.intersection(run.probe):
        raise UserError(f"run.probe has {known.pop()!r}, which training uses: what is known cannot be a probe")
    if "oracle" in run.selection and not benchmark.targets:
        raise UserError("run.selection 'oracle' needs a target, and none is here")
