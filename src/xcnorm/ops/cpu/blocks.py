"""Cutting a batch into blocks of images."""

from __future__ import annotations

from collections.abc import Iterator

import torch

# Values per thread, 2 MiB in float32, chosen by measurement: smaller blocks spend their time on calls, larger ones drop
# out of the cache and, worse, make the allocator hand memory back to the system and fetch it again.
BLOCK = 2**19


def blocks(images: int, values: int) -> Iterator[slice]:
    """Slices of the image axis, for images of ``values`` values."""
    size = max(1, BLOCK * torch.get_num_threads() // values)
    return (slice(start, min(start + size, images)) for start in range(0, images, size))
