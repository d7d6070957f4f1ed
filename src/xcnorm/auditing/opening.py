"""Opening a model: from a network, a run's folder, a file, an import path or a published name to a subject."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from xcnorm.auditing.files import open_exported, open_onnx, tensors_only
from xcnorm.auditing.subject import Normalisation, Subject
from xcnorm.data.catalogue import card
from xcnorm.engine import RunFolder
from xcnorm.engine.networks import build_network
from xcnorm.engine.precision import autocast
from xcnorm.errors import UserError
from xcnorm.extras import needed
from xcnorm.models import about_pretrained, from_pretrained
from xcnorm.models.pretrained import is_pretrained

Model = nn.Module | str | Path

FORMS = (
    "the folder of a run or of save_pretrained, a file (.pt2, .onnx), package.module:callable, timm:NAME, or hf:NAME "
    "for one of Hugging Face's"
)


def open_model(model: Model, device: torch.device) -> Subject:
    """Open whatever somebody calls a model.

    Args:
        model: A network, or one of the `FORMS`.
        device: Where it shall compute; ONNX files always do on the CPU.

    Raises:
        UserError: It is none of these, or cannot be opened.
    """
    if isinstance(model, nn.Module):
        return of_module(model, type(model).__name__, device)
    text = str(model)
    path = Path(text).expanduser()
    if path.is_dir():
        return (_of_folder if is_pretrained(path) else _of_run)(path, text, device)
    if path.suffix.lower() in (".pt2", ".onnx"):
        if not path.is_file():
            raise UserError(f"{path} is not there")
        return (open_onnx if path.suffix.lower() == ".onnx" else open_exported)(path, text, device)
    if path.suffix.lower() in (".pt", ".pth", ".pkl", ".ckpt", ".bin"):
        raise UserError(
            f"{path} may hold a pickle, which can run any code when it is loaded; export the network with "
            "torch.export.save, or name a function that builds it: package.module:callable"
        )
    origin, colon, name = text.partition(":")
    if origin in ("timm", "hf") and name:
        return {"timm": _of_timm, "hf": _of_hugging_face}[origin](name, text, device)
    if colon and name and all(part.isidentifier() for part in origin.split(".")):
        return _of_import(origin, name, text, device)
    raise UserError(f"{text!r} is no model; give {FORMS}")


def of_module(module: nn.Module, name: str, device: torch.device, **known: Any) -> Subject:
    """A network of torch's as a subject."""
    module = module.to(device)
    return Subject(name, module, _key(module), device, module, **known)


def _key(module: nn.Module) -> str:
    """A hash of its structure, its class's source file and its weights."""
    digest = hashlib.sha256(repr(module).encode())
    try:
        digest.update(Path(inspect.getfile(type(module))).read_bytes())
    except (OSError, TypeError):  # made in a console
        digest.update(type(module).__qualname__.encode())
    for name, tensor in module.state_dict().items():
        if isinstance(tensor, torch.Tensor):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _of_run(path: Path, name: str, device: torch.device) -> Subject:
    folder = RunFolder(path)
    experiment = folder.experiment()
    with folder.metrics() as metrics:
        classes = tuple(map(str, metrics["classes"]))
    network = build_network(experiment, len(classes), device)
    network.load_state_dict(folder.weights("last"))
    half = experiment.run.precision

    def forward(inputs: torch.Tensor) -> Any:
        with autocast(half, device):
            return network(inputs)

    mean, std = (
        tuple(value if isinstance(value, list) else [value]) for value in (experiment.data.mean, experiment.data.std)
    )
    pixels = experiment.benchmark_options.get("pixels") or card(experiment.benchmark).pixels
    subject = of_module(
        network,
        name,
        device,
        classes=classes,
        precision=half,
        pixels=pixels if isinstance(pixels, int) and pixels else None,
        normalisation=Normalisation(mean, std, "the run's own"),
    )
    subject.forward = forward
    return subject


def _of_folder(path: Path, name: str, device: torch.device) -> Subject:
    return of_module(from_pretrained(path), name, device).with_about(about_pretrained(path), "the folder's own")


def _of_import(module: str, attribute: str, name: str, device: torch.device) -> Subject:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise UserError(f"cannot import {module} for the model {name}: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UserError(f"{module} has no {attribute}; check the model {name}")
        found = getattr(found, part)
    if not isinstance(found, nn.Module):
        if not callable(found):
            raise UserError(f"{name} is neither a network nor something that makes one when it is called")
        try:
            found = found()
        except Exception as error:
            raise UserError(f"{name} cannot be called without arguments: {type(error).__name__}: {error}") from error
    if not isinstance(found, nn.Module):
        raise UserError(f"{name} makes no torch.nn.Module but {type(found).__name__}")
    return of_module(found, name, device)


def _of_timm(model: str, name: str, device: torch.device) -> Subject:
    with _published(name), tensors_only():
        with needed("models of timm", "audit"):
            import timm
        network = timm.create_model(model, pretrained=True)
    known = timm.data.resolve_model_data_config(network)
    return of_module(
        network,
        name,
        device,
        pixels=int(known["input_size"][-1]),
        normalisation=Normalisation(tuple(known["mean"]), tuple(known["std"]), "timm's own"),
    )


def _of_hugging_face(model: str, name: str, device: torch.device) -> Subject:
    with _published(name), tensors_only():
        with needed("models of Hugging Face", "audit"):
            from transformers import AutoImageProcessor, AutoModelForImageClassification
        network = AutoModelForImageClassification.from_pretrained(model, use_safetensors=True)
        processor = AutoImageProcessor.from_pretrained(model)
    size = processor.crop_size if getattr(processor, "do_center_crop", False) else processor.size
    sides = {size[side] for side in ("height", "width", "shortest_edge") if size.get(side)}
    own = (
        Normalisation(tuple(processor.image_mean), tuple(processor.image_std), "the model's own")
        if getattr(processor, "do_normalize", False)
        else Normalisation((0.0,), (1.0,), "the model's own: none")
    )
    labels = [str(label) for _, label in sorted(network.config.id2label.items())]
    named = len(labels) == len(set(labels)) and labels != [f"LABEL_{n}" for n in range(len(labels))]
    subject = of_module(network, name, device, pixels=min(sides) if sides else None, normalisation=own)
    subject.classes = tuple(labels) if named else None
    return subject


@contextmanager
def _published(name: str) -> Iterator[None]:
    """Say in one line why a published model could not be had."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"cannot get {name}: {type(error).__name__}: {reason}") from error
