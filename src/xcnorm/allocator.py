"""The C library's allocator, told to keep freed memory for the next tensor."""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of the C library's malloc.h
_MOST = 2**31 - 1
_LARGEST = 2**25  # bytes of one tensor; glibc refuses more
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> None:
    """Ask the C library to keep freed memory for the next tensor, instead of handing it back to the system.

    Every training step on a CPU takes and frees the same tensors. Memory that comes from the system is cleared page by
    page when it is first touched, which may take a quarter of a step. For whole programs: it holds for the process.
    Does nothing where the C library is another than glibc, or where the user has tuned it.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _VARIABLES):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _MOST)
        mallopt(_MMAP_THRESHOLD, _LARGEST)
