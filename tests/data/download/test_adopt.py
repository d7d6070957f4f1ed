"""Files that the user has fetched by hand."""

import hashlib

import pytest

from tests.data.download.limits import largest_file
from xcnorm.data.download import RemoteFile, adopt
from xcnorm.errors import UserError

DATA = bytes(range(256)) * 1000
FILE = RemoteFile("set/data.bin", size=len(DATA), md5=hashlib.md5(DATA).hexdigest())


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "downloads"
    (folder / "set").mkdir(parents=True)
    return folder


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.mark.parametrize("place", ["data.bin", "set/data.bin"])
def test_a_file_is_copied_to_its_place(root, folder, place):
    (folder / place).write_bytes(DATA)
    assert adopt(FILE, root, folder) == root / "set" / "data.bin"
    assert [path.name for path in (root / "set").iterdir()] == ["data.bin"]
    assert (root / "set" / "data.bin").read_bytes() == DATA
    assert (folder / place).read_bytes() == DATA


def test_an_empty_file_is_a_file(root, folder):
    (folder / "data.bin").touch()
    assert adopt(RemoteFile("data.bin"), root, folder).read_bytes() == b""


def test_the_beginning_of_a_download_is_overwritten(root, folder):
    (folder / "data.bin").write_bytes(DATA)
    (root / "set").mkdir(parents=True)
    (root / "set" / "data.bin.part").write_bytes(b"a beginning")
    assert adopt(FILE, root, folder).read_bytes() == DATA


def test_a_file_that_lies_in_its_place_stays_there(root):
    (root / "set").mkdir(parents=True)
    (root / "set" / "data.bin").write_bytes(DATA)
    assert adopt(FILE, root, root).read_bytes() == DATA


def test_a_file_that_is_not_there(root, folder):
    (folder / "other.bin").write_bytes(DATA)
    with pytest.raises(UserError, match=r"downloads holds no data\.bin; put that file there"):
        adopt(FILE, root, folder)


def test_a_wrong_file_is_refused_and_the_old_one_kept(root, folder):
    (folder / "data.bin").write_bytes(DATA[::-1])
    (root / "set").mkdir(parents=True)
    (root / "set" / "data.bin").write_bytes(b"old")
    with pytest.raises(UserError, match="is damaged or another version: its md5 is"):
        adopt(FILE, root, folder)
    assert (root / "set" / "data.bin").read_bytes() == b"old"


def test_a_copy_that_breaks_off_leaves_nothing_under_the_final_name(root, folder):
    (folder / "data.bin").write_bytes(DATA)
    with largest_file(100_000), pytest.raises(UserError, match=r"cannot write .*: File too large; free some space"):
        adopt(FILE, root, folder)
    assert not (root / "set" / "data.bin").exists()
    assert adopt(FILE, root, folder).read_bytes() == DATA
