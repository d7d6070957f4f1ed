"""Images made rather than taken: rendered, blended or shifted, each from the seed and its own index alone.

Example:
    >>> import torch
    >>> from xcnorm.data import synthesis
    >>> synthesis.render_syn(torch.tensor([3, 1, 4])).shape
    torch.Size([3, 3, 32, 32])
"""

from xcnorm.data.synthesis.frost import frost_pictures
from xcnorm.data.synthesis.histology import render_patches, write_wilds
from xcnorm.data.synthesis.mnist_m import blend
from xcnorm.data.synthesis.shifts import invert, low_contrast
from xcnorm.data.synthesis.syn import render_syn

__all__ = ["blend", "frost_pictures", "invert", "low_contrast", "render_patches", "render_syn", "write_wilds"]
