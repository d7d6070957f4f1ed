"""XCNorm and R-XCNorm layers, the norms they end in, dictionaries, and statistics shared between processes."""

from xcnorm.functional import NormAttentionMask
from xcnorm.nn.conv import (
    RXCNormConv1d,
    RXCNormConv2d,
    RXCNormConv3d,
    XCNormConv1d,
    XCNormConv2d,
    XCNormConv3d,
)
from xcnorm.nn.dictionary import Dictionary, Rebuilt
from xcnorm.nn.layer import XCNormLayer
from xcnorm.nn.linear import RXCNormLinear, XCNormLinear
from xcnorm.nn.norm import NORMS, InstanceNorm, make_norm
from xcnorm.nn.options import Options, RobustOptions, StageOptions
from xcnorm.nn.scale import REDUCTIONS, LearntScale, MovingScale, PatchScale, RobustScale, register_reduction
from xcnorm.nn.stages import Stages
from xcnorm.nn.synchronised import SyncBatchNorm, SyncDictionary, SyncMovingScale, synchronise

__all__ = [
    "NORMS",
    "REDUCTIONS",
    "Dictionary",
    "InstanceNorm",
    "LearntScale",
    "MovingScale",
    "NormAttentionMask",
    "Options",
    "PatchScale",
    "RXCNormConv1d",
    "RXCNormConv2d",
    "RXCNormConv3d",
    "RXCNormLinear",
    "Rebuilt",
    "RobustOptions",
    "RobustScale",
    "StageOptions",
    "Stages",
    "SyncBatchNorm",
    "SyncDictionary",
    "SyncMovingScale",
    "XCNormConv1d",
    "XCNormConv2d",
    "XCNormConv3d",
    "XCNormLayer",
    "XCNormLinear",
    "make_norm",
    "register_reduction",
    "synchronise",
]
