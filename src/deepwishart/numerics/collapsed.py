r"""What rows say about a Gaussian process with Gaussian noise: their log density, or with inducing
points the sums that it is conditioned on."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import Cross, GaussianKernel
from deepwishart.numerics.operation import compiled, contiguous, operation, or_zero

__all__ = ["explained", "log_density", "row_sums"]


def row_sums(
    kernel: Tensor, inverse: Tensor, cross: Cross, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r""":math:`A A^\top`, ``(..., P, P)``, :math:`A y`, ``(..., P, D)``, and :math:`|a_t|^2` of each
    column, ``(..., N)``, with :math:`A = L^{-1} K_{it}` and :math:`K_{ii} = L L^\top`; the gradient
    goes past the factor to :math:`K_{ii}`.

    Args:
        kernel: :math:`K_{ii}` with jitter, ``(..., P, P)``.
        inverse: :math:`H = L^{-1}` of it, taken as a known function of it; no gradient.
        cross: :math:`K_{it}`, ``(..., P, N)``, possibly not yet formed.
        targets: :math:`y`, ``(N, D)``.

    >>> one = torch.ones(1, 1)
    >>> row_sums(4 * one, 0.5 * one, torch.tensor([[2.0, 4.0]]), torch.ones(2, 1))
    (tensor([[5.]]), tensor([[3.]]), tensor([1., 4.]))
    """
    if isinstance(cross, GaussianKernel):
        return gaussian_sums(kernel, inverse.detach(), targets, *cross.parts)
    lower = linalg.cholesky(kernel, what="the kernel matrix of the output layer")
    projected = linalg.solve_lower(lower, cross)
    return projected @ projected.mT, projected @ targets, projected.square().sum(-2)


def plain_gaussian_sums(
    kernel: Tensor,
    inverse: Tensor,
    targets: Tensor,
    left: Tensor,
    right: Tensor,
    log_height: Tensor,
    log_lengthscale: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The definition of :func:`row_sums` with a kernel matrix that is not yet formed."""
    cross = GaussianKernel(left, right, log_height, log_lengthscale).form()
    return row_sums(kernel, inverse, cross, targets)


gaussian_sums = operation(plain_gaussian_sums)


@compiled(plain_gaussian_sums)
def _(
    kernel: Tensor, inverse: Tensor, targets: Tensor, left: Tensor, right: Tensor, *scales: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    K, H, x, y = linalg.flatten_all(kernel, inverse, left, right)
    found = GaussianSums.apply(K, H, targets.contiguous(), x, y, *scales)
    gram, products, squares = linalg.unflatten(found, kernel, left, right)
    return gram, products, squares


class GaussianSums(torch.autograd.Function):
    r""":math:`(K_{ii}, K_{it}) \mapsto (T, c, s) = (A A^\top, A y, (|a_t|^2)_t)`,
    :math:`A = H K_{it}`.

    With :math:`S = \bar T + \bar T^\top`, :math:`\bar A = S A + \bar c y^\top + 2 A
    \operatorname{diag}(\bar s)` and :math:`\bar K_{it} = H^\top \bar A`. As functions of
    :math:`K_{ii}`, :math:`A = H K_{it}` and :math:`dH = -\Phi_{1/2}(X) H`
    (:class:`~deepwishart.numerics.linalg.CholeskyInverse`), so that

    .. math:: M = -\bar A A^\top = -\big(S T + \bar c c^\top
              + 2 A \operatorname{diag}(\bar s) A^\top\big), \qquad
              \bar K_{ii} = H^\top \tfrac12 (\Phi_{1/2}(M) + \Phi_{1/2}(M)^\top) H .

    Without :math:`\bar s` there is one product of size :math:`P^2 N`, :math:`H^\top S` being formed
    first, and those of :math:`K_{ii}` have size :math:`P^3` only; :math:`\bar s` adds another, in
    two halves: a symmetric and a triangular one. Forward, :math:`A` uses that :math:`H` is
    triangular and :math:`T` that it is symmetric: together about one :math:`P^2 N` product. The
    features of :math:`K_{it}` and its scales receive :math:`\bar K_{it}` as in
    :class:`~deepwishart.numerics.gaussian.GaussianSquare`.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inverse, targets, _, _, *scales = inputs
        gram, products, squares, *rest = torch.ops.deepwishart.row_sums_forward(*inputs)
        projected, cross, a, b = rest
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inverse, targets, a, b, *scales, cross, projected, gram, products)
        return gram, products, squares

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        gram, products = saved[-2:]
        slopes = or_zero(gradients[0], gram), or_zero(gradients[1], products)
        kernel, *rest = torch.ops.deepwishart.row_sums_backward(
            *saved, *slopes, contiguous(gradients[2])
        )
        return kernel, None, None, *rest


def explained(gram: Tensor, products: Tensor, noise: Tensor, *, what: str) -> Tensor:
    r"""How much the rows say about the outputs: with :math:`B = I + T/\sigma^2` and
    :math:`z = c/\sigma^2`,

    .. math:: -\tfrac12 \log|B| + \tfrac12 z^\top B^{-1} z.

    Args:
        gram: :math:`T = A A^\top`, ``(..., P, P)``.
        products: :math:`c = A y`, ``(..., P, D)``.
        noise: :math:`\sigma^2` of each column, ``(D,)``.
        what: how error messages call :math:`B`.

    Returns:
        ``(..., D)``.

    >>> one = torch.ones(1, 1)
    >>> explained(3.0 * one, 4.0 * one, torch.ones(1), what="B")  # log 4 and 16 / 4, halved
    tensor([1.3069])
    """
    return log_evidence(gram, products, noise, what)


def plain_log_evidence(gram: Tensor, products: Tensor, noise: Tensor, what: str) -> Tensor:
    """The definition of :func:`explained`."""
    return _log_evidence(gram, products, noise, what)[0]


def _log_evidence(
    gram: Tensor, products: Tensor, noise: Tensor, what: str
) -> tuple[Tensor, Tensor, Tensor]:
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    inner = gram.unsqueeze(-3) / noise[:, None, None] + eye
    lower, inverse = linalg.factor(inner, what=what)
    whitened = inverse @ (products / noise).mT.unsqueeze(-1)
    value = 0.5 * (whitened.square().sum((-2, -1)) - linalg.log_det(lower))
    return value, inverse, whitened


log_evidence = operation(plain_log_evidence)


@compiled(plain_log_evidence)
def _(gram: Tensor, products: Tensor, noise: Tensor, what: str) -> Tensor:
    return LogEvidence.apply(gram, products, noise, what)


class LogEvidence(torch.autograd.Function):
    r"""With :math:`a = B^{-1} z`, the slope is :math:`-\tfrac12 (B^{-1} + a a^\top)` in :math:`B`
    and :math:`a` in :math:`z`. One product of size :math:`P^3`."""

    @staticmethod
    def forward(ctx: Any, gram: Tensor, products: Tensor, noise: Tensor, what: str) -> Tensor:
        value, inverse, whitened = _log_evidence(gram, products, noise, what)
        ctx.save_for_backward(gram, products, noise, inverse, inverse.mT @ whitened)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gram, products, noise, inverse, a = ctx.saved_tensors  # a: (..., D, P, 1)
        to_inner = inverse.mT @ inverse
        to_inner = (to_inner + a @ a.mT) * (-0.5 * gradient / noise)[..., None, None]
        to_z = (gradient[..., None] / noise[:, None] * a.squeeze(-1)).mT
        along = (to_inner * gram.unsqueeze(-3)).sum((-2, -1)) + (to_z * products).sum(-2)
        to_noise = -(along / noise).reshape(-1, len(noise)).sum(0)
        return to_inner.sum(-3), to_z, to_noise, None


def log_density(covariance: Tensor, values: Tensor, *, what: str) -> Tensor:
    r""":math:`\log \mathcal N(y; 0, V)` of ``values`` ``(P, 1)`` with ``covariance`` ``(P, P)``,
    which error messages call ``what``.

    >>> log_density(torch.eye(2), torch.ones(2, 1), what="V")  # -log(2 pi) - 1
    tensor(-2.8379)
    """
    return gaussian_log_density(covariance, values, what)


def plain_gaussian_log_density(covariance: Tensor, values: Tensor, what: str) -> Tensor:
    """The definition of :func:`log_density`."""
    return _log_density(covariance, values, what)[0]


def _log_density(covariance: Tensor, values: Tensor, what: str) -> tuple[Tensor, Tensor, Tensor]:
    lower, inverse = linalg.factor(covariance, what=what)
    whitened = inverse @ values
    squares = whitened.square().sum() + linalg.log_det(lower)
    return -0.5 * (squares + len(values) * math.log(2.0 * math.pi)), inverse, whitened


gaussian_log_density = operation(plain_gaussian_log_density)


@compiled(plain_gaussian_log_density)
def _(covariance: Tensor, values: Tensor, what: str) -> Tensor:
    return LogDensity.apply(covariance, values, what)


class LogDensity(torch.autograd.Function):
    r"""With :math:`\alpha = V^{-1} y`, the slope is
    :math:`\tfrac12 (\alpha \alpha^\top - V^{-1})` in :math:`V` and :math:`-\alpha` in :math:`y`.
    One product of size :math:`P^3`."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, values: Tensor, what: str) -> Tensor:
        value, inverse, whitened = _log_density(covariance, values, what)
        ctx.save_for_backward(inverse, whitened)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inverse, whitened = ctx.saved_tensors
        a = inverse.mT @ whitened
        slope = torch.addmm(a @ a.mT, inverse.mT, inverse, alpha=-1.0)
        return 0.5 * gradient * slope, -gradient * a, None
