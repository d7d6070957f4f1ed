"""Telling the published file from others."""

import hashlib

import pytest

from xcnorm.data.download import RemoteFile, check
from xcnorm.errors import UserError

DATA = b"what was published" * 100_000
MD5, SHA256 = hashlib.md5(DATA).hexdigest(), hashlib.sha256(DATA).hexdigest()
FULL = RemoteFile("data.bin", size=len(DATA), md5=MD5, sha256=SHA256)


def written(tmp_path, data):
    path = tmp_path / "data.bin"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "file", [FULL, RemoteFile("x"), RemoteFile("x", md5=MD5.upper()), RemoteFile("x", sha256=SHA256.upper())]
)
def test_the_published_file_passes(tmp_path, file):
    check(written(tmp_path, DATA), file)


@pytest.mark.parametrize(
    ("file", "data", "words"),
    [
        (FULL, DATA[:-1], f"it has {len(DATA) - 1:,} bytes, not {len(DATA):,}"),
        (FULL, DATA[:-1] + b"!", f"not {MD5}"),
        (RemoteFile("x", md5=MD5), DATA[:-1], f"its md5 is {hashlib.md5(DATA[:-1]).hexdigest()}, not {MD5}"),
        (RemoteFile("x", sha256=SHA256), b"", f"its sha256 is {hashlib.sha256(b'').hexdigest()}, not {SHA256}"),
        (RemoteFile("x", md5=MD5, sha256="0" * 64), DATA, f"its sha256 is {SHA256}"),
        (RemoteFile("x", size=0), DATA, f"it has {len(DATA):,} bytes, not 0"),
    ],
)
def test_another_file_is_named_with_what_is_wrong(tmp_path, file, data, words):
    path = written(tmp_path, data)
    with pytest.raises(UserError) as caught:
        check(path, file)
    message = str(caught.value)
    assert message.startswith(f"{path} is damaged or another version: ")
    assert words in message
    assert message.endswith("delete it and fetch it again")


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*data.bin: No such file or directory; "):
        check(tmp_path / "data.bin", FULL)
