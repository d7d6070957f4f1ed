"""Package files: a network compiled to native code ahead of time, for one device, as AOTInductor packs it."""

from __future__ import annotations

import io
import warnings

import torch
from torch import Tensor, nn

from xcnorm.errors import UserError
from xcnorm.export.formats import Format, Run
from xcnorm.export.traced import first_line, trace
from xcnorm.models.about import About


def to_bytes(network: nn.Module, images: Tensor, about: About, any_size: bool) -> bytes:
    """The file, compiled for the device of the images; see `Format`.

    Raises:
        UserError: There is no C++ compiler, or the network cannot be compiled.
    """
    _find_compiler()
    program = trace(network, images, any_size)
    buffer = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metadata = {"aot_inductor.metadata": {"xcnorm": about.to_json()}}
            torch._inductor.aoti_compile_and_package(program, package_path=buffer, inductor_configs=metadata)
    except Exception as error:  # of many kinds
        raise UserError(f"AOTInductor cannot compile this network: {first_line(error)}") from error
    return buffer.getvalue()


def load(content: bytes, device: torch.device) -> Run:
    """The package, on the device that it was compiled for."""
    run: Run = torch._inductor.aoti_load_package(io.BytesIO(content))
    return run


PACKAGE = Format("AOTInductor", ".aoti.pt2", to_bytes, load)


def _find_compiler() -> None:
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError) as error:
        raise UserError("AOTInductor needs a C++ compiler, and none is found; install g++ or set CXX") from error
