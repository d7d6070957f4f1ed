"""A relative of the operator: a convolution of images that compares patch and filter in a way of its own."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.errors import unknown_name
from xcnorm.nn.conv import PADDING_MODES, Sizes, check_arguments
from xcnorm.ops.spec import full_precision


class Relative(nn.Conv2d):
    """Base of the layers that XCNorm is compared with. Subclasses say what they answer, in `respond`.

    Takes the arguments of `torch.nn.Conv2d`, in torch's order; what a subclass adds to them are keywords.

    Attributes:
        can_have_bias: Whether the published layer has a bias; if not, ``bias=True`` is refused.

    Shapes:
        ``(N, C_in, H, W)`` or ``(C_in, H, W)`` to ``(N, C_out, H_out, W_out)`` or the same without N.
    """

    can_have_bias: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | Literal["same", "valid"] = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool | None = None,
        padding_mode: str = "zeros",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_arguments(2, in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        if bias and not self.can_have_bias:
            raise ValueError(f"bias=True is not supported: {type(self).__name__} has none; use bias=False")
        if padding_mode not in PADDING_MODES:
            raise ValueError(unknown_name("padding_mode", padding_mode, PADDING_MODES))
        with_bias = self.can_have_bias if bias is None else bias
        arguments = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        super().__init__(*arguments, with_bias, padding_mode, device, dtype)  # type: ignore[arg-type]  # any sizes

    @property
    def pools_batch(self) -> bool:
        """Whether it takes statistics of the whole batch in training."""
        return False

    @classmethod
    def option_names(cls) -> list[str]:
        """What a layer takes besides torch's arguments: its keyword-only ones."""
        return [name for name, each in signature(cls).parameters.items() if each.kind is Parameter.KEYWORD_ONLY]

    def learn(self, **shapes: tuple[int, ...]) -> None:
        """Register what is learnt besides filters and bias, and let it start."""
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(self.weight.new_empty(shape)))
        self.learnt = tuple(shapes)
        self.start()

    def reset_parameters(self) -> None:
        """Initialise the filters as torch does, and then the rest."""
        super().reset_parameters()
        if hasattr(self, "learnt"):  # torch's constructor comes here before there is a rest
            self.start()

    def start(self) -> None:
        """Initialise what is learnt besides filters and bias; called again when other filters are put in."""

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C_in, H, W)`` or ``(C_in, H, W)`` to the same with ``C_out`` and the output's positions."""
        return self.respond(input.unsqueeze(0)).squeeze(0) if input.ndim == 3 else self.respond(input)

    def respond(self, input: Tensor) -> Tensor:
        """``(N, C_in, H, W)`` to ``(N, C_out, H_out, W_out)``; the plain convolution, where it is one."""
        filters = self.plain_filters()
        if filters is None:
            raise NotImplementedError
        return self._conv_forward(input, filters, self.bias)

    def plain_filters(self) -> Tensor | None:
        """The filters with which a plain convolution answers the same; None if there are no such filters."""
        return None

    def correlate(self, input: Tensor, weight: Tensor) -> Tensor:
        """The products of patches and filters, by torch's convolution; no bias."""
        return self._conv_forward(input, weight, None)

    def patch_squares(self, input: Tensor) -> Tensor:
        """The sum of squares of each patch, ``(N, groups, H_out, W_out)``, in float32 or better.

        The squares are padded as the input is, so that it is the patch that is there.
        """
        with full_precision(input.device):
            values = input if input.dtype == torch.float64 else input.float()
            squares = values.square().unflatten(1, (self.groups, -1)).sum(2)
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            squares = F.pad(squares, self._reversed_padding_repeated_twice, mode)
            ones = squares.new_ones(self.groups, 1, *self.kernel_size)
            return F.conv2d(squares, ones, None, self.stride, 0, self.dilation, self.groups)

    def cosine(self, input: Tensor, norm: Tensor, eps: float) -> Tensor:
        """The cosine of the angle between each patch and each filter, for the patches' norms."""
        return self.by_group(torch.div, self.correlate(input, unit_filters(self.weight, eps)), norm)

    def by_group(self, combine: Callable[[Tensor, Tensor], Tensor], output: Tensor, maps: Tensor) -> Tensor:
        """Combine the output's channels with the map of their group."""
        grouped = combine(output.unflatten(1, (self.groups, -1)), maps.to(output.dtype).unsqueeze(2))
        return grouped.flatten(1, 2)

    def extra_repr(self) -> str:
        """Torch's own arguments, then the options."""
        torchs: str = super().extra_repr()  # type: ignore[no-untyped-call]
        values = {name: getattr(self, name, None) for name in self.option_names()}
        ours = [f"{name}={value!r}" for name, value in values.items() if not isinstance(value, Tensor)]
        return ", ".join([torchs, *ours])


def unit_filters(weight: Tensor, eps: float = 0.0) -> Tensor:
    """Filters ``(C_out, ...)`` scaled to unit length, with ``eps`` added to the squared length."""
    return weight * (weight.flatten(1).square().sum(1) + eps).rsqrt().view(-1, *(1,) * (weight.ndim - 1))
