"""Freed memory stays with the process, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

# Four arrays at a time: more than glibc keeps of its own accord.
CODE = """
import resource
from xcnorm.allocator import keep_freed_memory

keep_freed_memory()
faults = []
for _ in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [bytearray(b"x") * 2**24 for _ in range(4)]
    del arrays
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(faults[2:]))
"""


def faults(**variables):
    environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name} | variables
    found = subprocess.run([sys.executable, "-c", CODE], env=environment, check=True, capture_output=True, text=True)
    return int(found.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc is Linux's")
def test_memory_is_not_fetched_again():
    assert faults() < 100
    assert faults(MALLOC_TRIM_THRESHOLD_="131072") > 4000
