"""The audit itself: models are asked about pictures, shard by shard, and what they answer is counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xcnorm._version import __version__
from xcnorm.auditing.cells import CLEAN, Answered, Asked, Cells
from xcnorm.auditing.normalising import choose
from xcnorm.auditing.opening import FORMS, Model, open_model
from xcnorm.auditing.pictures import FolderPictures, LoaderPictures, Pictures
from xcnorm.auditing.result import Audit, AuditedModel, Scored, ScoredClass, corruption_errors
from xcnorm.auditing.specimens import Specimens
from xcnorm.auditing.subject import Normalisation, Subject, tell_apart
from xcnorm.data.bars import counting_bar
from xcnorm.data.corruptions import names, published, standard
from xcnorm.data.grid import SEVERITIES
from xcnorm.engine import world
from xcnorm.errors import UserError, printable, unknown_name
from xcnorm.locks import locked
from xcnorm.metrics import calibration_error

_SMALL = 64


def audit(
    model: Model | Sequence[Model],
    data: Path | str | Iterable[Any],
    *,
    corruptions: str = "all",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    pixels: int | None = None,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    device: str = "auto",
    baseline: Audit | None = None,
    keep: Path | None = None,
) -> Audit:
    """Audit models: how well they recognise pictures under corruptions, how sure they are, and what breaks first.

    Networks are asked in evaluation mode, and are left in the mode that they were in.

    Args:
        model: A network, or one of `xcnorm.auditing.FORMS`; or several of these.
        data: A folder of classes of pictures, or a loader of images, not normalised yet, and labels.
        corruptions: ``"standard"`` for the fifteen of most tables, ``"all"`` for the nineteen, or names between commas.
        mean: What pictures, as numbers from 0 to 1, are normalised with; unless given, what the model says, or, if it
            says nothing, the usual one with which it recognises most.
        std: What they are then divided by.
        pixels: Height and width pictures of a folder are brought to; unless given, what the model was made for.
        classes: The name of each label of a loader.
        seed: Seed of everything random in the corruptions.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        baseline: An audit to whose first model mean corruption errors are relative.
        keep: A folder for what is known already; an audit that is begun again there goes on where it was.

    Raises:
        UserError: A model or the pictures are not as described above.
    """
    types = chosen(corruptions)
    given = _normalisation(mean, std)
    several = list(model) if isinstance(model, Sequence) and not isinstance(model, str) else [model]
    if not several:
        raise UserError(f"there is no model to audit; give {FORMS}")
    busy = f"{keep} is being worked on by another audit"
    with world(device) as here, locked(keep / "lock", busy) if keep else nullcontext():
        subjects = [open_model(one, here.device) for one in several]
        tell_apart(subjects)
        if isinstance(data, str | Path):
            pictures: Pictures = FolderPictures(Path(data), pixels or _common_size(subjects))
            told = printable(str(data))
        else:
            pictures, told = LoaderPictures(data, classes), "a loader"
        return _audited(subjects, pictures, told, types, given, seed, baseline, Cells(keep, seed))


def chosen(corruptions: str) -> tuple[str, ...]:
    """The corruptions that are meant by ``"standard"``, ``"all"`` or names between commas.

    Raises:
        UserError: One is not known.
    """
    if corruptions in ("standard", "all"):
        return standard() if corruptions == "standard" else published()
    wanted = [name.strip() for name in corruptions.split(",")]
    for name in wanted:
        if name not in names():
            raise UserError(unknown_name("corruption", name, [*names(), "standard", "all"]))
    return tuple(dict.fromkeys(wanted))


def _audited(
    subjects: Sequence[Subject],
    pictures: Pictures,
    told: str,
    types: tuple[str, ...],
    given: Normalisation | None,
    seed: int,
    baseline: Audit | None,
    cells: Cells,
) -> Audit:
    images, labels = pictures.sample()
    asked, truths = [], []
    for subject in subjects:
        trial = given or subject.normalisation or Normalisation((0.5,), (0.5,))
        subject.look_at_answers(images[:4], trial, None if pictures.classes is None else len(pictures.classes))
        of_labels = _truths(subject, pictures)
        _check_labels(labels, of_labels, subject)
        normalisation, notes = choose(subject, images, of_labels[labels], given)
        subject.notes += notes
        asked.append(Asked(subject, normalisation))
        truths.append(of_labels)
    called = [_names(subject, pictures, truth) for subject, truth in zip(subjects, truths, strict=True)]
    specimens = [Specimens(name, truth, seed) for name, truth in zip(called, truths, strict=True)]
    gathered: list[list[dict[str, Answered]]] = [[] for _ in subjects]
    labelled = []
    views = (1 + len(types) * len(SEVERITIES)) * len(subjects)
    total = None if pictures.count is None else pictures.count * views
    with counting_bar("auditing", total) as progress:
        for shard in pictures:
            labelled.append(shard.labels)
            for subject, of_labels in zip(subjects, truths, strict=True):
                _check_labels(shard.labels, of_labels, subject)
            for place, answers in enumerate(cells.ask(asked, shard, types, progress)):
                gathered[place].append(answers)
                specimens[place].offer(shard, answers)
    every = torch.cat(labelled)
    models = []
    for place, subject in enumerate(subjects):
        joined = _joined(gathered[place])
        right = truths[place][every]
        model = AuditedModel(
            name=subject.name,
            normalisation=f"{asked[place].normalisation} ({asked[place].normalisation.origin or 'as given'})",
            notes=tuple(subject.notes),
            clean=_scored(joined[CLEAN], right, 0),
            cells={f"{name}/{s}": _scored(joined[name], right, s - 1) for name in types for s in SEVERITIES},
            robustness={name: fmean(row.mean().item() for row in joined[name].divergence) for name in types},
            classes=_by_class(joined, right.numpy(), called[place]),
            specimens=specimens[place].found,
        )
        models.append(model if baseline is None else _against(model, baseline))
    return Audit(
        data=told,
        count=len(every),
        size=(images.shape[2], images.shape[3]),
        constants="cifar" if min(images.shape[2:]) < _SMALL else "imagenet",
        seed=seed,
        corruptions=types,
        models=tuple(models),
        baseline=None if baseline is None else baseline.models[0].name,
        version=__version__,
    )


def _against(model: AuditedModel, baseline: Audit) -> AuditedModel:
    errors = corruption_errors(model, baseline.models[0])
    if errors is None:
        raise UserError("the baseline shares no corruption with this audit, or makes no errors; give another one")
    plain, relative, shared = errors
    note = f"mean corruption errors are over {len(shared)} corruptions, relative to {baseline.models[0].name}"
    relative_mce = None if np.isnan(relative) else relative
    return replace(model, mce=plain, relative_mce=relative_mce, notes=(*model.notes, note))


def _scored(answered: Answered, truths: Tensor, row: int) -> Scored:
    confidence = torch.from_numpy(answered.confidence[row]).double()
    correct = torch.from_numpy(answered.guess[row]) == truths
    return Scored(correct.double().mean().item(), confidence.mean().item(), calibration_error(confidence, correct))


def _by_class(
    joined: Mapping[str, Answered], truths: NDArray[np.int64], called: Sequence[str]
) -> tuple[ScoredClass, ...]:
    found = []
    for label in np.unique(truths).tolist():
        own = truths == label
        shares = {name: float((answered.guess[:, own] == label).mean()) for name, answered in joined.items()}
        clean = shares.pop(CLEAN)
        worst = min(shares, key=lambda name: shares[name])
        found.append(ScoredClass(called[label], int(own.sum()), clean, fmean(shares.values()), worst))
    return tuple(found)


def _joined(shards: Sequence[Mapping[str, Answered]]) -> dict[str, Answered]:
    return {
        name: Answered(*(np.concatenate(parts, axis=1) for parts in zip(*(s[name] for s in shards), strict=True)))
        for name in shards[0]
    }


def _truths(subject: Subject, pictures: Pictures) -> Tensor:
    """The answer that is right for each label: by its name, where both sides have names, else of the same number."""
    classes = pictures.classes
    if classes is None:
        return torch.arange(subject.outputs)
    if subject.classes is None:
        return torch.arange(len(classes))
    known = {name: place for place, name in enumerate(subject.classes)}
    if all(name in known for name in classes):
        return torch.tensor([known[name] for name in classes])
    if len(classes) == len(subject.classes) and not any(name in known for name in classes):
        subject.notes.append("its classes have other names than the folders; both are taken in their order")
        return torch.arange(len(classes))
    lost = next(name for name in classes if name not in known)
    raise UserError(f"{subject.name}: {unknown_name('class', lost, known)}; name the folders after its classes")


def _check_labels(labels: Tensor, truths: Tensor, subject: Subject) -> None:
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(truths):
        raise UserError(f"{subject.name} has {len(truths)} answers, but labels are from {low} to {high}")


def _names(subject: Subject, pictures: Pictures, truths: Tensor) -> Sequence[str]:
    if subject.classes is not None:
        return [printable(name) for name in subject.classes]
    if pictures.classes is not None:
        return pictures.classes
    return [str(label) for label in range(len(truths))]


def _common_size(subjects: Sequence[Subject]) -> int | None:
    sizes = {subject.pixels: subject.name for subject in subjects if subject.pixels}
    if len(sizes) > 1:
        each = ", ".join(f"{name} for {size}" for size, name in sizes.items())
        raise UserError(f"the models were made for pictures of different sizes ({each}); choose one for all (--pixels)")
    return next(iter(sizes), None)


def _normalisation(mean: float | Sequence[float] | None, std: float | Sequence[float] | None) -> Normalisation | None:
    if (mean is None) != (std is None):
        raise UserError("mean and std belong together; give both")
    if mean is None or std is None:
        return None
    return Normalisation(_several(mean), _several(std))


def _several(numbers: float | Sequence[float]) -> tuple[float, ...]:
    return tuple(map(float, numbers)) if isinstance(numbers, Sequence) else (float(numbers),)
