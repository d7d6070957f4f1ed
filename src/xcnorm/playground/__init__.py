"""The playground: a local page where a picture goes wrong by sliders, and networks side by side tell what they see."""

from xcnorm.playground.answering import Playground
from xcnorm.playground.opening import open_playground
from xcnorm.playground.server import PlaygroundServer

__all__ = ["Playground", "PlaygroundServer", "open_playground"]
