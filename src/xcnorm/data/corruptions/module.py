"""A corruption as a module, to stand in a pipeline of transforms such as torchvision's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.data.corruptions.run import corrupt, find
from xcnorm.errors import UserError


class Corrupt(nn.Module):
    """`corrupt` as a transform: one image or a batch in, the same corrupted out.

    It composes with ``torchvision.transforms.v2``, which is not needed for it, and in a `torch.nn.Sequential`: put it
    behind ``v2.ToImage()`` and before ``v2.Normalize``. As there, what is random follows `torch.manual_seed`, so a
    picture is corrupted otherwise in every epoch; give a seed where it should not be.

    Args:
        name: One of `names()`.
        severity: From 1 to 5.
        seed: Seed of everything random; without one it is drawn from torch's generator at each call.

    Raises:
        UserError: There is no such corruption or severity.

    Example:
        >>> pipeline = nn.Sequential(Corrupt("fog", severity=3), Corrupt("gaussian_noise"))
        >>> pipeline(torch.full((3, 32, 32), 128, dtype=torch.uint8)).shape
        torch.Size([3, 32, 32])
    """

    def __init__(self, name: str, severity: int = 1, seed: int | None = None) -> None:
        super().__init__()
        find(name, severity)  # what is wrong is told now, not in the first batch
        self.name, self.severity, self.seed = name, severity, seed

    def forward(self, images: Tensor, *others: Any) -> Any:
        """Corrupt.

        Args:
            images: ``(C, H, W)`` or ``(N, C, H, W)`` as `corrupt` takes them: uint8, or floating point in [0, 1].
            others: What comes along, such as a label; it is passed on.

        Returns:
            The corrupted images; with others a tuple, as torchvision's transforms do.

        Raises:
            UserError: The images are not as described above.
        """
        if not isinstance(images, Tensor):
            raise UserError(f"Corrupt needs a tensor, not {type(images).__name__}; put v2.ToImage() before it")
        seed = int(torch.randint(2**31, ())) if self.seed is None else self.seed
        batch = images if images.ndim == 4 else images.unsqueeze(0)
        corrupted = corrupt(batch.as_subclass(Tensor), self.name, self.severity, seed).reshape(images.shape)
        return (corrupted, *others) if others else corrupted

    def extra_repr(self) -> str:
        """The arguments."""
        return f"{self.name!r}, severity={self.severity}, seed={self.seed}"
