"""Hidden folders that are gone in the end, at the latest when the next one is made."""

import subprocess
import sys
import threading

import pytest

from xcnorm.data.staging import staging
from xcnorm.errors import UserError

KILLED = """
import os, signal, sys
from pathlib import Path
from xcnorm.data.staging import staging
with staging(Path(sys.argv[1])) as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_lasts_as_long_as_the_block(tmp_path):
    with staging(tmp_path / "set") as folder:
        (folder / "deep").mkdir()
        assert folder.parent == tmp_path
        assert all(path.name.startswith(".") for path in tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), staging(tmp_path / "set"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["set", "set [1]*"])
def test_what_a_killed_process_left_is_removed(tmp_path, name):
    for _ in range(2):  # the second removes what the first left, and is killed too
        subprocess.run([sys.executable, "-c", KILLED, tmp_path / name], check=False)
        assert (tmp_path / f".{name}.part" / "deep" / "file").exists()
    with staging(tmp_path / name) as folder:
        assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_somebody_else_is_refused_or_waits(tmp_path):
    order = []

    def wait():
        with staging(tmp_path / "set"):
            order.append("second")

    with staging(tmp_path / "set") as folder:
        with pytest.raises(UserError, match="one at a time"), staging(tmp_path / "set", "one at a time"):
            pass
        assert folder.exists()
        other = threading.Thread(target=wait)
        other.start()
        other.join(0.1)
        order.append("first")
    other.join(20)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_other_sets_stay(tmp_path):
    with staging(tmp_path / "set") as first, staging(tmp_path / "set-2") as second:
        assert first.exists()
        assert second.exists()
    (tmp_path / ".other.part").mkdir()
    with staging(tmp_path / "set"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [".other.part"]


def test_a_link_in_its_place_is_not_followed(tmp_path):
    mine = tmp_path / "elsewhere" / "mine.txt"
    mine.parent.mkdir()
    mine.touch()
    (tmp_path / ".set.part").symlink_to(mine.parent)
    with pytest.raises(FileExistsError), staging(tmp_path / "set"):
        pass
    assert mine.exists()
