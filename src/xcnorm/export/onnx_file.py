"""ONNX files: a network for onnxruntime, in browsers too, and for whatever else reads ONNX."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from xcnorm.errors import UserError
from xcnorm.export.formats import Format, Run
from xcnorm.export.operators import write_layer
from xcnorm.export.replaced import as_nodes
from xcnorm.export.traced import first_line, trace
from xcnorm.extras import needed
from xcnorm.models.about import About

OPSET = 18
"""The operators that torch's exporter writes by itself, without a conversion that could fail. Every onnxruntime since
1.14 (2023) has them, in browsers too."""


def to_bytes(network: nn.Module, images: Tensor, about: About, any_size: bool) -> bytes:
    """The file, which carries in its metadata, under ``xcnorm``, what is known of the network; see `Format`."""
    with needed("ONNX files", "export"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    program = trace(as_nodes(network), images, any_size)
    try:
        with _quiet():
            exported: Any = torch.onnx.export(
                program,
                dynamo=True,
                opset_version=OPSET,
                input_names=["images"],
                output_names=["logits"],
                optimize=False,  # it leaves out what is added to a sum of squares, such as 1e-9, as if it were zero
                verbose=False,
                custom_translation_table={
                    torch.ops.xcnorm.layer.default: write_layer,
                    torch.ops.aten.copysign.Tensor: _copysign,
                },
            )
    except Exception as error:  # of many kinds
        raise UserError(f"torch cannot write this network as ONNX: {_reason(error)}") from error
    model = exported.model_proto
    foreign = {f"{node.domain}::{node.op_type}" for node in model.graph.node if node.domain not in ("", "ai.onnx")}
    if foreign:
        raise UserError(f"this network has operators that are not ONNX's own: {', '.join(sorted(foreign))}")
    model.metadata_props.add(key="xcnorm", value=about.to_json())
    content: bytes = model.SerializeToString()
    return content


def load(content: bytes, device: torch.device) -> Run | None:
    """The file in onnxruntime, on the CPU; None where that is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (name,) = (each.name for each in session.get_inputs())
    return lambda images: torch.from_numpy(session.run(None, {name: images.cpu().numpy()})[0])


ONNX = Format("ONNX", ".onnx", to_bytes, load)


def _copysign(size: Any, sign: Any) -> Any:
    from onnxscript import opset18 as op

    size = op.Abs(size)
    return op.Where(op.Less(sign, 0.0), op.Neg(size), size)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter says about packages and arguments that are nobody's concern here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """The line that names what went wrong, at the end of a chain of errors."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)
