"""The examples about models that are trained already run, for a few steps, as somebody would run them."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, folder, *arguments):
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_fine_tuning(tmp_path):
    said = run("finetune.py", tmp_path, "--steps", "2", "--images", "20")
    assert [line.split("  ")[0] for line in said.splitlines() if " clean " in line] == [
        "trained", "trained on", "converted", "converted and trained on",
    ]  # fmt: skip
    assert "the plain model's answer for" in said


def test_a_rescue(tmp_path):
    run("rescue.py", tmp_path, "--steps", "2", "--images", "12")
    page = (tmp_path / "rescue" / "after.html").read_text()
    for name in ("original", "trained_on", "converted"):
        assert name in page
    assert {path.name for path in (tmp_path / "rescue").glob("*.pt2")} == {
        "original.pt2", "trained_on.pt2", "converted.pt2",
    }  # fmt: skip
