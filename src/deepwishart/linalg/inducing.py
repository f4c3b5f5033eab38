r"""A layer at its inducing points: drawing the root of a Gram matrix, and pseudo-observations."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from deepwishart import _fused, _native
from deepwishart.linalg import factors
from deepwishart.linalg.factors import cholesky, flatten, log_det
from deepwishart.linalg.rows import ClosedForm

__all__ = ["Observations", "RootDraw", "draw_root", "observe"]


class RootDraw(NamedTuple):
    r"""What :func:`draw_root` returns.

    Attributes:
        inverse: :math:`L^{-1}`, ``(..., P, P)``.
        root: :math:`F = R A`, ``(S, P, m)``.
        weights: :math:`w = L^{-1} F`, ``(S, P, m)``.
        log_density: :math:`\nu \log(|R| / |\sqrt s L|) - |w|^2 / 2s`, ``(S,)``.
        closed: for :func:`draw_rows`; ``None`` where it has no use.
    """

    inverse: Tensor
    root: Tensor
    weights: Tensor
    log_density: Tensor
    closed: ClosedForm | None


class Observations(NamedTuple):
    r"""What :func:`observe` returns.

    Attributes:
        inverse: :math:`L_B^{-1}`, ``(..., P, P)``.
        projection: :math:`L_B^{-1} M^\top`, ``(..., P, P)``.
        whitened: :math:`w = L_B^{-1} M^\top v`, ``(..., P, D)``.
        log_det: :math:`\log|B|`, ``(...)``.
        trace: :math:`\operatorname{tr} B^{-1}`, ``(...)``.
        solved: :math:`|L_B^{-\top} w|^2`, ``(...)``.
    """

    inverse: Tensor
    projection: Tensor
    whitened: Tensor
    log_det: Tensor
    trace: Tensor
    solved: Tensor


def draw_root(
    kernel: Tensor,
    scale_root: Tensor,
    mixing: Tensor,
    factor: Tensor,
    *,
    scale: float,
    degrees: float,
    what: str = "matrix",
    plain: bool = False,
) -> RootDraw:
    r"""The root :math:`F = R A` of a Gram matrix drawn with a mixed scale, and what is needed to
    score it and to condition on it:

    .. math:: K = L L^\top, \qquad R R^\top = (1-q)\, s K + q\, V V^\top, \qquad w = L^{-1} F.

    A kernel without sample dimension (the first layer) is factorised once, with the factors
    folded into columns. Failing factorisations are handled as in :func:`cholesky`.

    Args:
        kernel: :math:`K`, ``(P, P)`` or ``(S, P, P)``.
        scale_root: :math:`V`, ``(P, P)``.
        mixing: :math:`q \in (0, 1)`, a scalar.
        factor: :math:`A`, ``(S, P, m)``.
        scale: :math:`s`.
        degrees: :math:`\nu`, for the log density.
        what: what error messages call the layer.
        plain: use ordinary autograd instead of the fused gradient.

    >>> K, A = 4.0 * torch.eye(1), torch.ones(1, 1, 1)
    >>> draw = draw_root(K, torch.eye(1), torch.tensor(0.0), A, scale=1.0, degrees=1.0)
    >>> draw.root.item(), draw.weights.item(), draw.log_density.item()
    (2.0, 1.0, -0.5)
    """
    if not plain and _native.operations(kernel, factor) is not None:
        shared = kernel.ndim == 2
        samples, size, rank = factor.shape
        columns = factor.transpose(0, 1).reshape(1, size, -1) if shared else factor
        groups = samples if shared else 1
        inverse, root, weights, density, form, solved, failures = _fused.DrawRoot.apply(
            flatten(kernel), scale_root, mixing, columns, scale, degrees, groups
        )
        if not failures:
            if shared:
                root, weights = (
                    part.reshape(size, samples, rank).transpose(0, 1) for part in (root, weights)
                )
            closed = None if shared else ClosedForm(kernel, root, form, solved)
            return RootDraw(inverse.reshape(kernel.shape), root, weights, density.flatten(), closed)
    prior = factors.factor(kernel, what=f"the kernel matrix of {what}", plain=plain)
    mixed = (1 - mixing) * scale * kernel + mixing * (scale_root @ scale_root.mT)
    lower = cholesky(mixed, what=f"the posterior scale of {what}", plain=plain)
    root = lower @ factor
    weights = prior.inverse @ root
    log_volume = 0.5 * (log_det(lower) - log_det(math.sqrt(scale) * prior.lower))
    density = degrees * log_volume - (0.5 / scale) * weights.square().sum((-2, -1))
    return RootDraw(prior.inverse, root, weights, density, None)


def observe(
    kernel: Tensor,
    root: Tensor,
    targets: Tensor,
    *,
    scale: float = 1.0,
    what: str = "matrix",
    plain: bool = False,
) -> Observations:
    r"""Condition :math:`\mathcal N(0, s K)` on observing :math:`M^\top v` with unit noise:
    :math:`B = I + s M^\top K M = L_B L_B^\top`. Since :math:`B \ge I`, no jitter is needed.

    Args:
        kernel: :math:`K`, ``(..., P, P)``.
        root: :math:`M`, ``(P, P)``.
        targets: :math:`v`, ``(P, D)``.
        scale: :math:`s`.
        what: how error messages call :math:`B`.
        plain: use ordinary autograd instead of the fused gradient.

    >>> one = torch.ones(1, 1)
    >>> observed = observe(3.0 * one, one, 4.0 * one)  # B = 4
    >>> observed.whitened.item(), observed.trace.item(), observed.solved.item()
    (2.0, 0.25, 1.0)
    """
    if not plain and _native.operations(kernel) is not None:
        inverse, projection, whitened, numbers, failures = _fused.Observe.apply(
            flatten(kernel), root, targets, scale
        )
        if not failures:
            shape = kernel.shape[:-2]
            numbers = numbers.reshape(*shape, 3)
            return Observations(
                inverse.reshape(kernel.shape),
                projection.reshape(kernel.shape),
                whitened.reshape(*kernel.shape[:-1], -1),
                *numbers.unbind(-1),
            )
    inner = scale * (root.mT @ kernel @ root)
    identity = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    parts = factors.factor(inner + identity, what=what, plain=plain)
    projection = parts.inverse @ root.mT
    whitened = projection @ targets
    return Observations(
        parts.inverse,
        projection,
        whitened,
        log_det(parts.lower),
        parts.inverse.square().sum((-2, -1)),
        (parts.inverse.mT @ whitened).square().sum((-2, -1)),
    )
