"""Every example runs, for a few steps, as somebody would run it who copied it."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FEW = ("--steps", "2", "--images", "20")
NEEDS = {"lightning_loop.py": ("lightning",), "timm_models.py": ("timm", "torchvision")}


def run(name, folder, *arguments):
    missing = [package for package in NEEDS.get(name, ()) if find_spec(package) is None]
    if missing:
        pytest.skip(f"{name} needs {' and '.join(missing)}, which is not installed")
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


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"plain_loop.py", "finetune.py", "rescue.py", *NEEDS}


def test_the_plain_loop(tmp_path):
    said = run("plain_loop.py", tmp_path, *FEW)
    assert "RXCNormConv2d" in said
    assert said.count("robustness score") == 4


def test_lightning(tmp_path):
    said = run("lightning_loop.py", tmp_path, *FEW)
    for name in ("accuracy ", "accuracy at low contrast ", "robustness score "):
        assert f"\n{name}" in said


def test_timm(tmp_path):
    said = run("timm_models.py", tmp_path, "r_xcnorm_resnet18")
    assert "RXCNormConv2d" in said
    assert said.endswith("logits: 2 10\n")


def test_fine_tuning(tmp_path):
    said = run("finetune.py", tmp_path, *FEW)
    assert [line.split("  ")[0] for line in said.splitlines() if " clean " in line] == [
        "trained", "trained on", "converted", "converted and trained on",
    ]  # fmt: skip
    assert "the plain model's answer for" in said


def test_a_rescue(tmp_path):
    run("rescue.py", tmp_path, "--steps", "2", "--images", "12")
    page = (tmp_path / "rescue" / "after.html").read_text()
    for name in ("original", "trained_on", "converted"):
        assert name in page
        assert (tmp_path / "rescue" / f"{name}.pt2").exists()
