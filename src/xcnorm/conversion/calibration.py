"""Calibration: gains, scales c and moving averages of a converted model, set on a few batches before any training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from xcnorm.conversion.report import Change, ConversionReport, attach_report, conversion_report
from xcnorm.conversion.reversal import keep_averages, plain_layers, revert
from xcnorm.nn import MovingScale, XCNormLayer

_ROUNDS = 2  # in the first one, c and the later gains still follow gains that are being set


def calibrate(model: nn.Module, batches: Iterable[Any]) -> nn.Module:
    """Let a converted model start as near to the model it was as its layers allow. It is changed and returned.

    1. The moving averages of all batch norms of the model, and of c (``scale="ema"``), become the averages over the
       batches. With ``stages="model"`` this is nearly all there is to do: the trained scale and shift of a norm stand,
       and what it receives has the mean and the deviation again that they were trained for.
    2. The gain of each XCNorm layer is set so that what comes out behind it, channel by channel, has the root mean
       square that it had in the plain model at the same place. Layer by layer in the order in which they run, each on
       what those before it now give. The gain counts with ``gain="after_norm"``, or with ``norm="none"``; else the
       channel norm behind it cancels it, and the layer stays as it is.

    If the model then gives the plain model's answer, its largest output, for fewer of the images than before, all is
    put back. The report says so, with both shares, and for each layer what was set. The filters are not touched: this
    is a start for training, and no replacement of it.

    Args:
        model: What `convert` returned, before it is trained.
        batches: A few batches of training images: tensors, or tuples that begin with one.

    Returns:
        The model.

    Raises:
        ValueError: The model was not converted, or there is no batch.
        TypeError: A batch is not a tensor.

    Example:
        >>> from xcnorm import convert
        >>> model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.GELU(), nn.Flatten(), nn.Linear(576, 10))
        >>> images = torch.rand(8, 3, 8, 8)
        >>> before = model.eval()[:3](images).square().mean()
        >>> model = calibrate(convert(model, norm="none"), [images])
        >>> torch.allclose(model[:3](images).square().mean(), before, rtol=1e-3)
        True
    """
    images = list_images(batches)
    plain = plain_layers(model)
    if not plain:
        raise ValueError("this model was not converted, so there is nothing to calibrate; call xcnorm.convert first")
    ends = {name: each.end for name, each in plain.items() if each.leader == name}
    modules = {name: model.get_submodule(name) for name in ends}
    layers = {name: module for name, module in modules.items() if isinstance(module, XCNormLayer)}
    first_names = {id(layer): name for name, layer in reversed(layers.items())}  # of a layer in several places
    free = [name for name, layer in layers.items() if _gain_counts(layer) and first_names[id(layer)] == name]
    units = [_Unit(layers[name], ends[name]) for name in free]
    training = {module: module.training for module in model.modules()}
    keep_averages(model)
    with torch.no_grad():
        try:
            wanted = _measure(units, revert(copy.deepcopy(model)).eval(), images)
            start = _set_here(model, units)
            shares = [agreement(_run(model.eval(), images, []), wanted)]
            for _ in range(_ROUNDS):
                _set_averages(model, images)
                _set_gains(units, model, images)
            _set_averages(model, images)
            shares.append(agreement(_run(model, images, []), wanted))
            if undone := shares[1] < shares[0]:
                for value, before in start:
                    value.copy_(before)
        finally:
            for module, flag in training.items():
                module.training = flag
    _say(model, layers, len(images), shares, undone)
    return model


class _Unit:
    """A layer whose gain is to be set, and what comes out where its plain norm and activation ended.

    Attributes:
        layer: The layer.
        end: Name of the module behind which its output is compared.
        wanted: The mean square of each channel in the plain model.
    """

    def __init__(self, layer: XCNormLayer, end: str) -> None:
        self.layer = layer
        self.end = end
        self.wanted = _Mean()
        self.without_gain = _Mean()

    def mean_square(self, output: Tensor) -> Tensor:
        """Of each channel."""
        axis = output.ndim - 1 if self.layer.dense else 1
        return output.double().square().mean([each for each in range(output.ndim) if each != axis])

    def measure(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        """A hook of the plain model."""
        self.wanted.add(self.mean_square(output))

    def adjust(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        """A hook of the converted model: sets the gain, and gives what comes out with it."""
        gain = self.layer.stages.gain
        assert gain is not None
        self.without_gain.add(self.mean_square(output) / gain.double().square())
        better = (self.wanted.value / self.without_gain.value).sqrt()
        # A channel that is dead here or there has no scale to be given.
        better = torch.where(better.isfinite() & (better > 0), better, gain.double())
        factor = (better / gain).to(output.dtype)
        gain.copy_(better)
        return output * (factor if self.layer.dense else factor.view(-1, *[1] * (output.ndim - 2)))


class _Mean:
    """A mean over batches."""

    def __init__(self) -> None:
        self.count = 0
        self.value = torch.zeros(())

    def add(self, value: Tensor) -> None:
        """One more batch."""
        self.count += 1
        self.value = value if self.count == 1 else self.value + (value - self.value) / self.count


def _gain_counts(layer: XCNormLayer) -> bool:
    return layer.options.gain == "after_norm" or (layer.options.gain == "before_norm" and layer.options.norm == "none")


def _measure(units: list[_Unit], model: nn.Module, images: list[Tensor]) -> list[Tensor]:
    return _run(model, images, [(model.get_submodule(unit.end), unit.measure) for unit in units])


def _set_here(model: nn.Module, units: list[_Unit]) -> list[tuple[Tensor, Tensor]]:
    """All that may be set, and a copy of it."""
    values = [unit.layer.stages.gain for unit in units]
    values += [buffer for module in _averaging(model) for buffer in module.buffers(recurse=False)]
    return [(value, value.clone()) for value in values if value is not None]


def agreement(outputs: list[Tensor], wanted: list[Tensor]) -> float:
    """For what share of images, or of their positions, a model's largest output is the same one as another's.

    Of the measures tried, this one went up where the accuracy of a calibrated network did; squared differences prefer
    outputs that are too small.

    Args:
        outputs: Of the model, ``(N, C, ...)`` for each batch.
        wanted: Those of the other.

    Example:
        >>> agreement([torch.tensor([[0.0, 1.0], [3.0, 2.0]])], [torch.tensor([[0.0, 9.0], [3.0, 5.0]])])
        0.5
    """
    same = [here.argmax(1) == there.argmax(1) for here, there in zip(outputs, wanted, strict=True)]
    return float(torch.cat(same).double().mean())


def _set_gains(units: list[_Unit], model: nn.Module, images: list[Tensor]) -> None:
    for unit in units:
        unit.without_gain = _Mean()
    _run(model, images, [(model.get_submodule(unit.end), unit.adjust) for unit in units])


def _set_averages(model: nn.Module, images: list[Tensor]) -> None:
    """Let moving averages be those of these batches, all with the same weight."""
    averaging = _averaging(model)
    momentum = [module.momentum for module in averaging]
    try:
        for count, batch in enumerate(images, 1):
            for module in averaging:
                module.training, module.momentum = True, 1 / count
            model(batch)
    finally:
        for module, before in zip(averaging, momentum, strict=True):
            module.training, module.momentum = False, before


def _averaging(model: nn.Module) -> list[Any]:
    """The modules with moving averages."""
    found = [module for module in model.modules() if isinstance(module, MovingScale | _BatchNorm)]
    return [module for module in found if isinstance(module, MovingScale) or module.running_mean is not None]


def _run(model: nn.Module, images: list[Tensor], hooks: list[tuple[nn.Module, Callable[..., Any]]]) -> list[Tensor]:
    """Run a model with hooks, and collect the tensors that it gives: one for each batch, also out of several."""
    handles = [module.register_forward_hook(hook) for module, hook in hooks]
    try:
        outputs = [model(batch) for batch in images]
    finally:
        for handle in handles:
            handle.remove()
    return [_first_tensor(each) for each in outputs]


def _first_tensor(output: Any) -> Tensor:
    """Of what a model gives, which may be a tuple or a dictionary."""
    while not isinstance(output, Tensor):
        several = list(output.values()) if isinstance(output, dict) else output
        if not isinstance(several, tuple | list) or not several:
            raise TypeError(f"the model must give a tensor, or several, to be calibrated; got {type(output).__name__}")
        output = several[0]
    return output


def _say(model: nn.Module, layers: dict[str, XCNormLayer], batches: int, shares: list[float], undone: bool) -> None:
    """Add to the report what was set."""

    def told(change: Change) -> Change:
        layer = layers.get(change.name)
        if layer is None or undone:
            return change
        if _gain_counts(layer):
            done = f"gain set on {batches} batches"
        elif layer.options.gain == "none":
            done = "averages of the norm behind it set"
        else:
            done = "its channel norm cancels a gain: none set"
        return replace(change, reason=f"{change.reason}; {done}")

    report = conversion_report(model)
    before, after = shares
    ending = "; undone, as those are fewer" if undone else ""
    found = f"the plain model's answer for {after:.0%} of the images, before for {before:.0%}{ending}"
    summary = f"calibrated on {batches} batches: {found}"
    attach_report(model, ConversionReport(tuple(map(told, report.changes)), summary))


def list_images(batches: Iterable[Any]) -> list[Tensor]:
    """The images of some batches.

    Raises:
        ValueError: There is no batch.
        TypeError: A batch is not a tensor, nor begins with one.
    """
    if isinstance(batches, Tensor):
        raise TypeError("batches must be several batches, got a single tensor; use [tensor]")
    images = [batch[0] if isinstance(batch, tuple | list) and batch else batch for batch in batches]
    for batch in images:
        if not isinstance(batch, Tensor):
            raise TypeError(f"a batch must be a tensor of images, or begin with one, got {type(batch).__name__}")
    if not images:
        raise ValueError("batches is empty; give at least one batch of images")
    return images
