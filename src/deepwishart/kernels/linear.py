r"""The linear kernel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepwishart.kernels.dot_product import DotProduct
from deepwishart.kernels.elementary import log_parameter


class Linear(DotProduct):
    r"""The kernel :math:`k(x, y) = h (b + \sum_\lambda x_\lambda y_\lambda / \ell_\lambda^2)`.

    Args:
        height: initial :math:`h`.
        bias: initial :math:`b`; 0 for none, and then none is learned.
        num_features: None for :math:`\ell = 1`, which the height already covers; D for one
            lengthscale per feature (ARD).
        dtype, device: of the parameters.

    Example:
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
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(height, bias, dtype=dtype, device=device)
        self.num_features = num_features
        if num_features is None:
            self.register_parameter("log_lengthscale", None)
        else:
            self.log_lengthscale = log_parameter(
                "lengthscale", 1.0, num_features, dtype=dtype, device=device
            )

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
        self._check_num_features(features)
        return features / self.lengthscale
