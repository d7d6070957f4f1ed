"""Pictures that an audit looks at: shards of a folder or of a loader, decoded one at a time and then forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xcnorm.data.benchmarks.folder import classes_in
from xcnorm.data.decode import fitted
from xcnorm.errors import UserError, printable

SHARD = 256  # pictures that are decoded, and whose results are kept, at a time
_SAMPLE = 256


@dataclass(frozen=True)
class Shard:
    """Some of the pictures, one after the other.

    Attributes:
        start: The number of the first one among all.
        labels: ``(N,)``, int64.
        names: What they are called.
        key: Changes when a picture or a label does.
        take: Decodes those at some places, ``(places, C, H, W)``, uint8.
    """

    start: int
    labels: Tensor
    names: tuple[str, ...]
    key: str
    take: Callable[[Sequence[int]], Tensor]

    def __len__(self) -> int:
        return len(self.labels)


class FolderPictures:
    """The pictures of a folder of classes.

    Args:
        root: ``root/class/picture.png``.
        pixels: Height and width they are brought to, by cutting out the middle; unless given, all must have one size.

    Attributes:
        classes: The names of the folders, in order; a picture's label is the place of its own.

    Raises:
        UserError: There are none, or of one class only.
    """

    def __init__(self, root: Path, pixels: int | None = None) -> None:
        if not root.is_dir():
            raise UserError(f"{root} is not a folder; give one with pictures as {root}/CLASS/picture.png")
        found = classes_in(root)
        self.classes = tuple(map(printable, found))
        if len(found) < 2:
            raise UserError(
                f"{root} holds one class, {self.classes[0]!r}; an audit needs two folders of classes or more"
            )
        self._paths = [path for paths in found.values() for path in paths]
        self._labels = torch.tensor([label for label, paths in enumerate(found.values()) for _ in paths])
        self._pixels = pixels
        self._shape: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._paths)

    def sample(self) -> tuple[Tensor, Tensor]:
        """Up to 256 pictures, evenly from all classes, and their labels."""
        places = torch.linspace(0, self.count - 1, min(_SAMPLE, self.count)).round().long()
        return self._take(places.tolist()), self._labels[places]

    def __iter__(self) -> Iterator[Shard]:
        for start in range(0, self.count, SHARD):
            paths, labels = self._paths[start : start + SHARD], self._labels[start : start + SHARD]
            digest = hashlib.sha256(f"{start} {self._pixels} {labels.tolist()}".encode())
            for path in paths:
                status = path.stat()
                digest.update(
                    f"{path.absolute()}\0{status.st_size} {status.st_mtime_ns}\0".encode(errors="surrogateescape")
                )
            names = tuple(printable(f"{path.parent.name}/{path.name}") for path in paths)
            yield Shard(start, labels, names, digest.hexdigest(), partial(self._take, start=start))

    def _take(self, places: Iterable[int], start: int = 0) -> Tensor:
        pictures = []
        for place in places:
            path = self._paths[start + place]
            picture = fitted(path, self._pixels)
            self._shape = self._shape or picture.shape
            if picture.shape != self._shape:
                sizes = [f"{shape[1]}x{shape[0]}" for shape in (picture.shape, self._shape)]
                raise UserError(
                    f"{path} has {sizes[0]} pixels, but others have {sizes[1]}; give a size for all (--pixels)"
                )
            pictures.append(picture)
        return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()


class LoaderPictures:
    """The pictures of a loader: batches of images, before any normalisation, and labels. It is run through once.

    Args:
        loader: Yields ``(images, labels)``: ``(N, C, H, W)``, uint8 or floating point from 0 to 1, and ``(N,)``.
        classes: The name of each label; its number unless given.

    Attributes:
        classes: The name of each label, where they are known.
        count: How many pictures there are, where the loader says so.
    """

    def __init__(self, loader: Iterable[Any], classes: Sequence[str] | None = None) -> None:
        self.classes = None if classes is None else tuple(printable(str(name)) for name in classes)
        size = getattr(getattr(loader, "dataset", None), "__len__", None)
        self.count: int | None = size() if size else None
        shards = self._shards(loader)
        first = next(shards, None)
        if first is None:
            raise UserError("there are no pictures in the loader")
        self._first, self._rest = first, shards

    def sample(self) -> tuple[Tensor, Tensor]:
        """The first pictures and their labels."""
        return self._first.take(range(len(self._first))), self._first.labels

    def __iter__(self) -> Iterator[Shard]:
        return chain([self._first], self._rest)

    def _shards(self, loader: Iterable[Any]) -> Iterator[Shard]:
        start, waiting = 0, list[tuple[Tensor, Tensor]]()
        for batch in loader:
            waiting.append(self._checked(batch))
            if sum(len(labels) for _, labels in waiting) >= SHARD:
                yield _shard(start, waiting)
                start, waiting = start + sum(len(labels) for _, labels in waiting), []
        if waiting:
            yield _shard(start, waiting)

    def _checked(self, batch: Any) -> tuple[Tensor, Tensor]:
        try:
            images, labels = (torch.as_tensor(part) for part in batch)
        except (TypeError, ValueError) as error:
            raise UserError("the loader must yield pairs of images (N, C, H, W) and labels (N,)") from error
        if images.ndim != 4 or labels.shape != images.shape[:1] or labels.is_floating_point():
            shapes = f"{tuple(images.shape)} and {tuple(labels.shape)}, {labels.dtype}"
            raise UserError(f"the loader must yield images (N, C, H, W) and integer labels (N,), not {shapes}")
        if images.is_floating_point():
            if not (images.min() >= 0 and images.max() <= 1):
                raise UserError(
                    "the loader's images must be from 0 to 1, or uint8: corruptions are defined on pictures; leave "
                    "normalisation out of the loader, and give mean and std instead"
                )
            images = (images * 255).round().to(torch.uint8)
        if images.dtype != torch.uint8:
            raise UserError(f"the loader's images must be uint8 or floating point from 0 to 1, not {images.dtype}")
        if (
            self.classes is not None
            and len(labels)
            and not 0 <= int(labels.min()) <= int(labels.max()) < len(self.classes)
        ):
            raise UserError(f"labels must be from 0 to {len(self.classes) - 1} for {len(self.classes)} classes")
        return images.cpu(), labels.cpu().long()


Pictures = FolderPictures | LoaderPictures


def _shard(start: int, batches: Sequence[tuple[Tensor, Tensor]]) -> Shard:
    sizes = {tuple(images.shape[1:]) for images, _ in batches}
    if len(sizes) > 1:
        raise UserError(f"the loader's images must have one size, not {' and '.join(map(str, sorted(sizes)))}")
    images, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    digest = hashlib.sha256(f"{start} {tuple(images.shape)} {labels.tolist()}".encode())
    digest.update(images.contiguous().numpy().data)
    names = tuple(f"picture {number}" for number in range(start, start + len(labels)))
    return Shard(start, labels, names, digest.hexdigest(), lambda places: images[list(places)])
