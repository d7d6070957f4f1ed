"""Small pictures and a network that recognises them: squares of two colours, by where the bright half is."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from xcnorm.data.readers import read_picture

CLASSES = ("down", "left", "up")
TYPES = ("gaussian_noise", "fog")


class Brightness(nn.Module):
    """Compares four pixels of one side with four of the other: so little that noise and fog break it."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.scale = nn.Parameter(torch.tensor(12.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        grey = self.drop(images.mean(1))
        down = (grey[:, 12:14, 7:9] - grey[:, 2:4, 7:9]).mean((1, 2))
        left = (grey[:, 7:9, 2:4] - grey[:, 7:9, 12:14]).mean((1, 2))
        return self.scale * torch.stack([down, left, -down], 1)


def pictures(count: int = 8, seed: int = 0) -> dict[str, list[np.ndarray]]:
    """Some pictures of each class, ``(16, 16, 3)``, uint8."""
    generator = np.random.default_rng(seed)
    made: dict[str, list[np.ndarray]] = {name: [] for name in CLASSES}
    for name in CLASSES:
        for _ in range(count):
            picture = generator.integers(60, 110, (16, 16, 3))
            half = {"down": np.s_[8:], "left": np.s_[:, :8], "up": np.s_[:8]}[name]
            picture[half] += generator.integers(12, 40)
            made[name].append(picture.astype(np.uint8))
    return made


def folder(root: Path, count: int = 8, names: dict[str, str] | None = None) -> Path:
    """The same as files."""
    for name, made in pictures(count).items():
        inside = root / (names or {}).get(name, name)
        inside.mkdir(parents=True)
        for number, picture in enumerate(made):
            Image.fromarray(picture).save(inside / f"{number}.png")
    return root


def tensors(root: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """The files as a batch, in the order of their names."""
    paths = sorted(root.glob("*/*.png"))
    labels = [sorted({path.parent.name for path in paths}).index(path.parent.name) for path in paths]
    images = torch.from_numpy(np.stack([read_picture(path) for path in paths])).permute(0, 3, 1, 2)
    return images, torch.tensor(labels)
