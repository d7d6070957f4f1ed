"""What follows the correlation: divide, rectify, sharpen, gain, mask factor, channel norm; and the gradient of it all.

Maps are seen as ``(pools, rows, channels)``. A pool is what the channel norm takes its statistics from: the positions
of one image, or those of all images. A program has one tile, some rows of a pool by a few neighbouring channels of one
group, all of it in registers: its loads are under way together, and a pool that fits is read from memory once. What is
summed across programs is written down apart and added in a fixed order, the same in every run.
"""

from __future__ import annotations

from xcnorm.ops.triton.finish.backward import finish_backward
from xcnorm.ops.triton.finish.forward import finish

__all__ = ["finish", "finish_backward"]
