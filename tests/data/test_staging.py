"""Hidden folders that are gone in the end, at the latest when the next one is made."""

import subprocess
import sys

import pytest

from xcnorm.data.staging import staging

KILLED = """
import os, signal, sys
from pathlib import Path
from xcnorm.data.staging import staging
with staging(Path(sys.argv[1]), sys.argv[2]) as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_lasts_as_long_as_the_block(tmp_path):
    with staging(tmp_path, "set") as folder:
        (folder / "deep").mkdir()
        assert list(tmp_path.iterdir()) == [folder]
        assert folder.name.startswith(".")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), staging(tmp_path, "set"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["set", "set [1]*"])
def test_what_a_killed_process_left_is_removed(tmp_path, name):
    for _ in range(2):  # the second removes what the first left, and is killed too
        subprocess.run([sys.executable, "-c", KILLED, tmp_path, name], check=False)
        (left,) = tmp_path.iterdir()
        assert (left / "deep" / "file").exists()
    with staging(tmp_path, name) as folder:
        assert list(tmp_path.iterdir()) == [folder]


def test_what_somebody_is_at_stays(tmp_path):
    with staging(tmp_path, "set") as first, staging(tmp_path, "set") as second:
        assert sorted(tmp_path.iterdir()) == sorted([first, second])


def test_what_is_not_of_its_kind_stays(tmp_path):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    others = (".xcnorm-other-abcd1234", ".xcnorm-set-abc", ".xcnorm-set-2-abcd1234", ".set-abcd1234", "set")
    for folder in (elsewhere, *(root / name for name in others)):
        folder.mkdir(parents=True)
        (folder / "mine.txt").touch()
    (root / ".xcnorm-set-thislink").symlink_to(elsewhere)
    (root / ".xcnorm-set-thisfile").touch()
    before = sorted(tmp_path.rglob("*"))
    with staging(root, "set"):
        pass
    assert sorted(tmp_path.rglob("*")) == before
