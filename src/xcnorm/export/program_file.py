"""Program files: a network for torch alone, as `torch.export.load` reads it, on any device."""

from __future__ import annotations

import io
import warnings

import torch
from torch import Tensor, nn
from torch.export.passes import move_to_device_pass

from xcnorm.export.formats import Format, Run
from xcnorm.export.traced import trace
from xcnorm.models.about import About


def to_bytes(network: nn.Module, images: Tensor, about: About, any_size: bool) -> bytes:
    """The file, with what is known of the network in an extra file of that archive; see `Format`."""
    program = trace(network, images, any_size)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, buffer, extra_files={"xcnorm": about.to_json()})
    return buffer.getvalue()


def load(content: bytes, device: torch.device) -> Run:
    """The program on a device."""
    program = move_to_device_pass(torch.export.load(io.BytesIO(content)), device)
    run: Run = program.module()
    return run


PROGRAM = Format("torch.export", ".pt2", to_bytes, load)
