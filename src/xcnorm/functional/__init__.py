"""The maths of XCNorm: one pure, differentiable function per equation of the paper.

This is the definition that every faster implementation in `xcnorm.ops` is tested against. The functions
speak of *patches*: a tensor of shape ``(..., alpha)`` whose last axis holds the ``alpha = K * K * C_in`` values
of one input patch, in the order of ``weight.flatten(1)``. How patches are cut out of an image is the business
of `xcnorm.ops`.

Three files, three ideas: `correlation` (how alike are a patch and a filter?), `robust` (what is done to
outliers first?) and `stages` (what happens to the similarity afterwards?).
"""

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
from xcnorm.functional.robust import (
    ROBUST_FUNCTIONS,
    RobustFunction,
    cauchy,
    huber,
    robust_function,
    tukey,
    welsch,
    welsch_influence,
    welsch_signed,
)
from xcnorm.functional.stages import (
    attention_mask,
    channel_norm,
    gain,
    masked_similarity,
    rectify,
    sharpen,
)

__all__ = [
    "ROBUST_FUNCTIONS",
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
