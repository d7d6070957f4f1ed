"""What make would install, and when: told by make itself, without doing it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLEARED = "-m venv --clear"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def would_run(target: str, venv: Path, *marks: str) -> list[str]:
    """The commands of a target, given an environment with these marks, all newer than the lists of packages."""
    for mark in marks:
        (venv / mark).touch()
    return subprocess.run(
        ["make", "--dry-run", f"VENV={venv}", target],
        cwd=ROOT,
        # Where make runs these tests, its own flags are none of this one's.
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


def installs(commands: list[str]) -> list[str]:
    """What is installed: an extra of the package, or a list of everything."""
    what = (command.partition(" install ")[2] for command in commands if " -m pip install " in command)
    return [words.partition("[")[2].partition("]")[0] or words.split()[-1] for words in what]


def test_the_demo_installs_what_it_needs_and_nothing_else(tmp_path):
    commands = would_run("demo", tmp_path)
    assert installs(commands) == ["demo"]
    assert CLEARED in commands[0]
    assert commands[-1].endswith("xcnorm demo")


@pytest.mark.parametrize(
    ("target", "marks"), [("demo", [".demo-installed"]), ("setup", [".demo-installed", ".installed"])]
)
def test_what_is_installed_is_not_installed_again(target, marks, tmp_path):
    assert installs(would_run(target, tmp_path, *marks)) == []


def test_after_the_set_up_of_a_developer_the_demo_installs_nothing(tmp_path):
    touched = next(line for line in would_run("setup", tmp_path) if line.startswith("touch"))
    marks = [Path(mark).name for mark in touched.split()[1:]]
    assert installs(would_run("demo", tmp_path, *marks)) == []


def test_after_the_demo_a_developer_gets_the_rest_on_top(tmp_path):
    commands = would_run("lint", tmp_path, ".demo-installed")
    assert installs(commands) == ["constraints/hashes.txt", "torch", "."]
    assert f"test -e {tmp_path}/.demo-installed || " in commands[0]  # so the environment is not cleared


@pytest.mark.parametrize("target", ["demo", "setup", "docs"])
def test_all_marks_of_what_is_being_installed_are_gone_meanwhile(target, tmp_path):
    commands = would_run(target, tmp_path)
    (removing,) = (number for number, command in enumerate(commands) if command.startswith("rm -f"))
    (touching,) = (number for number, command in enumerate(commands) if command.startswith("touch"))
    assert commands[removing].split()[2:] == commands[touching].split()[1:]
    assert f"{tmp_path}/.demo-installed" in commands[touching]
    assert installs(commands[removing:touching]) == installs(commands)
