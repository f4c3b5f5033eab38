"""Counts whose rate depends on the inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart.likelihoods.base import bounded_exp
from deepwishart.likelihoods.counts import CountLikelihood

__all__ = ["Poisson"]


class Poisson(CountLikelihood):
    r""":math:`p(y \mid f) = \prod_d \lambda_d^{y_d} e^{-\lambda_d} / y_d!` with rates
    :math:`\lambda = c\, e^f`, where the typical rate :math:`c` is learned.

    Under Gaussian latents the expected log density is known,

    .. math:: \mathbb E \log p(y \mid f) = \sum_d \Big( y_d (m_d + \log c_d)
              - c_d\, e^{m_d + v_d/2} - \log y_d! \Big).

    Args:
        num_outputs: number of target columns D.
        exposure: counts were made over times, areas or populations :math:`e` that differ from row
            to row, :math:`\lambda = e\, c\, e^f`. In training, ``y`` then has one more column, the
            last, with :math:`\log e`, and predictions are for :math:`e = 1` unless told otherwise
            (``offset`` of :meth:`deepwishart.models.Posterior.predict`).
        dtype: of the parameter; double precision by default.
        device: of the parameter.

    >>> likelihood = Poisson(1)
    >>> zero = torch.zeros(3, 1)
    >>> likelihood.expected_log_prob(zero, mean=zero, variance=zero).tolist()
    [-1.0, -1.0, -1.0]
    """

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        y, log_mean = self.log_mean(y, mean)
        terms = y * log_mean - bounded_exp(log_mean + 0.5 * variance) - torch.lgamma(y + 1.0)
        return terms.sum(-1)

    def dispersion_given(self, latents: Tensor) -> Tensor:
        return latents.new_zeros(())
