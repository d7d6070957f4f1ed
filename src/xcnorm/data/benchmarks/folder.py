"""Your own pictures: a folder of domains, each a folder of classes, each a folder of pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import torch

from xcnorm.data.bars import counting_bar
from xcnorm.data.card import Card
from xcnorm.data.catalogue import register_benchmark
from xcnorm.data.corruptions import standard
from xcnorm.data.domain import Benchmark, Domain, LabelledImages, Targets
from xcnorm.data.grid import corrupted_targets
from xcnorm.data.parts import Finding
from xcnorm.data.pictures import load_pictures
from xcnorm.data.readers import is_picture, read_picture
from xcnorm.errors import UserError, unknown_name

CARD = Card(
    name="folder",
    title="Your folder",
    summary="Your own pictures as DOMAIN/CLASS/picture.png: learn one domain, test on the others; a single domain is "
    "tested under corruptions.",
    classes=(),
    pixels=0,
    metric="accuracy",
    licence="Yours.",
    citation="",
)


def verify(root: Path) -> Iterator[Finding]:
    """Open every picture, domain by domain, and say which domain knows all classes and can be the source.

    Args:
        root: The folder of domains.
    """
    domains = _domains(root)
    every = {label for found in domains.values() for label in found}
    for name, found in domains.items():
        paths = [path for of_class in found.values() for path in of_class]
        absent = ", ".join(map(repr, sorted(every - set(found))))
        source = f"; no source, because it lacks {absent}" if absent else "; can be the source"
        try:
            with counting_bar(f"opening {name}", len(paths)) as advance:
                for path in paths:
                    read_picture(path)
                    advance(1)
        except UserError as error:
            yield Finding(name, "damaged", False, str(error))
        else:
            yield Finding(name, "ok", False, f"{len(paths):,} pictures of {len(found)} classes{source}")
    if not any(set(found) == every for found in domains.values()):
        yield Finding("source", "damaged", False, "no domain has all classes; remove those that the source lacks")


@register_benchmark(CARD, verify=verify)
def load(
    root: Path,
    *,
    source: str | None = None,
    pixels: int | None = None,
    validation: float = 0.1,
    seed: int = 0,
) -> Benchmark:
    """Load pictures from folders.

    Args:
        root: The folder of domains; or of classes, which is then the only domain.
        source: The domain to learn from; may be left out where there is just one, whose held-out pictures under the
            fifteen standard corruptions are then the targets.
        pixels: Height and width to bring pictures to (the shorter side is fitted, the middle is cut out); may be left
            out where all pictures have one size.
        validation: The share of the source's pictures, class by class, that is held out.
        seed: Seed of the choice of those pictures and of the corruptions.
    """
    if not 0 < validation < 1:
        raise UserError(f"validation must lie between 0 and 1, not {validation}")
    if pixels is not None and pixels < 1:
        raise UserError(f"pixels must be at least 1, not {pixels}")
    domains = _domains(root)
    if source is None:
        if len(domains) > 1:
            raise UserError(f"{root} holds several domains; name the one to learn from: source={'|'.join(domains)}")
        source = next(iter(domains))
    if source not in domains:
        raise UserError(unknown_name("source", source, domains))
    classes = tuple(domains[source])
    if len(classes) < 2:
        raise UserError(f"{root / source} must hold at least two folders of classes, not {len(classes)}")
    for name, found in domains.items():
        for label in found:
            if label not in classes:
                raise UserError(
                    f"domain {name!r} has a class {label!r} that the source {source!r} lacks; move "
                    f"{root / name / label} away, or learn from a domain that has it"
                )
    warnings = tuple(
        f"domain {name!r} has no pictures of class {label!r}"
        for name, found in domains.items()
        for label in classes
        if label not in found
    )
    if pixels is None:
        _check_sizes(domains)
    train, held_out = _split(domains[source], validation, seed)
    clean = _load(source, held_out, classes, pixels)
    if len(domains) > 1:
        targets = Targets(
            {name: partial(_load, name, found, classes, pixels) for name, found in domains.items() if name != source}
        )
        title = CARD.title
    else:
        targets = corrupted_targets(LabelledImages(clean.images, clean.labels), corruptions=standard(), seed=seed)
        title = f"{CARD.title} under corruptions"
    return Benchmark(
        CARD, title, classes, _load(source, train, classes, pixels), clean, targets=targets, warnings=warnings
    )


Classes = dict[str, list[Path]]
"""The pictures of each class of a domain."""


def _domains(root: Path) -> dict[str, Classes]:
    """What lies below the root: domains of classes of pictures."""
    if not root.is_dir():
        raise UserError(f"{root} is not a folder; give the folder that holds your domains")
    folders = _folders(root)
    flat = [folder for folder in folders if _pictures(folder, strict=False)]
    deep = [folder for folder in folders if any(_pictures(inside, strict=False) for inside in _folders(folder))]
    if flat and deep:
        raise UserError(
            f"{flat[0]} holds pictures and {deep[0]} holds folders of pictures; let all pictures lie as "
            "DOMAIN/CLASS/picture.png, or all as CLASS/picture.png"
        )
    if flat:
        return {root.resolve().name: classes_in(root)}
    domains = {folder.name: classes_in(folder) for folder in folders}
    if not domains:
        raise UserError(f"{root} holds no pictures; they should lie there as DOMAIN/CLASS/picture.png")
    return domains


def classes_in(domain: Path) -> Classes:
    """The pictures of each class of a folder of classes, in the order of their names.

    Raises:
        UserError: There are none, or something else lies among them.
    """
    classes = {folder.name: _pictures(folder) for folder in _folders(domain)}
    classes = {name: paths for name, paths in classes.items() if paths}
    if not classes:
        raise UserError(f"{domain} holds no pictures; they should lie there as CLASS/picture.png")
    return classes


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _pictures(folder: Path, *, strict: bool = True) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if strict:
        for path in files:
            if path.is_dir():
                raise UserError(f"{path} is a folder among pictures; move its pictures up into {folder}")
            if not is_picture(path):
                raise UserError(f"{path} is not a picture that can be read; convert it, or move it away")
    return [path for path in files if path.is_file() and is_picture(path)]


def _check_sizes(domains: dict[str, Classes]) -> None:
    """Domains are decoded one by one, so that pictures of one size in each may still differ between them."""
    firsts = [next(iter(found.values()))[0] for found in domains.values()]
    sizes = [read_picture(path).shape[:2] for path in firsts]
    for path, size in zip(firsts, sizes, strict=True):
        if size != sizes[0]:
            found, first = (f"{width}x{height}" for height, width in (size, sizes[0]))
            raise UserError(f"{path} has {found} pixels, but {firsts[0]} has {first}; give a size for all in pixels")


def _split(classes: Classes, share: float, seed: int) -> tuple[Classes, Classes]:
    generator = torch.Generator().manual_seed(seed)
    train: Classes = {}
    held_out: Classes = {}
    for name, paths in classes.items():
        if len(paths) < 2:
            raise UserError(f"{paths[0].parent} holds one picture; the source needs at least two of each class")
        count = min(max(1, round(share * len(paths))), len(paths) - 1)
        order = torch.randperm(len(paths), generator=generator).tolist()
        held_out[name] = [paths[place] for place in sorted(order[:count])]
        train[name] = [paths[place] for place in sorted(order[count:])]
    return train, held_out


def _load(name: str, found: Classes, classes: Iterable[str], pixels: int | None) -> Domain:
    labels = [label for label, of_class in enumerate(classes) for _ in found.get(of_class, ())]
    paths = [path for of_class in classes for path in found.get(of_class, ())]
    return Domain(name, load_pictures(name, paths, pixels=pixels), torch.tensor(labels))
