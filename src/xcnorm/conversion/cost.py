"""The estimated cost of a layer, from the measurements on the page of performance."""

from __future__ import annotations

from torch import nn

from xcnorm.nn import XCNormLayer

# Forward and backward as multiples of convolution, batch norm and ReLU, geometric means over the layers measured: an
# H200 in bf16, and one thread of a CPU; the tables of docs/performance.md. Keys: device, and whether robust.
_MEASURED = {("cuda", False): 1.04, ("cuda", True): 1.51, ("cpu", False): 1.52, ("cpu", True): 2.38}


def estimated_cost(layer: nn.Module) -> float | None:
    """What a training step of a converted layer takes, as a multiple of the plain one with its norm and activation.

    Returns:
        The multiple on the kind of device that the layer is on; None where nothing was measured.

    Example:
        >>> from xcnorm.nn import RXCNormConv2d
        >>> estimated_cost(RXCNormConv2d(3, 8, 3))
        2.38
    """
    if not isinstance(layer, XCNormLayer) or layer.dense:
        return None
    return _MEASURED.get((layer.weight.device.type, layer.robust))
