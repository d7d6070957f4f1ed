"""Numbers that go wrong: inputs that are none, losses that explode, memory that runs out, clocks that jump."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tests.faults.fault import Injected, expect, fault
from tests.faults.scene import EVERY, STEPS, Scene


def at_step(step: int, spoil: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], None]:
    """Spoil the first image of a step."""

    def sabotage() -> None:
        from xcnorm.engine.trainer import Trainer

        update = Trainer._plain_update

        def spoilt(self: Trainer, *drawn: torch.Tensor) -> torch.Tensor:
            first, *rest = drawn
            return update(self, spoil(first) if self.step == step else first, *rest)

        Trainer._plain_update = spoilt

    return sabotage


def stopped(scene: Scene, out: Path, sabotage: Callable[[], None], words: str) -> Injected:
    code, said = scene.start(out, sabotage).wait()
    assert code == 2, (code, said)
    expect(words, said)
    lost = scene.lost(out)
    assert lost <= EVERY, lost
    scene.check(out)
    return Injected(said, lost)


@fault("NaN in the input")
def no_number(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    sabotage = at_step(chance.randrange(STEPS), lambda images: images.index_fill(0, torch.tensor([0]), torch.nan))
    return stopped(scene, out, sabotage, r"the loss became nan in step \d+; try a smaller|a weight is no longer finite")


@fault("exploding loss")
def exploding(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    sabotage = at_step(chance.randrange(STEPS), lambda images: images * torch.inf)
    return stopped(scene, out, sabotage, r"the loss became (nan|inf) in step \d+; try a smaller|no longer finite")


@fault("out of memory")
def no_memory(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    def fail(images: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    return stopped(scene, out, at_step(chance.randrange(STEPS), fail), r"^xcnorm: out of memory on cpu; free some")


@fault("clock that jumps, files of another century")
def clock(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    def jump() -> None:
        now = time.time
        time.time = lambda: now() + chance.uniform(-1e9, 1e9)
        time.time_ns = lambda: int(1e9 * time.time())

    scene.partly(out, chance.randrange(1, STEPS))
    for path in out.rglob("*"):
        moment = chance.uniform(0, 4e9)
        os.utime(path, (moment, moment))
    scene.check(out, jump)
    return Injected()
