import pytest

from tests.data.download.server import mirror


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with mirror() as running:
        yield running
