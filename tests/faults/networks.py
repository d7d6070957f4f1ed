"""The tiny network, for programs that are told of it by ``XCNORM_PLUGINS``."""

from tests.engine.small import tiny
from xcnorm.models.create import register_model

register_model("tiny", hidden_dense=True)(tiny)
