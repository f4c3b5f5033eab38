"""Counts whose rate depends on the inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart.likelihoods.base import bounded_exp
from deepwishart.likelihoods.counts import CountLikelihood

__all__ = ["Poisson"]


class Poisson(CountLikelihood):
    r""":math:`p(y \mid f) = \prod_d e^{y_d f_d - e^{f_d}} / y_d!`, counts with rates
    :math:`\lambda = e^f`.

    Under Gaussian latents the expected log density is known,

    .. math:: \mathbb E \log p(y \mid f)
              = \sum_d \Big( y_d m_d - e^{m_d + v_d/2} - \log y_d! \Big).

    Args:
        num_outputs: number of target columns D.
        exposure: counts were made over times, areas or populations :math:`e` that differ from row
            to row, :math:`\lambda = e\, e^f`; see
            :class:`~deepwishart.likelihoods.counts.CountLikelihood`.

    >>> likelihood = Poisson(1)
    >>> zero = torch.zeros(3, 1)
    >>> likelihood.expected_log_prob(zero, mean=zero, variance=zero)
    tensor([-1., -1., -1.])
    """

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        y, mean = self.with_exposure(y, mean)
        terms = y * mean - bounded_exp(mean + 0.5 * variance) - torch.lgamma(y + 1.0)
        return terms.sum(-1)

    def dispersion_given(self, latents: Tensor) -> Tensor:
        return latents.new_zeros(())
