import pytest

from tests.engine import small
from xcnorm.models.create import MODELS, Blueprint


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """The tiny network can be called by name in these tests, and only there."""
    monkeypatch.setitem(MODELS._items, "tiny", Blueprint(small.tiny, hidden_dense=True))
