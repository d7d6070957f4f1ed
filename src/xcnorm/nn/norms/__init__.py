"""Channel norms by name, for the last stage of an XCNorm layer and for networks alike. One file each."""

from xcnorm.nn.norms.asr import AdaptiveNorm
from xcnorm.nn.norms.batch_test import BatchTestNorm
from xcnorm.nn.norms.instance import InstanceNorm
from xcnorm.nn.norms.mixed import MixedNorm
from xcnorm.nn.norms.norm import NORMS, Norm, NormKind, make_norm, register_norm

__all__ = [
    "NORMS",
    "AdaptiveNorm",
    "BatchTestNorm",
    "InstanceNorm",
    "MixedNorm",
    "Norm",
    "NormKind",
    "make_norm",
    "register_norm",
]
