r"""The squared exponential kernel, the one that the paper's experiments use."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deepwishart.kernels.elementary import squared_norm
from deepwishart.kernels.stationary import Stationary, centre_of


class SquaredExponential(Stationary):
    r"""The kernel :math:`k(x, y) = h \exp(-R/2)`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance.

    Args:
        height: initial :math:`h`.
        lengthscale: initial :math:`\ell`.
        num_features: None for a single lengthscale, D for one per feature (ARD).
        dtype: of the parameters.
        device: of the parameters.

    Example:
        >>> kernel = SquaredExponential(height=2.0)
        >>> kernel.cross(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]])).tolist()[0]
        [2.0, 0.27067...]
    """

    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`\exp(-R/2)`."""
        return (-0.5 * squared_distance).exp()

    def cross(self, first: Tensor, second: Tensor) -> Tensor:
        r"""The matrix :math:`k(x_i, y_j)`, (..., P, D) and (..., N, D) to (..., P, N).

        With :math:`a = x/\ell` and :math:`b = y/\ell`, the whole exponent is one product,

        .. math:: [a, \log h - |a|^2/2, 1] \cdot [b, 1, -|b|^2/2] = \log h - |a - b|^2/2,

        so that a matrix product and an exponential in place are the only work of size
        :math:`P \times N`, but for a clamp: this is where a deep model spends its time.
        """
        centre = centre_of(first)
        left, right = self._scaled(first - centre), self._scaled(second - centre)
        offset = self.log_height - 0.5 * squared_norm(left)
        exponent = _outer_exponent(left, offset, right, -0.5 * squared_norm(right))
        return _bounded(exponent, self.log_height).exp_()

    def square(self, features: Tensor) -> Tensor:
        r"""The matrix :math:`k(f_i, f_j)`, (..., P, D) to (..., P, P), as in :meth:`cross`.

        This matrix is factorised, so it is made exactly symmetric, no entry exceeds the height, and
        the diagonal is the height.
        """
        scaled = self._scaled(features - centre_of(features))
        offset = -0.5 * squared_norm(scaled)
        row = offset + (self.log_height - math.log(2.0))
        exponent = _outer_exponent(scaled, row, scaled, offset)
        half = _bounded(exponent, self.log_height - math.log(2.0)).exp_()
        matrix = half + half.mT
        matrix.detach().diagonal(dim1=-2, dim2=-1).copy_(self.height.detach())
        return matrix


def _bounded(exponent: Tensor, largest: Tensor) -> Tensor:
    """``exponent``, at most ``largest``, in place.

    Only rounding can exceed the largest exponent: by little as a rule, by a lot in single precision
    where features are far larger than their distances. Autograd need not know that it is removed:
    the slopes are right as they are, and masks would double the cost.
    """
    exponent.detach().clamp_(max=largest.detach())
    return exponent


def _outer_exponent(left: Tensor, row: Tensor, right: Tensor, column: Tensor) -> Tensor:
    r"""The matrix :math:`a_i^T b_j + r_i + c_j` from one matrix product over augmented columns."""
    row, column = row.unsqueeze(-1), column.unsqueeze(-1)
    left = torch.cat([left, row, torch.ones_like(row)], dim=-1)
    right = torch.cat([right, torch.ones_like(column), column], dim=-1)
    # With equal batch shapes matmul is one bmm whose result is no view, so that the caller's
    # in-place exponential costs autograd no copy.
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = left.expand(*batch, *left.shape[-2:])
    right = right.expand(*batch, *right.shape[-2:])
    return torch.matmul(left, right.mT)
