r"""How alike are a patch and a filter: the linear unit, NCC and robust NCC of the paper.

Notation: ``z`` a patch of ``alpha`` values, ``w`` a filter of the same size, ``mu`` the mean over the patch.

Two departures from the print hold throughout. The epsilon stands *inside* the root, as a floor on the patch's
variance: outside it, the gradient on a constant patch (a MNIST border) is infinity times zero. And where the
text says "variance" for the divisor ``sigma_w``, the equations need the standard deviation (population, 1/alpha).
"""

from __future__ import annotations

import torch
from torch import Tensor

from xcnorm.functional.robust import robust_function

EPS = 1e-5
"""Default floor on the variance of a patch, for inputs of about unit range."""

# A floor on ||w - mu_w||^2. It only matters for a filter that is exactly constant.
WEIGHT_FLOOR = 1e-16


def linear_unit(patches: Tensor, weight: Tensor) -> Tensor:
    r"""Plain cross-correlation, eq. (typical_conv): ``Phi = <z, w> = sum_j z_j w_j``.

    Args:
        patches: ``(..., alpha)``.
        weight: ``(C_out, alpha)``.

    Returns:
        ``(..., C_out)``.

    Example:
        >>> linear_unit(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[1.0, 0.0, -1.0]]))
        tensor([-2.])
    """
    return patches @ weight.mT


def normalise_weight(weight: Tensor) -> Tensor:
    r"""Centre each filter and scale it to unit norm: ``(w - mu_w) / ||w - mu_w||``.

    This is the filter's half of eq. (ncc_first1). A constant filter has no direction and becomes zero.

    Args:
        weight: ``(C_out, ...)``; mean and norm run over everything but the first axis.

    Returns:
        Same shape.

    Example:
        >>> normalise_weight(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[-0.7071,  0.0000,  0.7071]])
    """
    flat = weight.flatten(1)
    centred = flat - flat.mean(1, keepdim=True)
    norm = (centred.square().sum(1, keepdim=True) + WEIGHT_FLOOR).sqrt()
    return (centred / norm).view_as(weight)


def patch_deviation(patches: Tensor, eps: float = EPS) -> Tensor:
    r"""Standard deviation of each patch, ``sqrt(var(z) + eps)``, the quantity whose moving average is c.

    Args:
        patches: ``(..., alpha)``.
        eps: Floor on the variance.

    Returns:
        ``(..., 1)``.

    Example:
        >>> patch_deviation(torch.tensor([1.0, -1.0, 1.0, -1.0]), eps=0.0)
        tensor([1.])
    """
    centred = patches - patches.mean(-1, keepdim=True)
    return (centred.square().mean(-1, keepdim=True) + eps).sqrt()


def ncc(patches: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    r"""Normalised cross-correlation, first printed form, eq. (ncc_first1).

    ``Psi = <z - mu_z, w - mu_w> / (||z - mu_z|| ||w - mu_w||)``. Invariant to ``a z + b`` for ``a > 0``, up to
    epsilon: ``||z - mu_z||`` is computed as ``sqrt(sum (z - mu_z)^2 + alpha eps)``.

    Args:
        patches: ``(..., alpha)``.
        weight: ``(C_out, alpha)``.
        eps: Floor on the patch's variance.

    Returns:
        ``(..., C_out)``, values in ``[-1, 1]``.

    Example:
        >>> patch = torch.tensor([1.0, 2.0, 3.0])
        >>> ncc(patch, torch.stack([5 * patch + 7, -patch]), eps=0.0).round(decimals=3)
        tensor([ 1., -1.])
    """
    centred = patches - patches.mean(-1, keepdim=True)
    return linear_unit(centred, normalise_weight(weight)) / _norm(centred, eps)


def ncc_expanded(patches: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    r"""Normalised cross-correlation, second printed form, eq. (ncc_first).

    ``Psi = (<z, w> - alpha mu_z mu_w) / (alpha sigma_w sqrt(mean(z^2) - mu_z^2))``: the same number as `ncc` in
    exact arithmetic. In float32 the difference of squares cancels for patches far from zero, so this form is a
    statement to test, not one to compute with.

    Args:
        patches: ``(..., alpha)``.
        weight: ``(C_out, alpha)``.
        eps: Floor on the patch's variance (printed outside the root; see the top of this module).

    Returns:
        ``(..., C_out)``.

    Example:
        >>> z, w = torch.randn(6, 9, dtype=torch.float64), torch.randn(2, 9, dtype=torch.float64)
        >>> torch.allclose(ncc_expanded(z, w), ncc(z, w))
        True
    """
    return ncc_from_moments(
        linear_unit(patches, weight),
        patches.mean(-1, keepdim=True),
        patches.square().mean(-1, keepdim=True),
        weight.mean(-1),
        weight.std(-1, correction=0),
        alpha=patches.shape[-1],
        eps=eps,
    )


def ncc_from_moments(
    product: Tensor,
    mean: Tensor,
    mean_square: Tensor,
    weight_mean: Tensor,
    weight_deviation: Tensor,
    *,
    alpha: int,
    eps: float = EPS,
) -> Tensor:
    r"""NCC by linear operators alone, the equation after eq. (ncc_first).

    ``Psi = (Phi(z; w) - alpha mu_z mu_w) / (alpha sqrt(mu_{z^2} - mu_z^2) sigma_w)``, where every moment of the
    patch is itself a convolution with the constant filter ``w_alpha = 1 / alpha``.

    Args:
        product: ``Phi(z; w)``, ``(..., C_out)``.
        mean: ``Phi(z; w_alpha)``, ``(..., 1)``.
        mean_square: ``Phi(z^2; w_alpha)``, ``(..., 1)``.
        weight_mean: ``mu_w``, ``(C_out,)``.
        weight_deviation: ``sigma_w``, ``(C_out,)``; the print calls it a variance.
        alpha: Number of values in a patch.
        eps: Floor on the patch's variance, after a clamp at zero against rounding.

    Returns:
        ``(..., C_out)``.

    Example:
        >>> z, w = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([[1.0, 2.0, 4.0]])
        >>> ncc_from_moments(z @ w.mT, z.mean(-1, keepdim=True), z.square().mean(-1, keepdim=True),
        ...                  w.mean(-1), w.std(-1, correction=0), alpha=3, eps=0.0)
        tensor([0.9820])
    """
    variance = (mean_square - mean.square()).clamp_min(0) + eps
    return (product - alpha * mean * weight_mean) / (alpha * variance.sqrt() * weight_deviation)


def robust_ncc(
    patches: Tensor,
    weight: Tensor,
    c: Tensor | float,
    robust: str = "welsch",
    eps: float = EPS,
) -> Tensor:
    r"""Robust normalised cross-correlation, eq. (robust_ncc_first1).

    ``Gamma = <phi(z - mu_z), w - mu_w> / (||phi(z - mu_z)|| ||w - mu_w||)``. A cosine, so within ``[-1, 1]``; with
    the even Welsch function it is not a correlation, because ``phi(z - mu_z)`` is not centred again.

    The epsilon is scaled by ``phi(min(1, c / 2))^2``: phi of a unit patch can be far smaller than the patch (with
    c = 10 the printed Welsch turns 1 into 0.05), and an absolute epsilon would then drown it. As c grows, the
    influence forms give back `ncc`, epsilon included.

    Args:
        patches: ``(..., alpha)``.
        weight: ``(C_out, alpha)``.
        c: Scale of the robust function, a positive number or a tensor that broadcasts to ``(..., 1)``.
        robust: Name of a robust function.
        eps: Floor on the patch's variance.

    Returns:
        ``(..., C_out)``.

    Example:
        >>> z, w = torch.randn(6, 9, dtype=torch.float64), torch.randn(2, 9, dtype=torch.float64)
        >>> torch.allclose(robust_ncc(z, w, c=1e6, robust="welsch_influence"), ncc(z, w))
        True
    """
    centred = patches - patches.mean(-1, keepdim=True)
    kept = robust_function(robust)(centred, c)
    return linear_unit(kept, normalise_weight(weight)) / _norm(kept, robust_floor(c, robust, eps))


def robust_floor(c: Tensor | float, robust: str, eps: float) -> Tensor:
    """The epsilon of `robust_ncc`: ``eps * phi(min(1, c / 2))^2``, same shape as ``c``."""
    c = torch.as_tensor(c)
    return eps * robust_function(robust)((c / 2).clamp_max(1), c).square()


def patch_norm(patches: Tensor, eps: float = EPS) -> Tensor:
    r"""Norm of the centred patch, ``||z - mu_z||``: what NCC divides by and the attention mask looks at.

    Args:
        patches: ``(..., alpha)``.
        eps: Floor on the patch's variance.

    Returns:
        ``(..., 1)``.

    Example:
        >>> patch_norm(torch.tensor([1.0, -1.0, 1.0, -1.0]), eps=0.0)
        tensor([2.])
    """
    return _norm(patches - patches.mean(-1, keepdim=True), eps)


def robust_patch_norm(patches: Tensor, c: Tensor | float, robust: str = "welsch", eps: float = EPS) -> Tensor:
    r"""Norm of the centred patch after phi, ``||phi(z - mu_z)||``: the same for R-XCNorm.

    Args:
        patches: ``(..., alpha)``.
        c: As in `robust_ncc`.
        robust: Name of a robust function.
        eps: Floor on the patch's variance, scaled as in `robust_ncc`.

    Returns:
        ``(..., 1)``.

    Example:
        >>> robust_patch_norm(torch.tensor([3.0, -3.0, 3.0, -3.0]), c=1.0, robust="huber", eps=0.0)
        tensor([2.])
    """
    kept = robust_function(robust)(patches - patches.mean(-1, keepdim=True), c)
    return _norm(kept, robust_floor(c, robust, eps))


def _norm(values: Tensor, floor: Tensor | float) -> Tensor:
    return (values.square().sum(-1, keepdim=True) + values.shape[-1] * floor).sqrt()


def standardise_channels(patches: Tensor, channels: int, eps: float = EPS) -> Tensor:
    r"""Standardise each input channel of a patch on its own: the ``channelwise`` option of a first layer.

    Not in the paper. NCC forgives a gain and an offset *shared* by all channels of a patch; a colour cast is a
    different one per channel. After this step the similarity forgives those too.

    Args:
        patches: ``(..., alpha)`` with ``alpha = channels * positions``, channel-major like a flattened filter.
        channels: Number of input channels in the patch.
        eps: Floor on each channel's variance.

    Returns:
        Same shape.

    Example:
        >>> standardise_channels(torch.tensor([1.0, 3.0, 10.0, 50.0]), channels=2, eps=0.0)
        tensor([-1.,  1., -1.,  1.])
    """
    split = patches.unflatten(-1, (channels, -1))
    centred = split - split.mean(-1, keepdim=True)
    return (centred / patch_deviation(split, eps)).flatten(-2)


def ncc_weight_gradient(z: Tensor, w: Tensor) -> Tensor:
    r"""Gradient of NCC with respect to the centred filter, eq. (grad-discuss), corrected.

    The print divides by ``||w_hat||``, which is one by definition; the derivative of a cosine divides by the norm
    of the *unnormalised* filter: ``dGamma / dw~ = (z_hat - (w_hat . z_hat) w_hat) / ||w~||``. That is the point
    of the discussion: the gradient shrinks as the filter grows. Since the result is already free of a constant
    part when ``z`` is centred, it is also the gradient with respect to the raw filter ``w``.

    Args:
        z: One patch, ``(alpha,)``; centred here.
        w: One filter, ``(alpha,)``; centred here.

    Returns:
        ``(alpha,)``.

    Example:
        >>> z, w = torch.tensor([1.0, -2.0, 4.0, 0.0]), torch.tensor([3.0, 1.0, 0.0, 2.0], requires_grad=True)
        >>> ncc(z, w[None], eps=0.0).backward()
        >>> torch.allclose(w.grad, ncc_weight_gradient(z, w.detach()), atol=1e-6)
        True
    """
    z, w = z - z.mean(), w - w.mean()
    z_hat, w_hat = z / z.norm(), w / w.norm()
    return (z_hat - (w_hat @ z_hat) * w_hat) / w.norm()
