"""Disks that refuse: full ones, read-only folders, and rights that are lost on the way."""

import errno
import os
import random
import resource
import subprocess
import time
from pathlib import Path

from tests.engine.programs import folder
from tests.faults.fault import Injected, expect, fault
from tests.faults.scene import EVERY, NOBODY, STEPS, Scene, as_nobody


@fault("disk full: a file may not grow")
def limited(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    most = chance.randrange(2_000, 60_000)
    process = scene.start(out, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
    code, said = process.wait()
    if code == 0:
        scene.compare(out)
        return None
    assert code == 2, (code, said)
    expect(r"^xcnorm: cannot write .*: File too large; free some space, or (choose another|set TMPDIR)", said)
    lost = scene.lost(out)
    scene.check(out)
    return Injected(said, lost)


@fault("disk full: no space for the next file")
def without_space(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    left = chance.randrange(60)

    def fill() -> None:
        sync = os.fsync

        def refuse(handle: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(handle)

        os.fsync = refuse

    code, said = scene.start(out, fill).wait()
    if code == 0:
        scene.compare(out)
        return None
    assert code == 2, (code, said)
    expect(r"^xcnorm: cannot write .*: No space left on device; free some space, or (choose another|set TMPDIR)", said)
    lost = scene.lost(out)
    scene.check(out)
    return Injected(said, lost)


@fault("disk full: a file system of a few hundred kilobytes", share=0.5, long=True)
def tiny_disk(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    if os.geteuid() != 0:
        return None  # only root may mount
    out.mkdir()
    size = chance.randrange(20, 300)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", out], check=True)
    try:
        code, said = scene.start(out / "runs").wait()
        if code:
            expect(r"^xcnorm: .*No space left on device", said)
            subprocess.run(["mount", "-o", "remount,size=64m", out], check=True)
        lost = scene.lost(out / "runs")
        scene.check(out / "runs")
        return Injected(said, lost) if code else None
    finally:
        subprocess.run(["umount", out], check=True)


@fault("read-only folder")
def read_only(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    if chance.random() < 0.5:
        give(scene.partly(out, chance.randrange(1, STEPS)), out)
    else:
        out.mkdir()
    give(out, out)
    for path in (out, *out.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    code, said = scene.start(out, as_nobody).wait()
    assert code == 2, (code, said)
    expect(r"^xcnorm: .*Permission denied", said)
    restore(out)
    scene.check(out, as_nobody)
    return Injected(said)


@fault("rights lost while it runs")
def forbidden(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    out.mkdir()
    give(out, out)
    process = scene.start(out, as_nobody)
    time.sleep(chance.uniform(0.2, 0.9) * scene.seconds)
    for path in sorted(out.rglob("*"), reverse=True):
        if path.is_dir():
            path.chmod(0)
    code, said = process.wait()
    restore(out)
    if code == 0:
        scene.compare(out)
        return None
    assert code == 2, (code, said)
    expect(r"^xcnorm: .*Permission denied", said)
    lost = scene.lost(out)
    assert lost <= EVERY
    scene.check(out, as_nobody)
    return Injected(said, lost)


@fault("a checkpoint that may not be read")
def unreadable(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    run = scene.partly(out, chance.randrange(EVERY, STEPS))
    give(out, out)
    before = sorted((run / "checkpoint").rglob("*"))
    place = chance.choice([run / "checkpoint", *before])
    place.chmod(0)
    code, said = scene.start(out, as_nobody).wait()
    restore(out)
    if code == 0:  # that of the older one, which nobody needed
        scene.compare(out)
        return None
    assert code == 2, (code, said)
    expect(r"^xcnorm: .*Permission denied", said)
    # The older one is not read, but cannot be deleted, which is told once the next one is written.
    assert "cannot write" in said or sorted((folder(out) / "checkpoint").rglob("*")) == before, said
    lost = scene.lost(out)
    scene.check(out, as_nobody)
    return Injected(said, lost)


def give(path: Path, out: Path) -> None:
    """Let the program that has no rights own what is there."""
    if os.geteuid() == 0:
        for each in (path, *path.rglob("*")):
            os.chown(each, NOBODY, NOBODY)


def restore(out: Path) -> None:
    for path in (out, *out.rglob("*")):  # from above: what cannot be looked into has no content
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in out.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
