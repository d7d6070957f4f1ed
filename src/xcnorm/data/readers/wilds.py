"""Camelyon17-WILDS 1.0: the table that says which patch is what."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xcnorm.data.readers._files import damaged, reading

_COLUMNS = ("patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")


class Metadata(NamedTuple):
    """One entry per patch, in the order of the table.

    Attributes:
        paths: The pictures, relative to the folder.
        labels: 1 if there is tumour in the middle of the patch, else 0; int64, as are the others.
        centre: The hospital, from 0 to 4.
        slide: The slide, ten to a hospital.
        split: The column as published, which WILDS itself goes on to change: 0 or 1.
    """

    paths: list[Path]
    labels: np.ndarray
    centre: np.ndarray
    slide: np.ndarray
    split: np.ndarray


def read_metadata(folder: Path) -> Metadata:
    """Read ``metadata.csv``.

    Args:
        folder: The folder ``camelyon17_v1.0``.

    Raises:
        UserError: The table is missing or damaged; the line says which row.
    """
    path = folder / "metadata.csv"
    paths, numbers = [], []
    with reading(path) as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        header = next(rows)
        missing = [column for column in _COLUMNS if column not in header]
        if missing:
            raise damaged(path, f"has no column {' and no '.join(missing)}")
        places = [header.index(column) for column in _COLUMNS]
        for row in rows:
            try:
                patient, node, x, y, tumor, slide, centre, split = [int(row[place]) for place in places]
            except (ValueError, IndexError) as error:
                raise damaged(path, f"row {rows.line_num} lacks a number") from error
            if centre != slide // 10:
                raise damaged(path, f"row {rows.line_num} puts slide {slide} into centre {centre}, not {slide // 10}")
            if tumor not in (0, 1) or min(patient, node, x, y, slide, split) < 0:
                raise damaged(path, f"row {rows.line_num} has a number out of range")
            # Read as a number and padded again: a spreadsheet makes "4" out of "004".
            stem = f"patient_{patient:03d}_node_{node}"
            paths.append(Path(f"patches/{stem}/patch_{stem}_x_{x}_y_{y}.png"))
            numbers.append((tumor, centre, slide, split))
        if not paths:
            raise damaged(path, "has no rows")
        return Metadata(paths, *np.array(numbers, np.int64).T)
