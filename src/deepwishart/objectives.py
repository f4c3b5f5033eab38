"""Objectives: plain functions from a model and data to a scalar."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from deepwishart import linalg
from deepwishart.models.deep_kernel_process import DeepKernelProcess
from deepwishart.noise import Noise

__all__ = ["elbo", "importance_weighted_bound"]


def elbo(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    *,
    num_data: int,
    num_samples: int = 10,
    kl_weight: float = 1.0,
    generator: torch.Generator | None = None,
    noise: Noise | None = None,
) -> Tensor:
    r"""Evidence lower bound per data point, estimated from a minibatch (paper, Algorithm 1).

    .. math:: \frac1{N_\text{batch}} \sum_{n \in \text{batch}} \mathbb E_Q \log p(y_n \mid f_n)
              + \frac{w}{N} \sum_\ell \mathbb E_Q \log \frac{P(G^\ell_{ii} \mid G^{\ell-1}_{ii})}
              {Q(G^\ell_{ii} \mid G^{\ell-1}_{ii})}

    Unbiased in the minibatch, since the second sum involves inducing points only.

    Args:
        model: any process.
        X: inputs ``(N_batch, num_features)``.
        y: targets ``(N_batch, D)`` or ``(N_batch,)``.
        num_data: number of rows N of the whole data set.
        num_samples: posterior samples S; they share one minibatch.
        kl_weight: factor :math:`w` on the second term, below 1 while annealing.
        generator: randomness; PyTorch's default generator if ``None``.
        noise: a ready-made source of noise, instead of ``num_samples`` and ``generator``.

    Returns:
        A scalar tensor to be maximised.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> dw.elbo(model, X, X.sin(), num_data=20).shape
    torch.Size([])
    """
    rows: Any = model.scale_inputs(model.check_inputs(X))
    targets = model.check_targets(y, X.shape[0])
    noise = noise or Noise(num_samples, generator, model.dtype, model.device)
    log_ratio = targets.new_zeros(())

    inducing: Any = model.inducing_start()
    for layer in model.layers:
        state, term = layer.sample_inducing(inducing, noise)  # type: ignore[operator]
        log_ratio = log_ratio + term
        rows = layer.sample_rows(state, rows, noise)  # type: ignore[operator]
        inducing = state.outputs
    state, term = model.output.sample_inducing(inducing, noise)
    log_ratio = log_ratio + term
    mean, variance = model.output.moments(state, rows)

    expected = model.likelihood.expected_log_prob(targets, mean, variance)
    return expected.mean() + kl_weight * log_ratio.mean() / num_data


def importance_weighted_bound(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    *,
    num_importance: int,
    num_replicates: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Importance-weighted lower bound on the log evidence per data point, for small data sets.

    .. math:: \frac1N \mathbb E \log \frac1K \sum_{k=1}^K
              \mathcal N(y; m^{(k)}, C^{(k)} + \sigma^2 I)\, \frac{P}{Q}\Big|_{\text{sample } k}

    Inducing variables are sampled, rows are sampled jointly through the hidden layers, and the
    output at the rows is integrated out. The bound rises with K towards the log evidence, and
    lies above the ELBO already at :math:`K = 1`.

    Args:
        model: any process.
        X: all inputs ``(N, num_features)``; the cost is cubic in N.
        y: all targets ``(N, D)`` or ``(N,)``.
        num_importance: K.
        num_replicates: independent estimates.
        generator: randomness; PyTorch's default generator if ``None``.

    Returns:
        ``(num_replicates,)`` estimates whose mean is the bound.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 10, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> importance_weighted_bound(model, X, X.sin(), num_importance=8, num_replicates=3).shape
    torch.Size([3])
    """
    rows: Any = model.scale_inputs(model.check_inputs(X))
    targets = model.check_targets(y, X.shape[0])
    samples = num_importance * num_replicates
    noise = Noise(samples, generator, model.dtype, model.device)
    log_weight = targets.new_zeros(samples)
    inducing: Any = model.inducing_start()
    for layer in model.layers:
        state, term = layer.draw_inducing(inducing, noise)  # type: ignore[operator]
        log_weight = log_weight + term
        rows = layer.sample_rows(state, rows, noise, joint=True)  # type: ignore[operator]
        inducing = state.outputs
    state, term = model.output.draw_inducing(inducing, noise)
    log_weight = log_weight + term
    mean, covariance = model.output.joint_moments(state, rows)
    for column, noise_variance in enumerate(model.likelihood.noise):
        own = covariance.expand(*covariance.shape[:-3], mean.shape[-1], -1, -1)[..., column, :, :]
        eye = torch.eye(own.shape[-1], dtype=own.dtype, device=own.device)
        lower = linalg.cholesky(own + noise_variance * eye, what="the marginal covariance of y")
        residual = (targets[:, column] - mean[..., column]).unsqueeze(-1)
        log_weight = log_weight - 0.5 * (
            linalg.solve_lower(lower, residual).square().sum((-2, -1))
            + linalg.log_det(lower)
            + residual.shape[-2] * math.log(2 * math.pi)
        )
    per_replicate = log_weight.reshape(num_replicates, num_importance).logsumexp(-1)
    return (per_replicate - math.log(num_importance)) / X.shape[0]
