"""BreakHis by stain: learn breast tissue of one stain strength, recognise it in two others."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xcnorm.data.card import Card
from xcnorm.data.catalogue import register_benchmark
from xcnorm.data.domain import Benchmark, Domain, LabelledImages, Targets
from xcnorm.data.parts import Form, Part
from xcnorm.data.readers import read_npz, read_npz_array
from xcnorm.errors import UserError, unknown_name

STAINS = ("medium", "pale", "strong")

CARD = Card(
    name="breakhis",
    title="BreakHis by stain",
    summary="Learn to tell benign from malignant breast tissue (H&E, 400x) in slides of medium stain; test on pale and "
    "on strong stain. The groups were made by clustering the slides' mean colours: they are not hospitals.",
    classes=("benign", "malignant"),
    pixels=96,
    metric="balanced_accuracy",
    licence="CC BY 4.0.",
    citation="BreakHis: Spanhol et al. 2016.",
)


def _read(path: Path) -> tuple[LabelledImages, Tensor, Tensor]:
    data = read_npz(path)
    group, slide = (_whole_numbers(path, name, data.labels) for name in ("stain_group", "slide"))
    for number, stain in enumerate(STAINS):
        for label, name in enumerate(CARD.classes):
            if not ((group == number) & (data.labels == label)).any():
                raise UserError(f"{path} has no {name} images of {stain} stain (stain_group {number}); fetch it again")
    return data, group, slide


def _whole_numbers(path: Path, name: str, labels: Tensor) -> Tensor:
    array = read_npz_array(path, name)
    if array.dtype.kind not in "iu" or array.shape != labels.shape:
        found = f"{array.dtype} of {array.shape}"
        raise UserError(f"{path}: {name} must be a whole number for each of {len(labels):,} images, not {found}")
    return torch.from_numpy(array.astype(np.int64))


_IMAGES = Part(
    "BreakHis",
    (Form(("breakhis400x_96x96.npz",), _read),),
    remedy="it cannot be fetched by xcnorm; pack your own copy with arrays images, labels, stain_group and slide",
    classes=2,
)


@register_benchmark(CARD, parts=(_IMAGES,))
def load(root: Path, *, source: str = "medium", validation: float = 0.1, seed: int = 0) -> Benchmark:
    """Load one stain group as the source and the two others as targets.

    Args:
        root: The folder that holds the data.
        source: ``"medium"``, ``"pale"`` or ``"strong"``.
        validation: The share of the source's slides that is held out; no slide is on both sides.
        seed: Seed of the choice of those slides.
    """
    if source not in STAINS:
        raise UserError(unknown_name("source", source, STAINS))
    if not 0 < validation < 1:
        raise UserError(f"validation must lie between 0 and 1, not {validation}")
    (data, group, slide), _ = _IMAGES.read(root, CARD.name)
    chosen = group == STAINS.index(source)
    held_out = torch.zeros_like(chosen)
    generator = torch.Generator().manual_seed(seed)
    for label in range(len(CARD.classes)):  # a slide shows one class; both must be on both sides
        slides = slide[chosen & (data.labels == label)].unique()
        if len(slides) < 2:
            raise UserError(f"{source} stain has one slide of class {CARD.classes[label]}; choose another source")
        count = min(max(1, round(validation * len(slides))), len(slides) - 1)
        held_out |= torch.isin(slide, slides[torch.randperm(len(slides), generator=generator)[:count]])
    masks = {stain: group == number for number, stain in enumerate(STAINS) if stain != source}
    return Benchmark(
        CARD,
        CARD.title,
        CARD.classes,
        train=_select(source, data, chosen & ~held_out),
        validation=_select(source, data, chosen & held_out),
        targets=Targets({stain: partial(_select, stain, data, mask) for stain, mask in masks.items()}),
    )


def _select(name: str, data: LabelledImages, mask: Tensor) -> Domain:
    return Domain(name, data.images[mask], data.labels[mask])
