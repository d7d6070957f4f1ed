"""A program that is killed at every point of the writing of a checkpoint, and prints what could be loaded each time.

It writes into the folder that it is given: a step that is new, and one that is there already, but damaged.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint

# Everything that changes the disk passes one of these.
EVENTS = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree", "fsync")


def state(step: int) -> dict[str, Any]:
    return {"weights": torch.full((1000,), float(step)), "step": step}


def save_and_die(folder: Path, step: int, point: int) -> None:
    """In a process of its own: killed at the point-th event; ends well if there are not so many."""
    passed = 0

    def watch(event: str, args: tuple[object, ...]) -> None:
        nonlocal passed
        if event not in EVENTS:
            return
        passed += 1
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    sync = os.fsync
    os.fsync = lambda handle: (watch("fsync", ()), sync(handle))[1]
    sys.addaudithook(watch)
    save_checkpoint(folder, step, state(step))
    os._exit(0)


def kill_everywhere(root: Path, damaged: bool) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    while not results or results[-1]["killed"]:
        point = len(results) + 1
        folder = root / str(point)
        for step in (1, 2):
            save_checkpoint(folder, step, state(step))
        if damaged:
            (folder / "step-000000003").mkdir()
            (folder / "step-000000003" / "state.json").write_text("{")
        child = os.fork()
        if not child:
            save_and_die(folder, 3, point)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        named = (folder / "step-000000003").exists()
        found = load_checkpoint(folder)
        assert found is not None
        step, loaded = found
        whole = loaded["step"] == step and bool(torch.equal(loaded["weights"], state(step)["weights"]))
        save_checkpoint(folder, 3, state(3))  # as the run does that goes on from there
        left = sorted(path.name for path in folder.iterdir())
        results.append({"killed": killed, "named": named, "step": step, "whole": whole, "left": left})
    return results


if __name__ == "__main__":
    root = Path(sys.argv[1])
    print(json.dumps([kill_everywhere(root / "new", damaged=False), kill_everywhere(root / "again", damaged=True)]))
