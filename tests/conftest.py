import random

import hypothesis
import numpy as np
import pytest
import torch

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
