"""After every fault the disk loads, the same command comes to the same end, and somebody said what happened."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import run  # noqa: F401 # it registers the faults
from tests.faults.fault import FAULTS

# One process for all of it: what it starts with is dear.
pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("faults")]

SILENT = ("SIGKILL", "bit flip", "clock", "a sweep is killed", "a whole launch")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """What came of each fault; in a process of its own, which is forked all the time."""
    out = tmp_path_factory.mktemp("faults") / "faults.json"
    rounds = os.environ.get("XCNORM_SOAK_ROUNDS", "1")
    command = [sys.executable, "-m", "tests.faults", "--short", "--rounds", rounds, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert out.exists(), done.stderr
    return {row["fault"]: row for row in json.loads(out.read_text())["rows"]}, done.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [fault.name for fault in FAULTS.values() if not fault.long])
def test_a_fault_is_recovered_from(name, rows):
    found, told = rows
    row = found[name]
    assert row["times injected"] >= 1, told
    assert row["recovered"] == row["times injected"], told
    assert row["what it says"] or name.startswith(SILENT) or "SIGTERM" in name
