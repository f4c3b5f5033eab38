r"""The squared exponential kernel as matrices: formed here, or later where it is consumed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepwishart.numerics.linalg import flatten, flatten_all
from deepwishart.numerics.operation import (
    compiled,
    first_order,
    operation,
    or_zero,
    shapes,
    shapes_like,
)

__all__ = ["Cross", "GaussianKernel", "formed", "gaussian_square"]

_CACHED_ROWS = 1024


@dataclass(frozen=True)
class GaussianKernel:
    r"""The block :math:`K_{ij} = h\, e^{-|x_i - y_j|^2/2\ell^2}`, not yet formed.

    Operations on rows form it in cache, together with the products that consume it.

    Args:
        left: :math:`x`, ``(..., P, D)``.
        right: :math:`y`, ``(..., N, D)``.
        log_height: :math:`\log h`, a scalar.
        log_lengthscale: :math:`\log \ell`, a scalar.

    >>> zero = torch.tensor(0.0)
    >>> GaussianKernel(torch.zeros(1, 2), torch.zeros(3, 2), zero, zero).form()
    tensor([[1., 1., 1.]])
    """

    left: Tensor
    right: Tensor
    log_height: Tensor
    log_lengthscale: Tensor

    def diagonal(self) -> Tensor:
        r"""What :math:`y_j` has with itself, :math:`h`; ``(..., N)``."""
        return self.log_height.exp().expand(self.right.shape[:-1])

    def form(self) -> Tensor:
        r"""The block, ``(..., P, N)``, from one product: with scaled features :math:`a, b`,

        .. math:: [a, \log h - |a|^2/2, 1] \cdot [b, 1, -|b|^2/2] = \log h - |a - b|^2/2,

        so that a product, a clamp and an exponential in place are all the work of that size.
        Features are centred first, on a constant: distances do not change, and the rounding
        that cancellation leaves is kept small.
        """
        centre = self.left.detach().mean(-2, keepdim=True)
        factor = (-self.log_lengthscale).exp()
        a, b = (self.left - centre) * factor, (self.right - centre) * factor
        row = (self.log_height - 0.5 * a.square().sum(-1)).unsqueeze(-1)
        column = -0.5 * b.square().sum(-1).unsqueeze(-1)
        a = torch.cat([a, row, torch.ones_like(row)], dim=-1)
        b = torch.cat([b, torch.ones_like(column), column], dim=-1)
        # With equal batch shapes matmul is one bmm whose result is no view, so that the
        # in-place exponential costs autograd no copy.
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
        exponent = torch.matmul(a, b.mT)
        # Only rounding can exceed the largest exponent: by little as a rule, by a lot in single
        # precision where features are far larger than their distances. Autograd need not know
        # that it is removed: the slopes are right as they are, and masks would double the cost.
        exponent.detach().clamp_(max=self.log_height.detach())
        return exponent.exp_()


#: The kernel matrix of inducing points and rows, possibly not yet formed.
Cross = Tensor | GaussianKernel


def formed(cross: Cross) -> Tensor:
    """The matrix itself."""
    return cross.form() if isinstance(cross, GaussianKernel) else cross


def parts_of(cross: Cross) -> tuple[Tensor | None, ...]:
    """The matrix, or what it is to be formed from: the five arguments by which operations take
    either."""
    if isinstance(cross, GaussianKernel):
        return None, cross.left, cross.right, cross.log_height, cross.log_lengthscale
    return cross, None, None, None, None


def formed_from(
    cross: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    log_height: Tensor | None,
    log_lengthscale: Tensor | None,
) -> Tensor:
    """The matrix that :func:`parts_of` took apart."""
    if cross is not None:
        return cross
    assert left is not None and right is not None
    assert log_height is not None and log_lengthscale is not None
    return GaussianKernel(left, right, log_height, log_lengthscale).form()


def row_pieces(tensor: Tensor, dim: int) -> Sequence[Tensor]:
    """Many rows in pieces whose blocks stay in cache: cost then grows linearly with rows."""
    if tensor.shape[dim] <= _CACHED_ROWS:
        return [tensor]
    pieces: tuple[Tensor, ...] = tensor.split(_CACHED_ROWS, dim=dim)
    return pieces


def row_blocks(parts: Sequence[Tensor | None], *others: Tensor) -> Iterator[tuple[Any, ...]]:
    """For pieces of rows, the arguments of a compiled loop: ``others`` and :func:`parts_of` the
    kernel matrix, all with one batch dimension."""
    cross, left, right, *scales = parts
    if cross is not None:
        for piece in row_pieces(cross, dim=-1):
            yield *flatten_all(*others, piece), None, None, *scales
    else:
        assert left is not None and right is not None
        for piece in row_pieces(right, dim=-2):
            *given, own, rows = flatten_all(*others, left, piece)
            yield *given, None, own, rows, *scales


def kept_cross(inputs: tuple[Any, ...], kept: Sequence[Tensor]) -> tuple[Any, ...]:
    """What the gradient needs of the last five inputs: the matrix, and where a loop formed it, the
    scaled features and the lengthscale."""
    return (inputs[-5], None, None, None) if inputs[-4] is None else (*kept, inputs[-1])


def cross_gradients(found: Sequence[Tensor], formed: bool) -> tuple[Tensor | None, ...]:
    """The gradients of those five, from a loop's: the matrix's is empty, or all others are."""
    matrix, *features = found
    return (None, *features) if formed else (matrix, None, None, None, None)


def gaussian_square(
    features: Tensor, log_height: Tensor, log_lengthscale: Tensor, *, jitter: float = 0.0
) -> Tensor:
    r""":math:`K_{ij} = h\, e^{-|x_i - x_j|^2/2\ell^2}`, exactly symmetric, with exactly
    :math:`h\,(1 + \text{jitter})` on the diagonal.

    Args:
        features: :math:`x`, ``(..., P, D)``.
        log_height: :math:`\log h`, a scalar.
        log_lengthscale: :math:`\log \ell`, a scalar.
        jitter: relative diagonal jitter.

    >>> gaussian_square(torch.zeros(2, 3), torch.tensor(0.0), torch.tensor(0.0))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return square(features, log_height, log_lengthscale, jitter)


def plain_gaussian_square(
    features: Tensor, log_height: Tensor, log_lengthscale: Tensor, jitter: float
) -> Tensor:
    """The definition of :func:`gaussian_square`."""
    half = GaussianKernel(features, features, log_height - math.log(2.0), log_lengthscale).form()
    matrix = half + half.mT
    matrix.detach().diagonal(dim1=-2, dim2=-1).copy_(log_height.detach().exp())
    own = (jitter * log_height.exp()).expand(matrix.shape[:-1])
    return matrix + torch.diag_embed(own)


square = operation(plain_gaussian_square)


@compiled(plain_gaussian_square)
def _(features: Tensor, log_height: Tensor, log_lengthscale: Tensor, jitter: float) -> Tensor:
    kernel, _ = GaussianSquare.apply(flatten(features), log_height, log_lengthscale, jitter)
    return kernel.reshape(*features.shape[:-1], features.shape[-2])


class GaussianSquare(torch.autograd.Function):
    r"""With :math:`a = x/\ell` and :math:`\bar E = (\bar K + \bar K^\top) \odot K` the gradient of
    the exponent, whose diagonal no feature changes,

    .. math:: \bar a_i = \sum_j \bar E_{ij} (a_j - a_i), \quad
              \overline{\log h} = \tfrac12 \sum_{ij} \bar E_{ij}, \quad
              \overline{\log \ell} = -\sum_i a_i^\top \bar a_i,

    the last because the exponent is homogeneous of degree two in the features.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        return torch.ops.deepwishart.gaussian_square_forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        kernel, scaled = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(scaled)
        ctx.save_for_backward(scaled, kernel, inputs[2])

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        scaled, kernel, log_lengthscale = ctx.saved_tensors
        to_inputs = torch.ops.deepwishart.gaussian_square_backward(
            scaled, kernel, log_lengthscale, or_zero(gradients[0], kernel)
        )
        return *to_inputs, None


@shapes("gaussian_square_forward")
def _(features: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    batch, size, _ = features.shape
    return features.new_empty(batch, size, size), torch.empty_like(features)


shapes_like("gaussian_square_backward", 0, 2, 2)


def cross_shapes(cross: Tensor | None, left: Any, right: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What loops return of a matrix that they formed, or three times nothing."""
    if cross is not None:
        return cross.new_empty(0), cross.new_empty(0), cross.new_empty(0)
    matrix = left.new_empty(*left.shape[:2], right.shape[1])
    return matrix, torch.empty_like(left), torch.empty_like(right)


def cross_gradient_shapes(cross: Tensor, a: Any, b: Any) -> tuple[Tensor, ...]:
    """The counterpart of :func:`cross_gradients`."""
    features = (cross.new_empty(0), cross.new_empty(0))
    features = features if a is None else (torch.empty_like(a), torch.empty_like(b))
    matrix = torch.empty_like(cross) if a is None else cross.new_empty(0)
    return matrix, *features, cross.new_empty(()), cross.new_empty(())
