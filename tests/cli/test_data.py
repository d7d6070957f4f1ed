"""`xcnorm data` from the user's side."""

import functools
import hashlib
import http.server
import io
import json
import tarfile
import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.data.benchmarks.roots import COUNTS, fill
from xcnorm.cli import main
from xcnorm.data.catalogue import BENCHMARKS
from xcnorm.data.download import RemoteFile


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    monkeypatch.delenv("XCNORM_DATA", raising=False)
    monkeypatch.setenv("XCNORM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path):
    """A folder served over HTTP."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


def only(monkeypatch, benchmark, file):
    entry = BENCHMARKS[benchmark]
    monkeypatch.setitem(BENCHMARKS._items, benchmark, replace(entry, card=replace(entry.card, files=(file,))))


def publish(server, monkeypatch, benchmark, name, content, **fields):
    """Make a benchmark consist of one file on the server."""
    folder, url = server
    (folder / name).write_bytes(content)
    fields = {"urls": (f"{url}/{name}",), "md5": hashlib.md5(content).hexdigest(), "size": len(content)} | fields
    file = RemoteFile(name, **fields)
    only(monkeypatch, benchmark, file)


def test_list(capsys, tmp_path):
    fill(tmp_path, "mnist_train10k", "mnist_test")
    assert main(["data", "list", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for word in ("digits-mini", "camelyon17", "needs none", "missing: SVHN", "not here"):
        assert word in " ".join(out.replace("│", " ").split())
    assert main(["data", "list", "--json", "--data", str(tmp_path)]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["benchmarks"]}
    assert rows["digits"]["here"] == ["MNIST (training)", "MNIST (test)"]
    assert rows["digits"]["missing"] == ["SVHN", "MNIST-M", "MNIST-M (keras)", "SYN", "USPS"]


def test_list_shows_a_card(capsys, tmp_path):
    assert main(["data", "list", "digits", "--data", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in ("Volpi et al. 2018", "non-commercial", "test_32x32.mat (64,275,384 bytes)", "to be fetched by hand"):
        assert words in out


def test_verify_reports_what_is_missing(capsys, tmp_path):
    fill(tmp_path, "mnist_train10k", "mnist_test", "usps_test")
    assert main(["data", "verify", "digits", "--data", str(tmp_path)]) == 0  # targets may be missing
    out = capsys.readouterr().out
    assert "digits: MNIST (training): ok: 10,000 images, mnist_train10k.npz" in out
    assert "digits: SVHN: missing: " in out
    assert "xcnorm data download digits" in out


def test_verify_without_a_source(capsys, tmp_path):
    assert main(["data", "verify", "digits", "--data", str(tmp_path)]) == 2
    assert "MNIST (training): missing" in capsys.readouterr().out


def test_verify_finds_damage(capsys, tmp_path):
    fill(tmp_path, *COUNTS)
    path = tmp_path / "usps_test.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert main(["data", "verify", "digits", "--json", "--data", str(tmp_path)]) == 2
    states = {row["part"]: row for row in json.loads(capsys.readouterr().out)["benchmarks"]["digits"]}
    assert states["USPS"]["state"] == "damaged"
    assert "usps_test.npz" in states["USPS"]["detail"]
    assert states["SVHN"]["state"] == "ok"


def test_verify_knows_published_checksums(capsys, tmp_path):
    fill(tmp_path, "mnist_train10k", "mnist_test")
    (tmp_path / "test_32x32.mat").write_bytes(b"something else")
    assert main(["data", "verify", "digits", "--data", str(tmp_path)]) == 2
    assert "test_32x32.mat is damaged or another version" in capsys.readouterr().out


def test_verify_everything(capsys, tmp_path):
    assert main(["data", "verify", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "digits-mini: Digits (mini): ok: 5,000 images, 5 targets" in out
    assert "camelyon17-mini" in out


def test_download(server, monkeypatch, capsys, tmp_path):
    publish(server, monkeypatch, "digits", "usps.t.bz2", b"not really")
    root = tmp_path / "new" / "root"
    assert main(["data", "download", "digits", "--data", str(root)]) == 0
    assert (root / "usps.t.bz2").read_bytes() == b"not really"
    assert [path.name for path in root.iterdir()] == ["usps.t.bz2"]
    assert "usps.t.bz2: here" in capsys.readouterr().out


def test_download_and_unpack(server, monkeypatch, capsys, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((5, 32, 32, 3), np.uint8))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("CIFAR-10-C/fog.npy")
        member.size = len(buffer.getvalue())
        archive.addfile(member, io.BytesIO(buffer.getvalue()))
    publish(server, monkeypatch, "cifar10c", "CIFAR-10-C.tar", packed.getvalue(), unpacks_to="CIFAR-10-C")
    assert main(["data", "download", "cifar10c", "--data", str(tmp_path)]) == 0
    assert (tmp_path / "CIFAR-10-C" / "fog.npy").read_bytes() == buffer.getvalue()
    capsys.readouterr()
    assert main(["data", "download", "cifar10c", "--data", str(tmp_path)]) == 0
    assert "already here" in capsys.readouterr().out


def test_a_failed_download_is_one_line_and_leaves_nothing(server, monkeypatch, capsys, tmp_path):
    publish(server, monkeypatch, "digits", "usps.t.bz2", b"wrong bytes", md5=32 * "0")
    root = tmp_path / "root"
    assert main(["data", "download", "digits", "--data", str(root)]) == 2
    printed = capsys.readouterr()
    assert "not the published file" in printed.out
    assert printed.err == "xcnorm: 1 of 1 files of digits are not here: usps.t.bz2\n"
    assert not list(root.iterdir())


def test_what_a_person_must_fetch(capsys, tmp_path, monkeypatch):
    file = next(file for file in BENCHMARKS["digits"].card.files if file.path == "synth_test_32x32.mat")
    only(monkeypatch, "digits", file)
    assert main(["data", "download", "digits", "--data", str(tmp_path)]) == 2
    assert "SynthDigits.zip" in capsys.readouterr().out
    by_hand = tmp_path / "Downloads"
    by_hand.mkdir()
    (by_hand / file.path).write_bytes(b"fetched by hand")
    command = ["data", "download", "digits", "--data", str(tmp_path / "root"), "--from-folder", str(by_hand)]
    assert main(command) == 0
    assert (tmp_path / "root" / file.path).read_bytes() == b"fetched by hand"
    assert main(command) == 0  # it is there already


def test_from_folder_leaves_the_network_alone(server, monkeypatch, capsys, tmp_path):
    publish(server, monkeypatch, "digits", "usps.t.bz2", b"not really")
    (tmp_path / "empty").mkdir()
    root = tmp_path / "root"
    assert main(["data", "download", "digits", "--data", str(root), "--from-folder", str(tmp_path / "empty")]) == 2
    assert "holds no usps.t.bz2" in capsys.readouterr().out
    assert not root.exists()


def test_nothing_to_download(capsys):
    assert main(["data", "download", "digits-mini"]) == 0
    assert "needs no download" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["data", "download", "digts"], "did you mean 'digits'"),
        (["data", "verify", "digts"], "did you mean 'digits'"),
        (["data", "download", "digits", "--from-folder", "no/such/folder"], "no/such/folder is not a folder"),
        (["data"], "issing command"),
    ],
)
def test_mistakes_are_one_line(args, words, capsys):
    assert main(args) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert words in complaint


def test_the_root_may_come_from_the_environment(monkeypatch, tmp_path, capsys):
    fill(tmp_path, "mnist_train10k", "mnist_test")
    monkeypatch.setenv("XCNORM_DATA", str(tmp_path))
    assert main(["data", "verify", "digits"]) == 0
    assert "10,000 images" in capsys.readouterr().out
