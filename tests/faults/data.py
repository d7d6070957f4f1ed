"""Data that is on its way when the process is killed: downloaded, unpacked, decoded."""

import os
import random
import shutil
import signal
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch

from tests.data.download.server import DATA, mirror
from tests.engine.killed_while_saving import EVENTS
from tests.faults.fault import Injected, fault
from tests.faults.scene import Scene
from xcnorm.data.decode import decode
from xcnorm.data.download import RemoteFile, fetch, unpack


def killed(work: Callable[[], object], chance: random.Random, points: int) -> bool:
    """Do something in a process of its own, killed as it touches the disk; whether it came to that.

    Args:
        work: What is done.
        chance: Draws the moment.
        points: How often it touches the disk, more or less.
    """
    left = chance.randrange(1, points)
    child = os.fork()
    if not child:

        def watch(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            if event in EVENTS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        code = 70
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def contents(root: Path) -> dict[str, bytes]:
    """What is below a folder, but for an empty lock of a process that was killed with everything else in place."""
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not (name.endswith(".lock") and is_empty(path))}


def is_empty(path: Path) -> bool:
    return path.stat().st_size == 0


@fault("SIGKILL while a file is downloaded")
def download(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    with mirror() as server:
        file = RemoteFile("set/data.bin", (server.url("truncates-once"), server.url("fine")), size=len(DATA))
        was_killed = killed(lambda: fetch(file, out), chance, 20)
        for path in (out / "set").glob("data.bin"):
            assert path.read_bytes() == DATA  # what has the name is complete
        fetch(file, out)
    assert contents(out) == {"set/data.bin": DATA}
    shutil.rmtree(out)
    return Injected() if was_killed else None


@fault("SIGKILL while an archive is unpacked")
def unpacking(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    out.mkdir()
    tree = {f"set/{name}/{number}": DATA[:1000] * number for name in "ab" for number in range(1, 6)}
    archive = out / ("data.zip" if chance.random() < 0.5 else "data.tar")
    for name, content in tree.items():
        (out / "made" / name).parent.mkdir(parents=True, exist_ok=True)
        (out / "made" / name).write_bytes(content)
    packed = zipfile.ZipFile(archive, "w") if archive.suffix == ".zip" else tarfile.open(archive, "w")  # noqa: SIM115
    with packed:
        for name in tree:
            (packed.write if isinstance(packed, zipfile.ZipFile) else packed.add)(out / "made" / name, name)
    was_killed = killed(lambda: unpack(archive, out / "root"), chance, 50)
    for name, content in contents(out / "root").items():
        assert name.startswith(".") or content == tree[name]
    unpack(archive, out / "root")
    assert contents(out / "root") == tree
    shutil.rmtree(out)
    return Injected() if was_killed else None


@fault("SIGKILL while pictures are decoded")
def decoding(scene: Scene, out: Path, chance: random.Random) -> Injected | None:
    paths = sorted((scene.pictures / "dark").rglob("*.png"))[:8]
    expected = decode(paths)
    was_killed = killed(lambda: decode(paths, out=out / "pictures.npy"), chance, 40)
    assert torch.equal(decode(paths, out=out / "pictures.npy"), expected)
    assert list(contents(out)) == ["pictures.npy"]
    shutil.rmtree(out)
    return Injected() if was_killed else None
