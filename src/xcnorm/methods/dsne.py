"""d-SNE: the farthest of one's own class must be nearer than the nearest of another (Xu et al., CVPR 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from xcnorm.methods.method import register_method
from xcnorm.methods.two_streams import TwoStreams


@register_method("dsne")
@dataclass
class DSNE(TwoStreams):
    """A hinge on modified Hausdorff distances between the classes of two streams, of the source with itself.

    Attributes:
        weight: The weight of the hinge, from 0 to 1; the cross-entropy has the rest. At 0 there is one stream.
        margin: By how much the squared distance to the nearest of another class must be larger.
        normalise: Whether embeddings are compared at length 1.
    """

    def comparison(self, squares: Tensor, same: Tensor, *random: Tensor) -> Tensor:
        """The hinge, averaged over the images of both streams, each seen from the other one."""
        return (self.hinge(squares, same) + self.hinge(squares.mT, same.mT)) / 2

    def hinge(self, squares: Tensor, same: Tensor) -> Tensor:
        """The mean over columns of max(0, largest of the same class - smallest of another + margin).

        Where nothing of the same class is in the other stream the largest is 0; where there is nothing else, the
        smallest is the largest of all, so that nothing moves.
        """
        largest = squares.masked_fill(~same, 0).amax(0)
        smallest = squares.where(~same, squares.amax(0)).amin(0)
        return (largest - smallest + self.margin).clamp_min(0).mean()
