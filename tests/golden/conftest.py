from tests.engine.conftest import tiny

__all__ = ["tiny"]
