r"""What few rows cannot say, and intervals that admit it.

Of fewer than ten rows, and of no more rows than there are columns, maximised evidence is sure of
height, lengthscale and noise that it made up. A single layer then differs in three ways:

1. all D columns share one lengthscale :math:`\ell`;
2. it and the ratio :math:`r = \sigma^2/h` of noise and height have log-normal priors,

   .. math:: \log \ell \sim \mathcal N\big(\tfrac12 \log D, 1\big), \qquad
             \log r \sim \mathcal N\big(\log 0.3, 1.5^2\big);

3. :math:`h` and :math:`\sigma^2` are multiplied by :math:`f^2` after training,

   .. math:: f = \frac{t_{N-1}(0.95)}{z(0.95)} \sqrt{\frac{N + 1}{N - 1}}

   with quantiles of Student's t and of the normal distribution. It leaves the predicted mean as it
   is. Of N draws of one normal distribution, :math:`m \pm f z s` with their mean and
   their spread :math:`s` covers 90% of what follows, and :math:`m \pm z s` does not.
"""

from __future__ import annotations

import math

import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

from deepwishart.kernels import Stationary
from deepwishart.likelihoods import Gaussian
from deepwishart.model import DeepKernelProcess

_RATIO, _RATIO_SPREAD = 0.3, 1.5


def log_prior(model: DeepKernelProcess) -> Tensor:
    r"""Log density of :math:`\log \ell` and :math:`\log r`, up to a constant, of a single layer."""
    kernel, noise = _parts(model)
    lengths = kernel.log_lengthscale - 0.5 * math.log(model.num_features)
    ratio = (noise.log_noise.mean() - kernel.log_height - math.log(_RATIO)) / _RATIO_SPREAD
    return -0.5 * (lengths.square().sum() + ratio.square())


@torch.no_grad()
def widen(model: DeepKernelProcess, num_rows: int) -> None:
    r"""Multiply height and noise by :math:`f^2`."""
    kernel, noise = _parts(model)
    for logarithm in (kernel.log_height, noise.log_noise):
        logarithm.add_(2.0 * math.log(widening(num_rows)))


def widening(num_rows: int) -> float:
    r"""The factor :math:`f` of N rows.

    >>> [round(widening(rows), 2) for rows in (2, 3, 9, 1000)]
    [6.65, 2.51, 1.26, 1.0]
    """
    quantile = float(stdtrit(num_rows - 1, 0.95) / ndtri(0.95))
    return quantile * math.sqrt((num_rows + 1) / (num_rows - 1))


def applies(model: DeepKernelProcess) -> bool:
    """Whether the model has these parameters and no others."""
    kernel = model.output.priors[0].kernel
    known = isinstance(kernel, Stationary) and isinstance(model.likelihood, Gaussian)
    return model.depth == 1 and known


def _parts(model: DeepKernelProcess) -> tuple[Stationary, Gaussian]:
    kernel, noise = model.output.priors[0].kernel, model.likelihood
    assert isinstance(kernel, Stationary) and isinstance(noise, Gaussian)
    return kernel, noise
