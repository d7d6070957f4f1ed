"""Ends before the time: signals at any moment, and a second process on the same run."""

import random
import signal
import time
from pathlib import Path

from tests.faults.fault import Injected, fault
from tests.faults.scene import Scene


def at_any_moment(scene: Scene, out: Path, chance: random.Random, number: int, codes: set[int]) -> Injected | None:
    process = scene.start(out)
    time.sleep(chance.uniform(0.0, scene.seconds))
    process.send(number)
    code, said = process.wait()
    if code == 0:
        scene.compare(out)
        return None
    assert code in codes, (code, said)
    if code == 130:
        assert said == "xcnorm: interrupted", said
    lost = scene.lost(out)
    scene.check(out)
    return Injected(said if code == 130 else "", lost)


@fault("SIGKILL at any moment")
def killed(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    return at_any_moment(scene, out, chance, signal.SIGKILL, {-signal.SIGKILL})


@fault("SIGTERM at any moment")
def terminated(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    return at_any_moment(scene, out, chance, signal.SIGTERM, {130, -signal.SIGTERM})


@fault("SIGINT (Ctrl-C) at any moment")
def interrupted(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    return at_any_moment(scene, out, chance, signal.SIGINT, {130})


@fault("two processes on one run folder")
def twins(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    first = scene.start(out)
    time.sleep(chance.uniform(0.0, 0.5 * scene.seconds))
    second = scene.start(out, lambda: None)
    (code, said), (other, words) = first.wait(), second.wait()
    assert sorted((code, other)) == [0, 2], (code, said, other, words)
    refusal = words if other else said
    scene.compare(out)
    return Injected(refusal)
