"""The maths of XCNorm: one pure, differentiable function per equation of the paper.

This is the definition that every faster implementation in `xcnorm.ops` is tested against. The functions
speak of *patches*: a tensor of shape ``(..., alpha)`` whose last axis holds the ``alpha = K * K * C_in`` values
of one input patch, in the order of ``weight.flatten(1)``. How patches are cut out of an image is the business
of `xcnorm.ops`.

`correlation` says how alike a patch and a filter are, `robust` what is done to outliers first; then come the stages,
one file each, in this order: `rectify`, `sharpen`, `gain`, `mask`, `channel_norm`.
"""

from xcnorm.functional.channel_norm import channel_norm
from xcnorm.functional.correlation import (
    linear_unit,
    ncc,
    ncc_expanded,
    ncc_from_moments,
    ncc_weight_gradient,
    normalise_weight,
    patch_deviation,
    patch_norm,
    robust_ncc,
    robust_patch_norm,
    standardise_channels,
)
from xcnorm.functional.gain import gain
from xcnorm.functional.mask import NormAttentionMask, attention_mask, masked_similarity
from xcnorm.functional.rectify import rectify
from xcnorm.functional.robust import (
    ROBUST_FUNCTIONS,
    InPlace,
    RobustFunction,
    cauchy,
    huber,
    register_robust_function,
    robust_function,
    tukey,
    welsch,
    welsch_influence,
    welsch_signed,
)
from xcnorm.functional.sharpen import sharpen

__all__ = [
    "ROBUST_FUNCTIONS",
    "InPlace",
    "NormAttentionMask",
    "RobustFunction",
    "attention_mask",
    "cauchy",
    "channel_norm",
    "gain",
    "huber",
    "linear_unit",
    "masked_similarity",
    "ncc",
    "ncc_expanded",
    "ncc_from_moments",
    "ncc_weight_gradient",
    "normalise_weight",
    "patch_deviation",
    "patch_norm",
    "rectify",
    "register_robust_function",
    "robust_function",
    "robust_ncc",
    "robust_patch_norm",
    "sharpen",
    "standardise_channels",
    "tukey",
    "welsch",
    "welsch_influence",
    "welsch_signed",
]
