"""Freed memory stays with the process, unless the user says otherwise."""

import os
import platform
import subprocess
import sys

import pytest

from xcnorm import allocator

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
    environment = {name: value for name, value in os.environ.items() if name not in allocator._VARIABLES} | variables
    found = subprocess.run([sys.executable, "-c", CODE], env=environment, check=True, capture_output=True, text=True)
    return int(found.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked")
def test_memory_is_not_fetched_again():
    # How many times depends on the size of a page.
    assert 10 * faults() < faults(MALLOC_TRIM_THRESHOLD_="131072")
