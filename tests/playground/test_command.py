"""`xcnorm playground` from the user's side."""

import json
import os
import re
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from xcnorm.cli import main

pytestmark = pytest.mark.xdist_group("playground")


def listen() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_it_serves_until_it_is_interrupted(runs):
    command = [sys.executable, "-m", "xcnorm", "playground", str(runs), "--data", str(runs.parent / "data")]
    screenless = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": screenless}
    # Where the tests themselves run in the background, Ctrl-C is nothing to them, and to what they start.
    with subprocess.Popen(command, **pipes, preexec_fn=listen) as process:
        line = process.stdout.readline()
        found = re.fullmatch(r"Playground: (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n", line)
        assert found, line + process.stderr.read()
        with urlopen(f"{found[1]}about", timeout=30) as answer:
            assert len(json.load(answer)["networks"]) == 2
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert err.splitlines() == ["opening the networks ...", "ended"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "there is no xcnorm-demo here; make one with xcnorm demo, or name a run"),
        (["absent"], "'absent' is no model"),
        (["--port", "70000"], "invalid value for '--port'"),
    ],
)
def test_what_cannot_be_played_with_is_one_line(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["playground", "--no-open", *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err.splitlines()[-1]
    assert captured.err.count("xcnorm:") == 1
