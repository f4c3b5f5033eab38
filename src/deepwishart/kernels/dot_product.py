r"""Kernels of inner products with a bias: what they share, and the simplest, the linear kernel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepwishart._support.arguments import whole_number
from deepwishart._support.parameters import log_parameter
from deepwishart.kernels.base import Kernel


class DotProduct(Kernel):
    r"""A kernel of the biased inner products :math:`g_{xy} + b`, times a height :math:`h`.

    Adding :math:`b` to every inner product is appending the constant feature :math:`\sqrt b` to
    every point: the hidden unit :math:`w^T x` becomes :math:`w^T x + c` with
    :math:`c \sim N(0, b)`. It lets functions differ from 0 at the origin, and keeps zero vectors
    away from the point where a direction is undefined. Hence the default of 1, the variance that
    a weight has.

    Args:
        height: initial :math:`h`.
        bias: initial :math:`b`; 0 for none, and then none is learned.
        dtype: of the parameters.

    >>> from deepwishart.kernels import Linear
    >>> Linear(bias=0.0).bias
    tensor(0.)
    """

    log_bias: nn.Parameter | None

    def __init__(
        self, height: float = 1.0, bias: float = 1.0, *, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.log_height = log_parameter("height", height, dtype=dtype)
        self.log_bias = None if bias == 0 else log_parameter("bias", bias, dtype=dtype)

    @property
    def height(self) -> Tensor:
        """The factor in front of the kernel, a scalar."""
        return self.log_height.exp()

    @property
    def bias(self) -> Tensor:
        """The variance added to every inner product, a scalar; 0 if there is none."""
        return torch.zeros_like(self.log_height) if self.log_bias is None else self.log_bias.exp()

    def biased(self, inner: Tensor) -> Tensor:
        r"""The inner products :math:`g + b`, same shape."""
        return inner if self.log_bias is None else inner + self.log_bias.exp()


class Linear(DotProduct):
    r"""The kernel :math:`k(x, y) = h (b + \sum_\lambda x_\lambda y_\lambda / \ell_\lambda^2)`.

    Args:
        height, bias, dtype: as in :class:`DotProduct`.
        num_features: None for :math:`\ell = 1`, which the height already covers; D for one
            lengthscale per feature (ARD).

    >>> Linear(height=2.0).square(torch.tensor([[3.0]])).item()
    20.0
    """

    log_lengthscale: nn.Parameter | None

    def __init__(
        self,
        height: float = 1.0,
        bias: float = 1.0,
        num_features: int | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(height, bias, dtype=dtype)
        self.log_lengthscale = None
        if num_features is not None:
            self.num_features = whole_number("num_features", num_features, also="None or ")
            self.log_lengthscale = log_parameter("lengthscale", 1.0, num_features, dtype=dtype)

    @property
    def lengthscale(self) -> Tensor:
        """The lengthscales, (D,) with ARD; else the constant 1, a scalar."""
        if self.log_lengthscale is None:
            return torch.ones_like(self.log_height)
        return self.log_lengthscale.exp()

    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        return self.height * self.biased(g_xy)

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        return self.height * self.biased(g_xx)

    def prepare(self, features: Tensor) -> Tensor:
        r"""With ARD, :math:`F_{i\lambda} / \ell_\lambda`; else the features as they are."""
        if self.log_lengthscale is None:
            return features
        if features.shape[-1] != self.num_features:
            raise ValueError(
                f"Linear was built with num_features={self.num_features}, but was given features "
                f"of shape {tuple(features.shape)}, whose last dimension differs."
            )
        return features / self.lengthscale
