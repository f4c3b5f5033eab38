r"""Pseudo-observations of a Gaussian."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart.numerics import linalg
from deepwishart.numerics.operation import compiled, operation

__all__ = ["Observations", "observe"]


class Observations(NamedTuple):
    r"""What :func:`observe` returns.

    Attributes:
        inverse: :math:`L_B^{-1}`, ``(..., P, P)``.
        projection: :math:`L_B^{-1} M^\top`, ``(..., P, P)``.
        log_det: :math:`\log|B|`, ``(...)``.
        whitened: :math:`w = L_B^{-1} M^\top v`, ``(..., P, D)``.
    """

    inverse: Tensor
    projection: Tensor
    log_det: Tensor
    whitened: Tensor


def observe(kernel: Tensor, root: Tensor, targets: Tensor, *, what: str) -> Observations:
    r"""Condition :math:`\mathcal N(0, K)` on observing :math:`M^\top v` with unit noise:
    :math:`B = I + M^\top K M = L_B L_B^\top`. Since :math:`B \ge I`, :math:`K` needs no jitter as
    long as its entries are of a reasonable size.

    Args:
        kernel: :math:`K`, ``(..., P, P)``.
        root: :math:`M`, ``(P, P)``.
        targets: :math:`v`, ``(P, D)``.
        what: how error messages call :math:`B`.

    >>> one = torch.ones(1, 1)
    >>> observed = observe(3.0 * one, one, 4.0 * one, what="B")  # B = 4
    >>> observed.whitened.item(), observed.inverse.item()
    (2.0, 0.5)
    """

    inverse, projection, log_det = linalg.with_jitter(
        lambda matrix: pseudo_observations(matrix, root), kernel, what=what
    )
    return Observations(inverse, projection, log_det, projection @ targets)


def plain_pseudo_observations(
    kernel: Tensor, root: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""The first three of :class:`Observations`, and 0 or the pivot of :math:`B` that failed."""
    identity = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    lower, inverse, failed = linalg.plain_cholesky_inverse(root.mT @ kernel @ root + identity)
    return inverse, inverse @ root.mT, linalg.log_det(lower), failed


pseudo_observations = operation(plain_pseudo_observations)


@compiled(plain_pseudo_observations)
def _(kernel: Tensor, root: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = Observe.apply(linalg.flatten(kernel), root)
    inverse, projection, log_det, failed = linalg.unflatten(found, kernel)
    return inverse, projection, log_det, failed


class Observe(torch.autograd.Function):
    r""":math:`(K, M) \mapsto (H, Y, \log|B|)` with :math:`B = I + M^\top K M = L L^\top`,
    :math:`H = L^{-1}` and :math:`Y = H M^\top`. Since :math:`K` and :math:`\bar B` are symmetric,

    .. math:: \bar K = M \bar B M^\top, \qquad \bar M = \bar Y^\top H + 2 K M \bar B

    with :math:`\bar B` that of :class:`~deepwishart.numerics.linalg.CholeskyInverse` for
    :math:`\bar H + \bar Y M - 2 \overline{\log|B|}\, \operatorname{diag}(1 / H_{jj})`, since
    :math:`\log|B| = -2 \sum_j \log H_{jj}`. Products with :math:`M` are one for all samples.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, root: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        product = (kernel @ root).mT.contiguous()  # M^T K
        inner = product @ root
        inner.diagonal(dim1=-2, dim2=-1).add_(1.0)
        lower, inverse, failed = torch.ops.deepwishart.cholesky_inverse_forward(inner)
        ctx.mark_non_differentiable(failed)
        ctx.save_for_backward(root, product, lower, inverse)
        return inverse, inverse @ root.mT, linalg.log_det(lower), failed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        root, product, lower, inverse = ctx.saved_tensors
        projection = gradients[1].contiguous()
        to_inverse = projection @ root + gradients[0]
        diagonal = inverse.diagonal(dim1=-2, dim2=-1)
        to_inverse.diagonal(dim1=-2, dim2=-1).sub_(2.0 * gradients[2].unsqueeze(-1) / diagonal)
        to_inner = torch.ops.deepwishart.cholesky_inverse_backward(lower, inverse, None, to_inverse)
        by_samples = [t.flatten(0, 1) for t in (projection, inverse, product, to_inner)]
        to_root = by_samples[0].mT @ by_samples[1] + 2.0 * (by_samples[2].mT @ by_samples[3])
        half = (to_inner @ root.mT).mT.contiguous()
        return half @ root.mT, to_root
