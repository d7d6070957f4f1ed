"""Fetching from a real server that behaves well, badly, or worse."""

import hashlib
import io
import os
import subprocess
import sys
import time
from email.message import Message
from pathlib import Path
from urllib.request import Request

import pytest

from tests.data.download.limits import largest_file
from tests.data.download.server import DATA, WRONG
from xcnorm.data.download import RemoteFile, fetch
from xcnorm.data.download.fetch import _FailedError, _Redirects
from xcnorm.errors import UserError

SIZE = len(DATA)
MD5 = hashlib.md5(DATA).hexdigest()
SHA256 = hashlib.sha256(DATA).hexdigest()
HALF = SIZE // 2


def published(server, *paths, size=SIZE, md5=MD5, sha256=SHA256):
    return RemoteFile("set/data.bin", tuple(map(server.url, paths)), size=size, md5=md5, sha256=sha256)


def unchecked(server, *paths, size=None):
    return published(server, *paths, size=size, md5=None, sha256=None)


def left_over(root, data):
    part = root / "set" / "data.bin.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(data)


def files(root):
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def refused(file, root, *words, **options):
    """The fetch fails with one line that says all this, and nothing has the final name."""
    with pytest.raises(UserError) as caught:
        fetch(file, root, **options)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    assert "data.bin" not in files(root)
    return message


def test_a_file_is_fetched_and_its_progress_told(server, tmp_path):
    told = []
    path = fetch(published(server, "fine"), tmp_path, progress=lambda done, total: told.append((done, total)))
    assert path == tmp_path / "set" / "data.bin"
    assert path.read_bytes() == DATA
    assert files(tmp_path) == ["data.bin"]
    assert told == sorted(told)
    assert told[-1] == (SIZE, SIZE)


def test_a_good_file_is_not_fetched_again(server, tmp_path):
    fetch(published(server, "fine"), tmp_path)
    server.log.clear()
    fetch(published(server, "fine", md5=MD5.upper()), tmp_path)
    assert server.log == []


def test_a_bad_file_is_replaced_only_by_a_good_one(server, tmp_path):
    path = fetch(unchecked(server, "wrong"), tmp_path)
    with pytest.raises(UserError):
        fetch(published(server, "wrong", "not-found"), tmp_path)
    assert path.read_bytes() == WRONG
    fetch(published(server, "fine"), tmp_path)
    assert path.read_bytes() == DATA


@pytest.mark.parametrize("known", [{"size": None}, {"md5": None}, {"sha256": None}])
@pytest.mark.parametrize("manner", ["fine", "no-range", "redirects", "truncates-once", "says-nothing", "chunked"])
def test_manners_that_do(server, tmp_path, manner, known):
    assert fetch(published(server, manner, **known), tmp_path).read_bytes() == DATA


@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        ("not-found", "HTTP 404"),
        ("broken", "HTTP 500"),
        ("no-content", "HTTP 204"),
        ("html", "web page"),
        ("html-as-data", "web page"),
        ("loops", "infinite loop"),
        ("redirects-to-ftp", "redirects from http to ftp"),
        ("truncates", f"of {SIZE:,} bytes"),
        ("truncates-without-range", f"100,000 of {SIZE:,} bytes"),
        ("says-too-long", f"offers {SIZE + 1:,} bytes, not {SIZE:,}"),
        ("says-too-short", "broke off after 1,000"),
        ("says-nothing-and-goes-on", f"more than the {SIZE:,} bytes"),
        ("says-nothing-and-truncates", f"100,000 of {SIZE:,} bytes"),
        ("chunked-and-truncates", "broke off"),
        ("wrong", "md5"),
    ],
)
def test_manners_that_do_not(server, tmp_path, manner, reason):
    refused(published(server, manner), tmp_path, "set/data.bin", reason, "--from-folder", server.url(manner))
    assert fetch(published(server, manner, "fine"), tmp_path).read_bytes() == DATA


def test_every_mirror_is_named_with_its_reason(server, tmp_path):
    message = refused(published(server, "not-found", "broken", "html"), tmp_path)
    assert message.index("HTTP 404") < message.index("HTTP 500") < message.index("web page")
    assert files(tmp_path) == []


def test_a_mirror_that_is_not_there(server, tmp_path):
    file = published(server, "fine")
    gone = RemoteFile(file.path, ("http://127.0.0.1:1/gone",), size=file.size)
    refused(gone, tmp_path, "127.0.0.1:1: ", "refused")


def test_wrong_bytes_of_the_right_length_are_not_kept(server, tmp_path):
    refused(published(server, "wrong", md5=None), tmp_path, f"its sha256 is {hashlib.sha256(WRONG).hexdigest()}")
    assert files(tmp_path) == []
    assert server.log == [("wrong", None)]


def test_a_truncating_mirror_is_resumed_a_few_times(server, tmp_path):
    refused(published(server, "truncates"), tmp_path)
    assert server.log == [
        ("truncates", None),
        ("truncates", f"bytes={HALF}-"),
        ("truncates", f"bytes={HALF + HALF // 2}-"),
    ]
    assert (tmp_path / "set" / "data.bin.part").read_bytes() == DATA[: SIZE * 7 // 8]


@pytest.mark.parametrize("manner", ["stalls", "stalls-before-answering"])
def test_a_silent_mirror_is_left_for_the_next(server, tmp_path, manner):
    begun = time.monotonic()
    fetch(published(server, manner, "fine"), tmp_path, timeout=0.3)
    assert time.monotonic() - begun < 5
    asked = "bytes=100000-" if manner == "stalls" else None
    assert server.log == [(manner, None), ("fine", asked)]


def test_what_a_silent_mirror_sent_is_kept(server, tmp_path):
    refused(published(server, "stalls"), tmp_path, "silent for 0.3 s", timeout=0.3)
    assert (tmp_path / "set" / "data.bin.part").read_bytes() == DATA[:100_000]


def test_a_killed_download_asks_only_for_what_is_missing(server, tmp_path):
    code = (
        "import sys; from pathlib import Path; from xcnorm.data.download import RemoteFile, fetch;"
        "fetch(RemoteFile('set/data.bin', (sys.argv[1],)), Path(sys.argv[2]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, server.url("stalls"), tmp_path])
    part = tmp_path / "set" / "data.bin.part"
    deadline = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    have = part.stat().st_size
    assert 0 < have < SIZE
    assert files(tmp_path) == [".data.bin.lock", "data.bin.part"]
    assert fetch(published(server, "fine"), tmp_path).read_bytes() == DATA
    assert server.log == [("stalls", None), ("fine", f"bytes={have}-")]
    assert files(tmp_path) == ["data.bin"]


def test_two_processes_do_not_write_one_file(server, tmp_path):
    def fetch_again(done, total):
        with pytest.raises(UserError, match="another process"):
            fetch(published(server, "fine"), tmp_path)

    assert fetch(published(server, "fine"), tmp_path, progress=fetch_again).read_bytes() == DATA


def test_a_server_without_ranges_starts_from_zero(server, tmp_path):
    left_over(tmp_path, DATA[:HALF])
    assert fetch(published(server, "no-range"), tmp_path).read_bytes() == DATA
    assert server.log == [("no-range", f"bytes={HALF}-")]


def test_other_bytes_than_asked_for_are_not_appended(server, tmp_path):
    left_over(tmp_path, DATA[:HALF])
    assert fetch(published(server, "other-range", size=None), tmp_path).read_bytes() == DATA
    assert server.log == [("other-range", f"bytes={HALF}-"), ("other-range", None)]


def test_other_bytes_than_asked_for_are_found_out_without_a_checksum(server, tmp_path):
    assert fetch(unchecked(server, "truncates-then-other-range"), tmp_path).read_bytes() == DATA
    assert [asked for _, asked in server.log] == [None, f"bytes={HALF}-", None]


def test_more_bytes_than_asked_for_are_found_out_without_a_checksum(server, tmp_path):
    refused(unchecked(server, "other-length"), tmp_path, f"more than the {SIZE:,} bytes")


def test_a_spoilt_beginning_is_found_out_and_fetched_anew(server, tmp_path):
    left_over(tmp_path, WRONG[:HALF])
    assert fetch(published(server, "fine"), tmp_path).read_bytes() == DATA
    assert server.log == [("fine", f"bytes={HALF}-"), ("fine", None)]


@pytest.mark.parametrize("size", [None, SIZE])
def test_a_beginning_longer_than_the_file_is_dropped(server, tmp_path, size):
    left_over(tmp_path, DATA + b"!")
    assert fetch(published(server, "fine", size=size), tmp_path).read_bytes() == DATA
    assert server.log == [("fine", f"bytes={SIZE + 1}-"), ("fine", None)]


def test_a_complete_part_needs_no_network(server, tmp_path):
    left_over(tmp_path, DATA)
    assert fetch(published(server, "fine"), tmp_path).read_bytes() == DATA
    assert server.log == []


def test_a_complete_but_wrong_part_is_fetched_anew(server, tmp_path):
    left_over(tmp_path, WRONG)
    assert fetch(published(server, "fine"), tmp_path).read_bytes() == DATA
    assert server.log == [("fine", None)]


def test_without_a_checksum_mirrors_are_not_mixed(server, tmp_path):
    left_over(tmp_path, WRONG[:HALF])
    fetch(unchecked(server, "truncates-without-range", "fine", size=SIZE), tmp_path)
    assert server.log[-1] == ("fine", None)
    assert (tmp_path / "set" / "data.bin").read_bytes() == DATA


def test_without_a_checksum_the_same_version_is_resumed(server, tmp_path):
    fetch(unchecked(server, "tagged"), tmp_path)
    assert server.log == [("tagged", None), ("tagged", f"bytes={HALF}-")]
    assert (tmp_path / "set" / "data.bin").read_bytes() == DATA
    assert files(tmp_path) == ["data.bin"]


@pytest.mark.parametrize("origin", ['{url}\n"another"', 'http://127.0.0.1/other\n"one"', "nonsense"])
def test_without_a_checksum_another_version_is_not(server, tmp_path, origin):
    left_over(tmp_path, WRONG[:HALF])
    (tmp_path / "set" / "data.bin.part.origin").write_text(origin.format(url=server.url("tagged")))
    server.log.append(("tagged", "before"))  # so that it does not break off
    assert fetch(unchecked(server, "tagged"), tmp_path).read_bytes() == DATA
    assert files(tmp_path) == ["data.bin"]


@pytest.mark.parametrize("manner", ["fine", "chunked", "truncates-once"])
def test_an_unknown_file_is_accepted_if_its_length_was_met(server, tmp_path, manner):
    assert fetch(unchecked(server, manner), tmp_path).read_bytes() == DATA


@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        ("truncates-without-range", "100,000 of"),
        ("says-nothing", "does not say how long"),
        ("says-nothing-and-truncates", "does not say how long"),
        ("chunked-and-truncates", "broke off"),
        ("no-content", "HTTP 204"),
        ("html-as-data", "web page"),
    ],
)
def test_an_unknown_file_is_refused_if_it_may_be_half(server, tmp_path, manner, reason):
    refused(unchecked(server, manner), tmp_path, reason)


def redirect(old, new):
    return _Redirects().redirect_request(Request(old), io.BytesIO(), 302, "Found", Message(), new)


@pytest.mark.parametrize("new", ["http://b.example/x", "ftp://b.example/x", "file:///x"])
def test_a_redirect_never_leaves_encryption(new):
    with pytest.raises(_FailedError, match="redirects from https to"):
        redirect("https://a.example/x", new)


def test_a_redirect_keeps_the_range():
    request = Request("http://a.example/x", headers={"Range": "bytes=5-"})
    new = _Redirects().redirect_request(request, io.BytesIO(), 302, "Found", Message(), "https://b.example/y")
    assert new.full_url == "https://b.example/y"
    assert new.get_header("Range") == "bytes=5-"


def test_what_a_person_must_fetch(server, tmp_path):
    file = RemoteFile("set/data.bin", manual="sign the form at https://example.org")
    refused(file, tmp_path, "set/data.bin", "sign the form at https://example.org")


def test_a_file_larger_than_the_disk_is_not_begun(server, tmp_path):
    refused(published(server, "fine", size=1 << 60), tmp_path, "no room", f"{1 << 60:,} bytes")
    assert server.log == []
    assert files(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk(server, tmp_path):
    part = tmp_path / "set" / "data.bin.part"
    part.parent.mkdir()
    part.symlink_to("/dev/full")
    refused(published(server, "fine"), tmp_path, "cannot write", "No space left on device", "free some space")


def test_a_file_that_may_not_grow(server, tmp_path):
    with largest_file(200_000):
        refused(published(server, "fine"), tmp_path, "cannot write", "File too large", "free some space")
    assert fetch(published(server, "fine"), tmp_path).read_bytes() == DATA
    assert server.log == [("fine", None), ("fine", "bytes=200000-")]


def test_a_root_below_a_file(server, tmp_path):
    (tmp_path / "file").write_text("")
    refused(published(server, "fine"), tmp_path / "file", "cannot write", "Not a directory", "another folder")
    assert server.log == []


@pytest.mark.skipif(not Path("/sys/kernel").exists(), reason="needs a folder in which even root cannot write")
def test_a_root_that_cannot_be_written(server):
    refused(published(server, "fine"), Path("/sys/kernel/xcnorm"), "cannot write", "/sys/kernel/xcnorm")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(server, tmp_path):
    tmp_path.chmod(0o500)
    refused(published(server, "fine"), tmp_path, "cannot write", "Permission denied")
