"""Products of matrices by oneDNN, the library behind torch's convolutions, where they are large enough for it."""

from __future__ import annotations

import torch
from torch import Tensor

# torch multiplies float32 matrices by MKL, which uses half of what a CPU of another maker can do. This operator is what
# torch's own compiler emits for dense layers.
_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
_NARROW = 32  # below so many rows or columns of either factor, what oneDNN sets up costs more than it saves


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right`` of two float32 matrices, in any layout; nobody asks for its gradient."""
    if _LINEAR is None or min(*left.shape, right.shape[1]) < _NARROW:
        return left @ right
    product: Tensor = _LINEAR(left, right.mT, None, "none", [], "")
    return product
