"""Verification: whether a benchmark's data is there, whole, and what was published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from xcnorm.data.card import Card
from xcnorm.data.catalogue import BENCHMARKS
from xcnorm.data.domain import Benchmark, LabelledImages
from xcnorm.data.download import RemoteFile, check
from xcnorm.data.parts import Finding, MissingPartError, Part
from xcnorm.errors import UserError

_TARGETS_MADE = 10  # of those that are made when they are asked for; a grid of corruptions has ninety-five


def verify(name: str, root: Path) -> Iterator[Finding]:
    """Look at each part of a benchmark: checksums where they were published, then reading all of it.

    A benchmark that is made here instead of read is made once, to see that it can be; one that has a function `verify`
    of its own is asked as well.

    Args:
        name: Of the benchmark.
        root: The folder that holds the data.
    """
    benchmark = BENCHMARKS[name]
    for part in benchmark.parts:
        yield _read(benchmark.card, part, root)
    if benchmark.verify is not None:
        yield from benchmark.verify(root)
    elif not benchmark.parts:
        yield _made(benchmark.card, benchmark.load, root)


def _read(card: Card, part: Part, root: Path) -> Finding:
    published = {Path(file.path).name: file for file in card.files}
    try:
        form, paths = part.find(root, card.name)
        for path in paths:
            if path.name in published:
                check(path, published[path.name])
            if path.name in card.contents:
                check(path, RemoteFile(path.name, md5=card.contents[path.name]))
        data, _ = part.read(root, card.name)
    except MissingPartError as error:
        return Finding(part.name, "missing", part.target, str(error))
    except UserError as error:
        return Finding(part.name, "damaged", part.target, str(error))
    count = f"{len(data.labels):,} images, " if isinstance(data, LabelledImages) else ""
    note = f" ({form.note})" if form.note else ""
    return Finding(part.name, "ok", part.target, f"{count}{', '.join(path.name for path in paths)}{note}")


def _made(card: Card, load: Callable[[Path], Benchmark], root: Path) -> Finding:
    try:
        benchmark = load(root)
        for name in list(benchmark.targets)[:_TARGETS_MADE]:
            benchmark.targets[name]
    except UserError as error:
        return Finding(card.title, "missing", False, str(error))
    count = len(benchmark.train) + len(benchmark.validation)
    return Finding(card.title, "ok", False, f"{count:,} images, {len(benchmark.targets)} targets")
