"""The protocol of Camelyon17 on synthetic tissue: no download, no network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xcnorm.data.benchmarks import camelyon17
from xcnorm.data.catalogue import register_benchmark
from xcnorm.data.domain import Benchmark
from xcnorm.data.synthesis import write_wilds
from xcnorm.files import disk_errors
from xcnorm.folders import cache_root

CARD = replace(
    camelyon17.CARD,
    name="camelyon17-mini",
    title="Camelyon17 (mini, synthetic)",
    summary="Learn to find tumours in synthetic tissue in the colours of one hospital; test on four others. The "
    "pictures are drawn by xcnorm and written in the layout of WILDS.",
    licence="Part of xcnorm.",
    citation="Layout: WILDS, Koh et al. 2021.",
    files=(),
)


@register_benchmark(CARD)
def load(root: Path, *, source: int = 0) -> Benchmark:
    """Draw the set into the cache folder, the first time, and load it as Camelyon17 is loaded.

    Args:
        root: Not looked at.
        source: The hospital to learn from, 0 to 4.
    """
    folder = cache_root() / "camelyon17-mini-v1"
    with disk_errors(folder, "name another folder in XCNORM_CACHE"):
        write_wilds(folder, patches_per_cell=40)
    return camelyon17.load_folder(folder, source, CARD)
