"""Real conditions under which a disk refuses."""

import resource
from contextlib import contextmanager


@contextmanager
def largest_file(size):
    """No file may grow beyond a size: the kernel refuses the write, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
