"""Archives: honest ones, hostile ones, and broken ones."""

import io
import random
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile

import pytest

from tests.data.download.limits import largest_file
from xcnorm.data.download import unpack
from xcnorm.data.download.unpack import _Member, _RefusedError, _write
from xcnorm.errors import UserError

TREE = {
    "set/a.png": bytes(range(256)) * 10,
    "set/deep/er/b.png": random.Random(0).randbytes(70_000),
    "set/empty.txt": b"",
    "notes.txt": b"512 bytes are a block" * 512,
}


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "kept.txt").write_text("kept")
    return root


def contents(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def tar(path, *members, mode="w", form=tarfile.PAX_FORMAT):
    """A tar of members: pairs of a name and content, or a TarInfo."""
    with tarfile.open(path, mode, format=form) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def zipped(path, *members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


PACKERS = {
    "data.tar": lambda path, *members: tar(path, *members),
    "data.tar.gz": lambda path, *members: tar(path, *members, mode="w:gz"),
    "data.tar.bz2": lambda path, *members: tar(path, *members, mode="w:bz2"),
    "data.tar.xz": lambda path, *members: tar(path, *members, mode="w:xz"),
    "gnu.tar": lambda path, *members: tar(path, *members, form=tarfile.GNU_FORMAT),
    "data.zip": zipped,
    "stored.zip": lambda path, *members: zipped(path, *members, compression=zipfile.ZIP_STORED),
    "bzip2.zip": lambda path, *members: zipped(path, *members, compression=zipfile.ZIP_BZIP2),
    "lzma.zip": lambda path, *members: zipped(path, *members, compression=zipfile.ZIP_LZMA),
}


@pytest.fixture(params=PACKERS)
def pack(request, tmp_path):
    """Packs members into an archive of each kind."""
    return lambda *members: PACKERS[request.param](tmp_path / request.param, *members)


def refused(archive, root, *words, **limits):
    """The archive is refused with one line that says all this, and the folder is as it was."""
    before = sorted(root.rglob("*"))
    with pytest.raises(UserError) as caught:
        unpack(archive, root, **limits)
    message = str(caught.value)
    assert "\n" not in message
    for word in (str(archive), *words):
        assert word in message
    assert sorted(root.rglob("*")) == before
    assert contents(root)["kept.txt"] == b"kept"
    return message


def test_all_of_it_is_unpacked(pack, root):
    told = []
    archive = pack(*TREE.items())
    unpack(archive, root, progress=lambda done, total: told.append((done, total)))
    assert contents(root) == {**TREE, "kept.txt": b"kept"}
    assert told == sorted(told)
    assert {total for _, total in told} == {archive.stat().st_size}
    assert 0 < told[-1][0] <= archive.stat().st_size


def test_what_is_there_is_kept_or_replaced(pack, root):
    (root / "set" / "deep").mkdir(parents=True)
    (root / "set" / "a.png").write_bytes(b"old")
    (root / "set" / "deep" / "other.png").write_bytes(b"other")
    unpack(pack(*TREE.items()), root)
    assert contents(root) == {**TREE, "kept.txt": b"kept", "set/deep/other.png": b"other"}


def test_folders_and_dots(root, tmp_path):
    folders = [tarfile.TarInfo(name) for name in (".", "./set", "./set/empty")]
    for folder in folders:
        folder.type = tarfile.DIRTYPE
    unpack(tar(tmp_path / "data.tar", *folders, ("./set/a.png", b"a")), root)
    assert contents(root) == {"kept.txt": b"kept", "set/a.png": b"a"}
    assert (root / "set" / "empty").is_dir()
    unpack(zipped(tmp_path / "data.zip", ("again/", b""), ("again/sub/", b"")), root)
    assert (root / "again" / "sub").is_dir()


def test_archives_without_members(pack, root):
    unpack(pack(), root)
    assert contents(root) == {"kept.txt": b"kept"}


def test_permissions_are_those_of_new_files(root, tmp_path):
    info = tarfile.TarInfo("run.sh")
    info.mode = 0o6777
    unpack(tar(tmp_path / "data.tar", info), root)
    (root / "new.sh").touch()
    assert (root / "run.sh").stat().st_mode == (root / "new.sh").stat().st_mode


@pytest.mark.parametrize(
    "name",
    [
        "/absolute.txt",
        "../outside.txt",
        "set/../../outside.txt",
        "set/..",
        "C:/drive.txt",
        "C:drive.txt",
        "set\\file.txt",
        "\\absolute.txt",
        "set\\..\\..\\outside.txt",
        "..\\outside.txt",
        "//server/share/file.txt",
    ],
)
def test_names_that_lead_elsewhere(pack, root, tmp_path, name):
    archive = pack(("fine.txt", b"fine"), (name, b"evil"), ("also-fine.txt", b"fine"))
    before = sorted(path for path in tmp_path.rglob("*"))
    refused(archive, root, repr(name), "outside")
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tarfile.SYMTYPE, "a link"),
        (tarfile.LNKTYPE, "a link"),
        (tarfile.CHRTYPE, "neither"),
        (tarfile.BLKTYPE, "neither"),
        (tarfile.FIFOTYPE, "neither"),
        (tarfile.GNUTYPE_SPARSE, "neither"),
        (b"Z", "neither"),
    ],
)
def test_members_of_a_tar_that_are_no_files(root, tmp_path, kind, words):
    info = tarfile.TarInfo("odd")
    info.type, info.linkname = kind, "kept.txt"
    refused(tar(tmp_path / "data.tar", ("fine.txt", b"fine"), info), root, "'odd' is", words)


@pytest.mark.parametrize(
    ("kind", "words"), [(stat.S_IFLNK, "a link"), (stat.S_IFIFO, "neither"), (stat.S_IFCHR, "neither")]
)
def test_members_of_a_zip_that_are_no_files(root, tmp_path, kind, words):
    info = zipfile.ZipInfo("odd")
    info.external_attr = (kind | 0o777) << 16
    refused(zipped(tmp_path / "data.zip", ("fine.txt", b"fine"), (info, b"kept.txt")), root, "'odd' is", words)


def test_a_link_on_disk_is_not_written_through(pack, root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "set").symlink_to(elsewhere)
    refused(pack(*TREE.items()), root, "'set/a.png'", "through the link")
    assert list(elsewhere.iterdir()) == []


def test_a_link_on_disk_is_not_replaced(pack, root, tmp_path):
    (root / "notes.txt").symlink_to(tmp_path / "nowhere")
    refused(pack(*TREE.items()), root, "'notes.txt'", "through the link")
    assert (root / "notes.txt").is_symlink()


def test_a_folder_is_not_replaced_by_a_file(pack, root):
    (root / "notes.txt").mkdir()
    refused(pack(*TREE.items()), root, "'notes.txt'", "a file and a folder")


def test_a_file_is_not_replaced_by_a_folder(pack, root):
    (root / "set").touch()
    refused(pack(*TREE.items()), root, "'set/a.png'", "a file and a folder")


def test_a_file_without_a_name(pack, root):
    refused(pack((".", b"nameless")), root, "without a name")


def test_a_zip_whose_name_is_cut_off(root, tmp_path):
    archive = zipped(tmp_path / "data.zip", ("named.txt", b"nameless"))
    archive.write_bytes(archive.read_bytes().replace(b"named.txt", b"\0amed.txt"))
    refused(archive, root, "without a name")


@pytest.mark.parametrize("second", ["a", "./a", "a/b"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_are_there_twice(pack, root, second):
    refused(pack(("a", b"first"), (second, b"second")), root, repr(second), "twice")


def test_more_bytes_than_the_limit(pack, root):
    archive = pack(("a", bytes(3000)), ("b", bytes(3000)))
    refused(archive, root, "5,999 bytes", limit_bytes=5999)


def test_exactly_the_limit(root, tmp_path):
    unpack(zipped(tmp_path / "data.zip", ("a", bytes(3000)), ("b", bytes(3000))), root, limit_bytes=6000)


def test_more_members_than_the_limit(pack, root):
    archive = pack(*((str(number), b"") for number in range(11)))
    refused(archive, root, "more than 10 members", limit_members=10)
    unpack(archive, root, limit_members=11)


def test_a_member_longer_than_it_says_is_stopped_at_the_limit(tmp_path):
    member = _Member("long", "file", 10, lambda: io.BytesIO(bytes(5 << 20)))
    with pytest.raises(_RefusedError, match="'long' is longer than it says"):
        _write(member, tmp_path / "long", 1 << 20, lambda: None)
    assert (tmp_path / "long").stat().st_size <= 1 << 20


def test_a_zip_that_grows_absurdly(root, tmp_path):
    archive = zipped(tmp_path / "data.zip", ("zeros", bytes(100 << 20)))
    refused(archive, root, f"would become {100 << 20:,}")


def test_bytes_after_the_end_of_a_tar_count(root, tmp_path):
    archive = tmp_path / "data.tar"
    tar(archive, ("a", b"a"))
    with archive.open("ab") as handle:
        handle.write(bytes(1 << 20))
    refused(archive, root, "more than 100,000 bytes", limit_bytes=100_000)


def test_a_header_that_claims_gigabytes_is_not_read(root, tmp_path):
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 7 << 30
    archive = tmp_path / "data.tar"
    archive.write_bytes(info.tobuf() + bytes(10_000))
    refused(archive, root, "header that is far too long")


def test_headers_nested_without_end(root, tmp_path):
    info = tarfile.TarInfo("global")
    info.type = tarfile.XGLTYPE
    archive = tmp_path / "data.tar"
    archive.write_bytes(info.tobuf() * 5000 + bytes(1024))
    refused(archive, root, "damaged")


def test_a_negative_size(root, tmp_path):
    info = tarfile.TarInfo("back")
    info.size = -1024
    archive = tmp_path / "data.tar"
    archive.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    refused(archive, root, "damaged")


def test_a_zip_that_lies_about_a_size(root, tmp_path):
    archive = zipped(tmp_path / "data.zip", ("a", bytes(5000)))
    true, lie = struct.pack("<I", 5000), struct.pack("<I", 50)
    data = archive.read_bytes()
    assert data.count(true) == 2
    archive.write_bytes(data.replace(true, lie))
    refused(archive, root, "damaged")
    archive.write_bytes(data.replace(true, struct.pack("<I", 50_000)))
    refused(archive, root, "damaged")


def test_a_zip_with_a_password(root, tmp_path):
    archive = zipped(tmp_path / "data.zip", ("a", b"secret"))
    data = bytearray(archive.read_bytes())
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(header) + flags] |= 1
    archive.write_bytes(data)
    refused(archive, root, "password")


def test_truncated_archives(pack, root):
    archive = pack(*TREE.items())
    data = archive.read_bytes()
    # A tar may lose the padding at its very end; its end mark is what tells that it is whole.
    last = tarfile_end(archive) if archive.suffix == ".tar" else len(data)
    for length in {1, 100, 512, 1024, 3584, last // 2, last - 513, last - 512, last - 1}:
        archive.write_bytes(data[:length])
        refused(archive, root, "damaged")


def tarfile_end(archive):
    """Where the first block of zeros that ends a tar ends."""
    with tarfile.open(archive) as opened:
        last = opened.getmembers()[-1]
    return last.offset_data + -(-last.size // 512) * 512 + 512


@pytest.mark.parametrize("name", [name for name in PACKERS if not name.endswith(".tar")])
def test_a_changed_byte_in_the_middle(root, tmp_path, name):
    archive = PACKERS[name](tmp_path / name, *TREE.items())
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 0xFF
    archive.write_bytes(data)
    refused(archive, root, "damaged")


def test_no_archive(root, tmp_path):
    for content in (b"", b"<!doctype html>" * 100, random.Random(0).randbytes(10_000)):
        (tmp_path / "data.tar.gz").write_bytes(content)
        refused(tmp_path / "data.tar.gz", root, "no archive")


def test_a_missing_archive(root, tmp_path):
    refused(tmp_path / "data.tar", root, "is not there")


def test_damage_anywhere_is_told_in_one_line_or_does_no_harm(pack, root):
    archive = pack(*TREE.items())
    data = archive.read_bytes()
    rng = random.Random(1)
    before = sorted(root.rglob("*"))
    told = []
    for _ in range(60):
        spoilt = bytearray(data)
        for _ in range(rng.choice([1, 1, 8])):
            # Most of the damage is done to headers, which stand at both ends.
            place = rng.choice([rng.randrange(len(data)), rng.randrange(512), -rng.randrange(1, 300)])
            spoilt[place] = rng.randrange(256)
        archive.write_bytes(spoilt)
        target = root / "target"
        try:
            unpack(archive, target, limit_bytes=1 << 20, limit_members=100)
        except UserError as error:
            told.append(str(error))
            assert list(target.iterdir()) == []
        shutil.rmtree(target)
        assert sorted(root.rglob("*")) == before
    assert told
    assert not any("\n" in message for message in told)


def test_a_disk_that_refuses_leaves_nothing(pack, root):
    archive = pack(*TREE.items())
    before = sorted(root.rglob("*"))
    with largest_file(50_000), pytest.raises(UserError, match=r"cannot write .*File too large; free some space"):
        unpack(archive, root)
    assert sorted(root.rglob("*")) == before


def test_what_a_killed_unpacking_left_is_removed_by_the_next(root, tmp_path):
    archive = tar(tmp_path / "data.tar", *TREE.items())
    code = (
        "import os, signal, sys; from pathlib import Path; from xcnorm.data.download import unpack;"
        "kill = lambda done, total: os.kill(os.getpid(), signal.SIGKILL);"
        "unpack(Path(sys.argv[1]), Path(sys.argv[2]), progress=kill)"
    )
    subprocess.run([sys.executable, "-c", code, archive, root], check=False)
    assert {path.name for path in root.rglob("*") if path.is_file()} == {"kept.txt", "a.png", ".data.tar.lock"}
    assert not (root / "set").exists()
    unpack(archive, root)
    assert contents(root) == {**TREE, "kept.txt": b"kept"}
    assert {path.name for path in root.iterdir()} == {"kept.txt", "set", "notes.txt"}


def test_a_root_below_a_file(root, tmp_path):
    archive = tar(tmp_path / "data.tar", ("a", b"a"))
    with pytest.raises(UserError, match="Not a directory"):
        unpack(archive, root / "kept.txt" / "below")


def test_many_members_are_not_remembered(root, tmp_path):
    folders = [tarfile.TarInfo(f"{number % 10}") for number in range(10_000)]
    for folder in folders:
        folder.type = tarfile.DIRTYPE
    archive = tar(tmp_path / "data.tar", *folders)
    tracemalloc.start()
    try:
        unpack(archive, root)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # some 500 bytes for each would be five million


def test_names_and_headers_that_fill_the_screen_are_cut(root, tmp_path):
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a/" * 900 + "b", b"x" * 2000)
    data = bytearray(packed.read_bytes())
    data[30] = ord("\x1b")  # the name in front of the content is another than the one in the list at the end
    packed.write_bytes(data)
    with pytest.raises(UserError, match="is damaged, cut short or no archive") as error:
        unpack(packed, root)
    assert len(str(error.value)) < 600
    assert str(error.value).isprintable()
