"""Folders of pretrained networks, as Hugging Face has them: a description, weights and a card; no code, no pickle."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.errors import UserError, one_line
from xcnorm.files import disk_errors, replacing
from xcnorm.models.about import About
from xcnorm.models.card import write_card
from xcnorm.models.description import describe, make_again
from xcnorm.models.wiring import Network
from xcnorm.tensors import load_tensors, save_tensors

FORMAT = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
_LONGEST = 10_000_000  # characters of a config.json: with a thousand classes and layers it has some 200,000


def save_pretrained(
    model: nn.Module, folder: Path | str, *, about: About | None = None, metrics: Mapping[str, float] | None = None
) -> Path:
    """Write a network into a folder of its own: ``config.json``, ``model.safetensors`` and ``README.md``.

    Args:
        model: A network of `xcnorm.create_model`, converted by `xcnorm.convert` or not; or another one, of which the
            folder then has the converted layers and the weights, and `from_pretrained` asks for the rest.
        folder: Where to. If it is there, it must be such a folder, which is replaced.
        about: What else is known of it: its classes, its normalisation, its size.
        metrics: Scores between 0 and 1 for the card, by the name of what they were measured on.

    Returns:
        The folder.

    Raises:
        UserError: The network cannot be made again from values alone, or the folder holds something else.

    Example:
        >>> import tempfile, xcnorm
        >>> network = xcnorm.create_model("wrn16_4", "xcnorm", num_classes=7).eval()
        >>> with tempfile.TemporaryDirectory() as place:
        ...     again = from_pretrained(save_pretrained(network, f"{place}/network"))
        >>> images = torch.rand(1, 3, 32, 32)
        >>> torch.equal(again(images), network(images))
        True
    """
    folder = Path(folder)
    description, about = describe(model), about or About()
    about = replace(about, network=about.network or type(model).__name__)
    if folder.exists() and not (
        folder.is_dir() and {each.name for each in folder.iterdir()} <= {CONFIG, WEIGHTS, CARD}
    ):
        raise UserError(f"{folder} is there and holds other files; name a new folder")
    parameters = sum(each.numel() for each in model.parameters())
    card = write_card(description, about, parameters, metrics or {})
    config = {"format": FORMAT, "description": description, "about": asdict(about)}
    text = json.dumps(config, indent=1) + "\n"
    weights = {name: each.detach().clone() for name, each in model.state_dict().items()}
    with disk_errors(folder, "choose another folder"), replacing(folder) as part:
        part.mkdir()
        (part / CONFIG).write_text(text, encoding="utf-8")
        (part / CARD).write_text(card, encoding="utf-8")
        save_tensors(weights, part / WEIGHTS)
    return folder


def from_pretrained(folder: Path | str, model: nn.Module | None = None) -> nn.Module:
    """Load a network from a folder of `save_pretrained`. Nothing in it is run.

    Args:
        folder: The folder, from anybody.
        model: The network as it was before its conversion, where `xcnorm.create_model` did not make it. It is changed.

    Returns:
        The network, in evaluation mode. `about_pretrained` has its classes and so on.

    Raises:
        UserError: The folder is not one of these, or is damaged, or the model does not fit it.
    """
    folder = Path(folder)
    description = _read_config(folder)["description"]
    weights = _read_weights(folder / WEIGHTS)
    try:
        with torch.device("meta"):  # nothing of a size that the weights do not have is ever allocated
            planned = make_again(description, None if model is None else copy.deepcopy(model).to("meta"))
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    _check_fit(planned, weights, folder)
    network = make_again(description, model)
    _load(network, weights, folder)
    return network.eval()


def about_pretrained(folder: Path | str) -> About:
    """What a folder of `save_pretrained` says about its network.

    Raises:
        UserError: The folder is not one of these, or is damaged.
    """
    return About.of(json.dumps(_read_config(Path(folder))["about"]), Path(folder) / CONFIG)


def is_pretrained(folder: Path) -> bool:
    """Whether a folder looks like one of `save_pretrained`."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def load_weights(network: Network, path: Path) -> None:
    """Load weights into a network that was just made.

    Args:
        network: The network.
        path: A folder of `save_pretrained`, or a ``.safetensors`` file.

    Raises:
        UserError: They are another network's.
    """
    if path.is_dir():
        description = _read_config(path)["description"]
        with torch.device("meta"):
            found = make_again(description)
        if repr(found) != repr(network):
            made = getattr(found, "made_of", None) or {}
            wanted = network.made_of or {}
            different = [name for name in sorted({*made, *wanted}) if made.get(name) != wanted.get(name)]
            told = ", ".join(f"{name}={made.get(name)!r}" for name in different) or "a conversion"
            raise UserError(f"pretrained={str(path)!r} is another network, by {one_line(told)}; use from_pretrained")
        path = path / WEIGHTS
    elif path.suffix.lower() != ".safetensors":
        raise UserError(f"pretrained={str(path)!r} is no folder of save_pretrained and no .safetensors file")
    _load(network, _read_weights(path), path)


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        if path.stat().st_size > _LONGEST:
            raise UserError(f"{path} is too long for a network's; it has at most {_LONGEST:,} characters")
        config = json.loads(path.read_text(encoding="utf-8"))
        version, description, about = config["format"], config["description"], config["about"]
    except FileNotFoundError as error:
        raise UserError(f"{folder} is no folder of save_pretrained: it has no {CONFIG}") from error
    except KeyError as error:
        raise UserError(f"{path} lacks {error}: it was not written by save_pretrained") from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"cannot read {path}: {one_line(error)}") from error
    if version != FORMAT:
        raise UserError(f"{path} has format {one_line(repr(version))}, and this xcnorm reads {FORMAT}; update xcnorm")
    return {"description": description, "about": about}


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        return load_tensors(path)
    except FileNotFoundError as error:
        raise UserError(f"{path} is not there") from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {one_line(error)}") from error


def _load(network: nn.Module, weights: Mapping[str, Tensor], whose: Path) -> None:
    _check_fit(network, weights, whose)
    # With the types that they were saved in, and copied: where a tensor begins in a file decides how torch rounds.
    network.load_state_dict({name: each.clone() for name, each in weights.items()}, assign=True)


def _check_fit(network: nn.Module, weights: Mapping[str, Tensor], whose: Path) -> None:
    """Refuse weights that are not exactly a network's."""
    wanted = network.state_dict()
    wrong = [f"lacks {name}" for name in wanted if name not in weights]
    wrong += [f"has {one_line(name)}, which the network has not" for name in weights if name not in wanted]
    for name, mine in wanted.items():
        if name in weights and weights[name].shape != mine.shape:
            wrong.append(f"has {name} of shape {tuple(weights[name].shape)}, not {tuple(mine.shape)}")
        elif name in weights and weights[name].is_floating_point() != mine.is_floating_point():
            wrong.append(f"has {name} as {weights[name].dtype}, not {mine.dtype}")
    if wrong:
        more = f" (and {len(wrong) - 1} more such)" if len(wrong) > 1 else ""
        raise UserError(f"{whose} does not fit the network: it {wrong[0]}{more}")
