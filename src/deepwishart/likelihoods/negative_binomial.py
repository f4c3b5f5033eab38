"""Counts that spread more than their rate explains."""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart._support.parameters import log_parameter
from deepwishart.likelihoods.counts import CountLikelihood

__all__ = ["NegativeBinomial"]


class NegativeBinomial(CountLikelihood):
    r""":math:`p(y \mid f) = \prod_d \mathrm{NB}(y_d; \mu_d, a_d)`, counts with mean
    :math:`\mu = c\, e^f` and variance :math:`\mu + a\mu^2`, where the typical rate :math:`c_d` and
    the dispersion :math:`a_d` of each column are learned; without it they would be Poisson counts.

    The log density (:class:`~deepwishart.likelihoods.counts.Counts`) is expected by quadrature.

    Args:
        num_outputs: number of target columns D.
        dispersion: initial :math:`a`.
        exposure: as in :class:`~deepwishart.likelihoods.Poisson`.
        dtype: of the parameters; double precision by default.
        device: of the parameters.

    >>> likelihood = NegativeBinomial(1, dispersion=0.5)
    >>> zero = torch.zeros(3, 1)
    >>> likelihood.expected_log_prob(zero, mean=zero, variance=zero)[0].exp()  # (1 + 1/2)**-2
    tensor(0.4444, dtype=torch.float64, grad_fn=<ExpBackward0>)
    """

    def __init__(
        self,
        num_outputs: int = 1,
        dispersion: float = 0.1,
        *,
        exposure: bool = False,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(num_outputs, exposure=exposure, dtype=dtype, device=device)
        self.log_dispersion = log_parameter(
            "dispersion", dispersion, self.num_outputs, dtype=dtype, device=device
        )

    @property
    def dispersion(self) -> Tensor:
        """Dispersion :math:`a`, ``(D,)``."""
        return self.log_dispersion.exp()

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        y, log_mean = self.log_mean(y, mean)
        return super().expected_log_prob(y, log_mean - self.log_rate, variance)

    def dispersion_given(self, latents: Tensor) -> Tensor:
        return self.dispersion.to(latents)

    def summary(self) -> dict[str, float]:
        return {"dispersion": float(self.dispersion.detach().mean())}
