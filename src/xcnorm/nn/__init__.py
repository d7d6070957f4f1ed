"""XCNorm and R-XCNorm layers, their forms and norms, dictionaries, and statistics shared between processes."""

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
from xcnorm.nn.forms import FORMS, LayerForm, Relative, find_form, register_form, register_relative
from xcnorm.nn.layer import XCNormLayer
from xcnorm.nn.linear import RXCNormLinear, XCNormLinear
from xcnorm.nn.norms import (
    NORMS,
    AdaptiveNorm,
    BatchTestNorm,
    InstanceNorm,
    MixedNorm,
    Norm,
    NormKind,
    make_norm,
    register_norm,
)
from xcnorm.nn.options import Options, RobustOptions, StageOptions
from xcnorm.nn.scale import REDUCTIONS, LearntScale, MovingScale, PatchScale, RobustScale, register_reduction
from xcnorm.nn.stages import Stages
from xcnorm.nn.synchronised import SyncBatchNorm, SyncBatchTestNorm, SyncDictionary, SyncMovingScale, synchronise

__all__ = [
    "FORMS",
    "NORMS",
    "REDUCTIONS",
    "AdaptiveNorm",
    "BatchTestNorm",
    "Dictionary",
    "InstanceNorm",
    "LayerForm",
    "LearntScale",
    "MixedNorm",
    "MovingScale",
    "Norm",
    "NormAttentionMask",
    "NormKind",
    "Options",
    "PatchScale",
    "RXCNormConv1d",
    "RXCNormConv2d",
    "RXCNormConv3d",
    "RXCNormLinear",
    "Rebuilt",
    "Relative",
    "RobustOptions",
    "RobustScale",
    "StageOptions",
    "Stages",
    "SyncBatchNorm",
    "SyncBatchTestNorm",
    "SyncDictionary",
    "SyncMovingScale",
    "XCNormConv1d",
    "XCNormConv2d",
    "XCNormConv3d",
    "XCNormLayer",
    "XCNormLinear",
    "find_form",
    "make_norm",
    "register_form",
    "register_norm",
    "register_reduction",
    "register_relative",
    "synchronise",
]
