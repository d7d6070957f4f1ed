"""Camelyon17-WILDS: learn tumours in the tissue of one hospital, find them in that of four others."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch

from xcnorm.data.card import Card
from xcnorm.data.catalogue import register_benchmark
from xcnorm.data.domain import Benchmark, Domain, LabelledImages, Targets
from xcnorm.data.download.remote import RemoteFile
from xcnorm.data.parts import Form, Part
from xcnorm.data.pictures import load_pictures
from xcnorm.data.readers import Metadata, read_metadata
from xcnorm.errors import UserError

CENTRES = range(5)
FOLDER = "camelyon17_v1.0"

CARD = Card(
    name="camelyon17",
    title="Camelyon17",
    summary="Learn to find tumours in lymph node tissue of one hospital; test on each of the four others. Every "
    "hospital is the source in turn.",
    classes=("normal", "tumour"),
    pixels=96,
    metric="auroc",
    licence="CC0 1.0.",
    citation="Camelyon17: Bandi et al. 2018; WILDS: Koh et al. 2021.",
    files=(
        RemoteFile(  # neither its exact size nor a checksum was ever published; it is a little over 10 GB
            f"{FOLDER}/archive.tar.gz",
            ("https://worksheets.codalab.org/rest/bundles/0xe45e15f39fb54e9d9e919556af67aabe/contents/blob/",),
            unpacks_to=f"{FOLDER}/metadata.csv",
            manual="if the host does not answer, fetch the set with the wilds package "
            f"(wilds.get_dataset('camelyon17', download=True)) and move its folder {FOLDER} into the data root",
        ),
    ),
)


def _verify(table_file: Path) -> LabelledImages:
    """Every patch named in the table must be there and hold something; opening all 455,954 would take many minutes."""
    folder = table_file.parent
    table = read_metadata(folder)
    for path in table.paths:
        if not (folder / path).is_file() or not (folder / path).stat().st_size:
            raise UserError(f"{folder} lacks {path}, or it is empty; unpack the archive again")
    return LabelledImages(torch.empty(len(table.paths), 0), torch.from_numpy(table.labels))


_PATCHES = Part("Camelyon17", (Form((f"{FOLDER}/metadata.csv",), _verify, count=455954),))


@register_benchmark(CARD, parts=(_PATCHES,))
def load(root: Path, *, source: int = 0) -> Benchmark:
    """Load one hospital as the source and the others as targets.

    The source's validation images are those that the table's split column marks, about one in ten; a target is all of
    its hospital's images. The first time, patches are decoded into files in the cache folder.

    Args:
        root: The folder that holds ``camelyon17_v1.0``.
        source: The hospital to learn from, 0 to 4.
    """
    form, (table,) = _PATCHES.find(root, CARD.name)
    return load_folder(table.parent, source, CARD, expected=form.count)


def load_folder(folder: Path, source: int, card: Card, expected: int | None = None) -> Benchmark:
    """Load a set in the layout of WILDS.

    Args:
        folder: The folder that holds ``metadata.csv`` and ``patches``.
        source: The hospital to learn from.
        card: Of the benchmark.
        expected: How many patches were published; fewer or more are a warning.
    """
    if source not in CENTRES:
        raise UserError(f"source must be a centre from 0 to 4, not {source!r}")
    table = read_metadata(folder)
    if not np.isin(table.split, (0, 1)).all():
        raise UserError(f"{folder / 'metadata.csv'} has a split other than 0 and 1; fetch it again")
    if len(set(table.paths)) < len(table.paths):
        raise UserError(f"{folder / 'metadata.csv'} names a patch twice; fetch it again")
    held_out = table.split == 1
    train, validation = (
        _select(folder, table, source, (table.centre == source) & mask, part)
        for mask, part in ((~held_out, "train"), (held_out, "validation"))
    )
    others = [centre for centre in CENTRES if centre != source and (table.centre == centre).any()]
    makers = {
        f"centre{centre}": partial(_select, folder, table, centre, table.centre == centre, "all") for centre in others
    }
    absent = [centre for centre in CENTRES if centre != source and centre not in others]
    missing = {f"centre{centre}": f"{folder / 'metadata.csv'} has no patches of it" for centre in absent}
    warnings: tuple[str, ...] = ()
    if expected not in (None, len(table.paths)):
        warnings = (f"{folder} names {len(table.paths):,} patches, but {expected:,} were published",)
    return Benchmark(card, card.title, card.classes, train, validation, Targets(makers), missing, warnings)


def _select(folder: Path, table: Metadata, centre: int, mask: np.ndarray, part: str) -> Domain:
    rows = np.flatnonzero(mask)
    if not len(rows):
        raise UserError(f"{folder / 'metadata.csv'} has no {part} rows of centre {centre}")
    paths = [folder / table.paths[row] for row in rows]
    name = f"{folder.name}-centre{centre}-{part}"
    images = load_pictures(name, paths, witnesses=[folder / "metadata.csv"])
    return Domain(f"centre{centre}", images, torch.from_numpy(table.labels[rows]))
