"""Normalisation found out: which one a network was trained with shows in how well it recognises clean pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from xcnorm.auditing.subject import Normalisation, Subject

# Those that nearly all networks are trained with; the first is taken where others do no better.
USUAL = {
    "values from 0 to 1": Normalisation((0.0,), (1.0,)),
    "ImageNet's": Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "values from -1 to 1": Normalisation((0.5,), (0.5,)),
    "CIFAR-10's": Normalisation((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "values from 0 to 255": Normalisation((0.0,), (1 / 255,)),
}


def choose(
    subject: Subject, images: Tensor, truths: Tensor, given: Normalisation | None
) -> tuple[Normalisation, list[str]]:
    """The normalisation to audit with, and what a reader must know about it.

    What was given, or what the network itself says, is taken. Where one of the usual ones recognises clearly more of
    the clean pictures, that is told, and not taken silently. Where nothing is known, the best of the usual ones is
    taken, which is told as well.

    Args:
        subject: The network.
        images: A sample of clean pictures.
        truths: The answer that is right for each.
        given: What the user has said.
    """
    chosen = given or subject.normalisation
    usual = {name: one for name, one in USUAL.items() if len(one.mean) in (1, images.shape[1])}
    best, accuracies = _best(subject, images, truths, usual)
    if chosen is not None:
        accuracy, _ = _fit(subject, images, truths, chosen)
        guessed = ", no better than guessing" if accuracy <= _guessing(truths) else ""
        low = f"the accuracy on {len(truths)} clean pictures is {_percent(accuracy)}{guessed}"
        clear = 3 * math.hypot(_error(accuracy, truths), _error(accuracies[best], truths))
        if accuracies[best] > max(accuracy + clear, _guessing(truths)):
            one = usual[best]
            return chosen, [
                f"{low}; with {best} normalisation ({one}) it would be {_percent(accuracies[best])}: give --mean "
                f"{_option(one.mean)} --std {_option(one.std)} if that is what the network was trained with"
            ]
        if not guessed:
            return chosen, []
        return chosen, [f"{low}, and no usual normalisation changes that: {_order(subject, images, truths, chosen)}"]
    others = ", ".join(f"{_percent(value)} with {name}" for name, value in accuracies.items() if name != best)
    found = usual[best]
    told = [
        f"it does not say how its pictures are normalised; of the usual ways {best} ({found}) was taken, "
        f"which recognises {_percent(accuracies[best])} of {len(truths)} clean pictures ({others}); "
        "give --mean and --std to be sure"
    ]
    if accuracies[best] <= _guessing(truths):
        told.append(f"with none of them is it better than guessing: {_order(subject, images, truths, found)}")
    return Normalisation(found.mean, found.std, f"{best}, the best of the usual ones"), told


def _best(
    subject: Subject, images: Tensor, truths: Tensor, usual: Mapping[str, Normalisation]
) -> tuple[str, dict[str, float]]:
    """The normalisation that fits best, and the accuracy with each."""
    fits = {name: _fit(subject, images, truths, one) for name, one in usual.items()}
    return max(fits, key=lambda name: fits[name]), {name: accuracy for name, (accuracy, _) in fits.items()}


def _fit(subject: Subject, images: Tensor, truths: Tensor, normalisation: Normalisation) -> tuple[float, float]:
    """The accuracy, and the mean log-probability of what is right, which tells normalisations of one accuracy apart."""
    found = torch.cat([subject.probabilities(part, normalisation) for part in images.split(64)])
    right = found[torch.arange(len(truths)), truths].clamp_min(1e-8).log().mean().item()
    return (found.argmax(1) == truths).double().mean().item(), right


def _order(subject: Subject, images: Tensor, truths: Tensor, normalisation: Normalisation) -> str:
    """Whether its answers would be right if the classes were in another order."""
    guesses = torch.cat([subject.answers(part, normalisation).argmax(1) for part in images.split(64)])
    usual = {label: int(guesses[truths == label].mode().values) for label in truths.unique().tolist()}
    hits = sum(int((guesses[truths == label] == guess).sum()) for label, guess in usual.items())
    if len(set(usual.values())) == len(usual) and hits / len(truths) > _guessing(truths):
        return (
            f"its answers are right for {_percent(hits / len(truths))} if its classes are in another order; "
            "folders are taken in alphabetical order, in which 10 comes before 2"
        )
    return "check that the classes are in its order"


def _guessing(truths: Tensor) -> float:
    """What guessing the most frequent class reaches, and three standard errors more."""
    share = truths.bincount().max().item() / len(truths)
    return min(0.99, share + 3 * _error(share, truths))


def _error(share: float, truths: Tensor) -> float:
    """The standard error of a share of so many pictures."""
    return math.sqrt(share * (1 - share) / len(truths))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _option(numbers: tuple[float, ...]) -> str:
    return ",".join(f"{number:.4g}" for number in numbers)
