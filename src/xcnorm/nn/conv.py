"""Convolutional layers: drop-in subclasses of torch's, with torch's signature first."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Literal, Unpack

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from xcnorm import ops
from xcnorm.errors import unknown_name
from xcnorm.nn.layer import XCNormLayer, refuse_bias
from xcnorm.nn.options import RobustOptions

Sizes = int | tuple[int, ...]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _XCNormConv(XCNormLayer, _ConvNd):
    """Everything the three ranks share; torch's class, next in line, brings the geometry."""

    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | Literal["same", "valid"] = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = False,
        padding_mode: str = "zeros",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[RobustOptions],
    ) -> None:
        check_arguments(self.rank, in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        refuse_bias(bias)
        if padding_mode not in PADDING_MODES:
            raise ValueError(unknown_name("padding_mode", padding_mode, PADDING_MODES))
        arguments: tuple[Any, ...] = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        super().__init__(*arguments, False, padding_mode, device, dtype)  # type: ignore[call-arg]  # the rank's class is next
        self._add_stages(dict(options), len(self.kernel_size), groups, device, dtype)

    @property
    def correlation(self) -> ops.Correlation:
        """The similarity that the layer asks of a backend."""
        return ops.Correlation(
            kernel=self.kernel_size,
            stride=self.stride,
            dilation=self.dilation,
            padding=tuple(self._reversed_padding_repeated_twice),
            padding_mode=self.padding_mode,
            groups=self.groups,
            robust=self.options.robust,
            per_patch=self.scale is not None and self.scale.per_patch,
            channelwise=self.options.channelwise,
            eps=self.options.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C_in, *sizes)`` or ``(C_in, *sizes)`` to the same with ``C_out`` and the output's positions."""
        rank = len(self.kernel_size)
        if input.ndim not in (rank + 1, rank + 2):
            raise ValueError(
                f"input must have {rank + 2} axes (N, C, then {rank} of positions), or {rank + 1} without N; "
                f"got shape {tuple(input.shape)}"
            )
        self._check_input(input, input.shape[-rank - 1])
        self._check_fit(input)
        if input.ndim == rank + 1:
            return self._respond(input.unsqueeze(0)).squeeze(0)
        return self._respond(input)

    def _check_fit(self, input: Tensor) -> None:
        padding: list[int] = self._reversed_padding_repeated_twice
        rank = len(self.kernel_size)
        sizes = input.shape[-rank:]
        limit = {"reflect": -1, "circular": 0}.get(self.padding_mode)
        for axis, (size, kernel, dilation) in enumerate(zip(sizes, self.kernel_size, self.dilation, strict=True)):
            before, after = padding[2 * (rank - 1 - axis) : 2 * (rank - axis)]
            if limit is not None and max(before, after) > size + limit:
                raise ValueError(
                    f"padding_mode={self.padding_mode!r} cannot pad {max(before, after)} positions onto {size}, "
                    f"input shape {tuple(input.shape)}; use padding_mode='replicate' or a larger input"
                )
            if size + before + after < dilation * (kernel - 1) + 1:
                raise ValueError(
                    f"kernel_size={self.kernel_size} with dilation={self.dilation} does not fit the padded input, "
                    f"shape {tuple(input.shape)}; use a smaller kernel, more padding or a larger input"
                )


def check_arguments(
    rank: int,
    in_channels: object,
    out_channels: object,
    kernel_size: object,
    stride: object,
    padding: object,
    dilation: object,
    groups: object,
) -> None:
    """Refuse what torch's constructor lets through, or reports without the value."""
    for name, value in (
        ("in_channels", in_channels),
        ("out_channels", out_channels),
        ("kernel_size", kernel_size),
        ("stride", stride),
        ("padding", padding),
        ("dilation", dilation),
        ("groups", groups),
    ):
        if isinstance(value, tuple | list) and (
            len(value) != rank or name in ("in_channels", "out_channels", "groups")
        ):
            wanted = (
                "an integer" if name in ("in_channels", "out_channels", "groups") else f"an integer or {rank} of them"
            )
            raise ValueError(f"{name} must be {wanted}, got {value!r}")
        if name == "padding":
            continue  # it has rules of its own, below
        for number in value if isinstance(value, tuple | list) else (value,):
            if isinstance(number, bool) or not isinstance(number, Integral):
                raise TypeError(f"{name} must be an integer or a tuple of integers, got {value!r}")
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(unknown_name("padding", padding, ("same", "valid")))
        if padding == "same" and any(s != 1 for s in (stride if isinstance(stride, tuple | list) else (stride,))):
            raise ValueError(f"padding='same' needs stride 1, got stride={stride!r}; give the padding as a number")
    else:
        for number in padding if isinstance(padding, tuple | list) else (padding,):
            if isinstance(number, bool) or not isinstance(number, Integral):
                raise TypeError(f"padding must be 'same', 'valid', an integer or a tuple of them, got {padding!r}")
            if number < 0:
                raise ValueError(f"padding must not be negative, got {padding!r}")
    for name, value in (("in_channels", in_channels), ("out_channels", out_channels)):
        if value % groups:  # type: ignore[operator]  # both were checked to be integers above
            raise ValueError(f"groups={groups} does not divide {name}={value}; choose a divisor of both channel counts")


class XCNormConv1d(_XCNormConv, nn.Conv1d):
    """XCNorm over a 1-D signal; see `XCNormConv2d`. ``(N, C_in, L)`` to ``(N, C_out, L_out)``."""

    rank = 1


class XCNormConv2d(_XCNormConv, nn.Conv2d):
    """Normalised cross-correlation in place of a convolution, its normalisation and its activation.

    Takes the arguments of `torch.nn.Conv2d`, in torch's order, then the keyword options of
    `xcnorm.nn.StageOptions`. ``bias`` stays False.

    Each output is the correlation of a filter with the patch under it, so it does not change when the patch's
    brightness and contrast do, up to ``eps`` and away from zero padding (``padding_mode="replicate"`` keeps the
    invariance at the borders). With ``rectify="none", tau="none", gain="none", mask=False, norm="none"`` that
    correlation is all there is; the defaults follow it with the stages of the paper.

    Shapes:
        ``(N, C_in, H, W)`` or ``(C_in, H, W)`` to ``(N, C_out, H_out, W_out)`` or the same without N.

    Example:
        >>> layer = XCNormConv2d(3, 8, 3, rectify="none", tau="none", gain="none", mask=False, norm="none", eps=1e-8)
        >>> image = torch.rand(1, 3, 8, 8)
        >>> torch.allclose(layer(image), layer(0.2 * image + 0.7), atol=1e-4)
        True
    """

    rank = 2


class XCNormConv3d(_XCNormConv, nn.Conv3d):
    """XCNorm over a volume; see `XCNormConv2d`. ``(N, C_in, D, H, W)`` to ``(N, C_out, D_out, H_out, W_out)``."""

    rank = 3


class RXCNormConv1d(XCNormConv1d):
    """Robust XCNorm over a 1-D signal; see `RXCNormConv2d`."""

    robust = True


class RXCNormConv2d(XCNormConv2d):
    """Robust normalised cross-correlation: `XCNormConv2d` with a robust function on the centred patch.

    A few outliers in a patch (salt-and-pepper noise, a specular spot) no longer decide its norm. Takes the options
    of `xcnorm.nn.RobustOptions`: those of XCNorm and ``robust``, ``scale`` and ``c_init``.

    Example:
        >>> layer = RXCNormConv2d(3, 8, 3, padding=1, padding_mode="replicate", preset="paper")
        >>> layer(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 8, 8, 8])
        >>> layer.running_c < 10  # the moving average has left its initial value
        tensor(True)
    """

    robust = True


class RXCNormConv3d(XCNormConv3d):
    """Robust XCNorm over a volume; see `RXCNormConv2d`."""

    robust = True
