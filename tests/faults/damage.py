"""Damage to files: ends that are missing and bits that are flipped, in checkpoints, in weights and in pictures."""

import random
import shutil
from pathlib import Path

from tests.engine.programs import folder, results
from tests.faults.fault import Injected, expect, fault
from tests.faults.scene import EVERY, STEPS, Program, Scene
from xcnorm.engine.checkpoint import load_checkpoint

PASSED_OVER = r"the checkpoint .* is damaged and not used: "


def flip(path: Path, chance: random.Random) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def newest(run: Path) -> Path:
    return max((run / "checkpoint").glob("step-*"))


def passed_over(scene: Scene, out: Path) -> Injected:
    """What the program says that goes on from the checkpoint before."""
    done = int(newest(folder(out)).name.removeprefix("step-"))
    found = load_checkpoint(folder(out) / "checkpoint")
    program = scene.start(out)
    code, _ = program.wait()
    assert code == 0
    said = next((line for line in program.said().splitlines() if "is damaged" in line), "")
    kept = found[0] if found else 0
    assert kept == done or said, "nothing was said of a damaged checkpoint"
    if said:
        expect(PASSED_OVER, said)
    scene.compare(out)
    return Injected(said, done - kept)


@fault("truncated checkpoint")
def truncated(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    run = scene.partly(out, chance.randrange(EVERY + 1, STEPS))
    path = newest(run) / chance.choice(["state.json", "tensors.safetensors"])
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
    return passed_over(scene, out)


@fault("bit flip in a checkpoint")
def flipped(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    run = scene.partly(out, chance.randrange(EVERY + 1, STEPS))
    flip(newest(run) / chance.choice(["state.json", "tensors.safetensors"]), chance)
    return passed_over(scene, out)


@fault("every checkpoint damaged")
def all_gone(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    run = scene.partly(out, chance.randrange(EVERY + 1, STEPS))
    for path in (run / "checkpoint").glob("step-*"):
        (path / chance.choice(["state.json", "tensors.safetensors"])).write_bytes(b"")
    return passed_over(scene, out)


@fault("bit flip in the weights of a finished run")
def weights(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    code, said = scene.start(out).wait()
    assert code == 0, said
    run = folder(out)
    whole = (run / "last.safetensors").read_bytes()
    flip(run / "last.safetensors", chance)
    args = ["evaluate", str(run), "--data", str(scene.pictures), "--device", "cpu"]
    code, said = Program(args, out.with_name(f"{out.name}.said")).wait()
    if code:
        expect(r"^xcnorm: cannot read .*last.safetensors: .*; delete .*metrics.json and train again", said)
        (run / "metrics.json").unlink()
        scene.check(out)
        return Injected(said)
    assert results(run)["metrics"] == scene.expected["metrics"], "a flipped bit changed a result unnoticed"
    (run / "last.safetensors").write_bytes(whole)
    scene.compare(out)
    return Injected()


@fault("bit flip in a picture")
def picture(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    copy = out.with_name(f"{out.name}.pictures")
    shutil.copytree(scene.pictures, copy)
    path = chance.choice(sorted(copy.rglob("*.png")))
    flip(path, chance)
    code, said = scene.start(out, pictures=copy).wait()
    if code:
        assert code == 2, (code, said)
        expect(rf"^xcnorm: {path} is not a picture, or a damaged one; replace it", said)
        shutil.copytree(scene.pictures, copy, dirs_exist_ok=True)
        code, said_then = scene.start(out, pictures=copy).wait()
        assert code == 0, said_then
    scene.compare(out)  # what was not noticed changed no pixel
    shutil.rmtree(copy)
    return Injected(said if "damaged" in said else "")
