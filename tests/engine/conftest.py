import pytest

from tests.engine import small
from xcnorm.models import registry


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """The tiny network can be called by name in these tests, and only there."""
    entry = registry._Entry(small.tiny, norm="batch", hidden_dense=True)
    monkeypatch.setitem(registry._REGISTERED, "tiny", entry)
