import random
import sys
import zlib
from collections import Counter

import hypothesis
import numpy as np
import pytest
import torch

MANY = 16  # sets of parameters of one test
SHARE = 8
SETS = pytest.StashKey[Counter[str]]()

# One thread each: the workers share the cores, and sums come out the same on every machine.
torch.set_num_threads(1)

# The same examples on every run: a failure in CI is a failure at home.
hypothesis.settings.register_profile("xcnorm", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("xcnorm")


@pytest.fixture(autouse=True)
def seeded() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def pytest_collection_modifyitems(config, items):
    config.stash[SETS] = Counter(item.nodeid.partition("[")[0] for item in items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Of a test with many sets of parameters every eighth is traced: tracing all took half as long again.

    What is measured can only become less by it.
    """
    tracer = sys.gettrace()
    traced = type(tracer).__module__.startswith("coverage")  # and no debugger
    many = item.config.stash[SETS][item.nodeid.partition("[")[0]] > MANY
    if not traced or not many or zlib.crc32(item.nodeid.encode()) % SHARE == 0:
        return (yield)
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
