"""Data cards: what a benchmark is, who made it, and which files it is read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xcnorm.data.download.remote import RemoteFile


@dataclass(frozen=True)
class Card:
    """The description of a benchmark.

    Attributes:
        name: What users type.
        title: Its heading in tables.
        summary: What is learned from and what is tested on, in a sentence or two.
        classes: The name of each label; empty where the user's own folders say it.
        pixels: Height and width of the images; 0 where the user's own images say it.
        metric: How a domain is scored: ``"accuracy"``, ``"balanced_accuracy"`` or ``"auroc"``.
        licence: The terms of the data, as far as they are known.
        citation: Whom to cite.
        files: What ``xcnorm data download`` fetches; empty where nothing needs to be.
        contents: MD5 checksums of files that lie in unpacked archives, by their name.
    """

    name: str
    title: str
    summary: str
    classes: tuple[str, ...]
    pixels: int
    metric: str
    licence: str
    citation: str
    files: tuple[RemoteFile, ...] = ()
    contents: Mapping[str, str] = field(default_factory=dict)
