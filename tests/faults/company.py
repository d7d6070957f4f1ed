"""Processes that work together, of which one dies: in a sweep, on a cluster, under torchrun."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.engine.programs import folder, results
from tests.faults.fault import Injected, expect, fault
from tests.faults.scene import EVERY, SETTINGS, Scene
from xcnorm.engine.checkpoint import load_checkpoint

_SEEDS = 2


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [*children, *(each for child in children for each in descendants(child))]


def wait_for_log(process: "subprocess.Popen[str]", out: Path, lines: int = 1) -> None:
    """Until a run has logged so much, or the program has ended."""
    while process.poll() is None and not any(
        path.read_text().count("\n") >= lines for path in out.glob("**/log.jsonl")
    ):
        time.sleep(0.02)


def start(*args: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def sweep(scene: Scene, out: Path, *options: str, **environment: str) -> "subprocess.Popen[str]":
    """Two seeds of the scene's training, one after the other."""
    out.mkdir(exist_ok=True)
    base: dict[str, object] = {}
    for key, value in SETTINGS.items():
        *sections, name = key.split(".")
        table = base
        for section in sections:
            table = table.setdefault(section, {})  # type: ignore[assignment]
        table[name] = json.loads(value) if str(value).startswith("[") else value
    base["benchmark"] = "folder"
    lines = [f"{name} = {json.dumps(value)}" for name, value in base.items() if not isinstance(value, dict)]
    for section, table in base.items():
        if isinstance(table, dict):
            lines += [f"[base.{section}]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    preset = out / "preset.toml"
    text = "\n".join(["title = 'Two'", f"seeds = {list(range(_SEEDS))}", "[base]", *lines, "[[arms]]", "label = 'one'"])
    preset.write_text(text + "\n")
    where = ["--out", str(out / "runs"), "--data", str(scene.pictures), "--device", "cpu"]
    return start("xcnorm", "sweep", str(preset), *where, *options, **environment)


def check_sweep(scene: Scene, out: Path, **environment: str) -> None:
    """The same command again finishes what is left, and leaves alone what was finished."""
    finished = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("**/metrics.json")}
    for path in (out / "runs").glob("**/checkpoint"):
        assert load_checkpoint(path) is not None
    process = sweep(scene, out, **environment)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    runs = sorted((out / "runs").glob("**/metrics.json"))
    assert len(runs) == _SEEDS
    assert all(path.stat().st_mtime_ns == moment for path, moment in finished.items())
    assert results(runs[0].parent)["log"] == scene.expected["log"]
    for rule, weights in scene.expected["weights"].items():
        found = results(runs[0].parent)["weights"][rule]
        assert all(found[name].equal(tensor) for name, tensor in weights.items()), rule
    shutil.rmtree(out)


@fault("a worker dies in a sweep", share=0.15, long=True)
def worker(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    process = sweep(scene, out)
    wait_for_log(process, out, chance.randrange(1, 14))
    workers = descendants(process.pid)
    for pid in workers[:1]:
        os.kill(pid, signal.SIGKILL)
    said, _ = process.communicate()
    if process.returncode == 0:
        return None
    (line,) = [line for line in said.splitlines() if "failed: killed by SIGKILL" in line][:1]
    check_sweep(scene, out)
    return Injected(line)


@fault("a sweep is killed, its workers are not", share=0.15, long=True)
def sweeper(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    process = sweep(scene, out)
    wait_for_log(process, out, chance.randrange(1, 10))
    process.kill()
    process.communicate()
    check_sweep(scene, out)
    return Injected()


@fault("a node of a Ray cluster dies", share=0.05, long=True)
def node(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    import ray.cluster_utils

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = ray.cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        nodes = [cluster.add_node(num_cpus=1)]
        process = sweep(scene, out, "--on", "ray", "--workers", "1", RAY_ADDRESS=cluster.address)
        wait_for_log(process, out, chance.randrange(1, 10))
        cluster.add_node(num_cpus=1)
        cluster.remove_node(nodes[0], allow_graceful=False)
        said, _ = process.communicate(timeout=240)
        if process.returncode == 0:
            return None
        failed = [line for line in said.splitlines() if "seed 0: failed: " in line]
        assert failed, said
        check_sweep(scene, out, RAY_ADDRESS=cluster.address)
    finally:
        cluster.shutdown()
    return Injected(failed[0])


def launch(scene: Scene, out: Path) -> "subprocess.Popen[str]":
    """The scene's training in two processes."""
    options = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "xcnorm"]
    return start(*options, *scene.arguments(out))


def launched(scene: Scene) -> dict[str, object]:
    """What two processes leave behind that nobody disturbs."""
    out = scene.root / "pair"
    if not out.exists():
        said, _ = (process := launch(scene, out)).communicate()
        assert process.returncode == 0, said
    return results(folder(out))


def check_launch(scene: Scene, out: Path) -> int:
    """The same launch again comes to the same end; how many steps it did again."""
    expected, lost = launched(scene), scene.lost(out)
    assert lost <= EVERY
    said, _ = (process := launch(scene, out)).communicate()
    assert process.returncode == 0, said
    found = results(folder(out))
    assert found["metrics"] == expected["metrics"]
    assert found["log"] == expected["log"]
    shutil.rmtree(out)
    return lost


@fault("a rank dies under torchrun, and the launch is started again", share=0.1)
def rank(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    process = launch(scene, out)
    wait_for_log(process, out, chance.randrange(4, 14))
    ranks = descendants(process.pid)
    os.kill(ranks[1], signal.SIGKILL)
    said, _ = process.communicate(timeout=120)
    if process.returncode == 0:
        return None
    (line,) = [line for line in said.splitlines() if line.startswith("xcnorm: ")][:1] or [said]
    expect("another process of this training is gone|^xcnorm: interrupted", line)
    return Injected(line, check_launch(scene, out))


@fault("a whole launch of torchrun is killed", share=0.1, long=True)
def whole_launch(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    process = launch(scene, out)
    wait_for_log(process, out, chance.randrange(4, 14))
    for pid in (process.pid, *descendants(process.pid)):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    return Injected("", check_launch(scene, out))
