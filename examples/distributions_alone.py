"""The distributions alone
=======================

The distributions on their own, in PyTorch code that has no deep kernel process in it. ::

    python examples/distributions_alone.py --steps 500

Variational inference for the precision matrix of Gaussian data. With a Wishart prior the posterior
is Wishart, so we know what a generalised singular Wishart has to find: the bound must reach the log
evidence.
"""

import argparse
import math

import torch
from torch import Tensor, nn

from deepwishart.distributions import GeneralisedSingularWishart, Wishart


class Posterior(nn.Module):
    """A generalised singular Wishart with all its parameters free."""

    def __init__(self, df: int, size: int) -> None:
        super().__init__()
        self.df = df
        degrees = torch.arange(df, df - size, -1, dtype=torch.float64)
        self.log_concentration = nn.Parameter((degrees / 2).log())
        self.log_rate = nn.Parameter(torch.full((size,), math.log(0.5), dtype=torch.float64))
        self.loc = nn.Parameter(torch.zeros(size, size, dtype=torch.float64))
        self.log_scale = nn.Parameter(torch.zeros(size, size, dtype=torch.float64))
        self.scale_root = nn.Parameter(torch.eye(size, dtype=torch.float64))

    def forward(self) -> GeneralisedSingularWishart:
        return GeneralisedSingularWishart(
            self.df,
            self.log_concentration.exp(),
            self.log_rate.exp(),
            self.loc,
            self.log_scale.exp(),
            covariance_matrix=self.scale_root @ self.scale_root.mT,
        )


def log_likelihood(root: Tensor, data: Tensor) -> Tensor:
    r""":math:`\sum_n \log \mathcal N(x_n; 0, G^{-1})` for the precision :math:`G = RR^\top`."""
    log_det = 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    squares = (data @ root).square().sum((-2, -1))
    return 0.5 * (len(data) * (log_det - data.shape[1] * math.log(2 * math.pi)) - squares)


def log_evidence(prior: Wishart, data: Tensor) -> tuple[float, Tensor]:
    r"""Bayes' rule at any G, and the mean of the exact posterior
    :math:`\mathcal W((\Sigma^{-1} + X^\top X)^{-1}, \nu + N)`."""
    scale = torch.linalg.inv(torch.linalg.inv(prior.covariance_matrix) + data.mT @ data)
    posterior = Wishart(prior.df + len(data), covariance_matrix=scale)
    G = posterior.mean
    root = torch.linalg.cholesky(G)
    log_joint = prior.log_prob(G) + log_likelihood(root, data)
    return float(log_joint - posterior.log_prob(G)), G


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args(arguments)

    generator = torch.Generator().manual_seed(0)
    mixing = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.3, 0.4, 1.2]]).double()
    data = torch.randn(30, 3, generator=generator, dtype=torch.float64) @ mixing.mT
    prior = Wishart(5, covariance_matrix=torch.eye(3, dtype=torch.float64) / 5)
    evidence, exact_mean = log_evidence(prior, data)

    posterior = Posterior(df=5, size=3)
    optimiser = torch.optim.Adam(posterior.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options.steps)
    for step in range(options.steps):
        optimiser.zero_grad()
        # Sampling the root hands us the log density for free; no factorisation of G is needed.
        # Sticking the landing: at the exact posterior, every sample gives the same bound.
        root, log_q = posterior().rsample_root_with_log_prob(
            (16,), sticking_the_landing=True, generator=generator
        )
        bound = (log_likelihood(root, data) + prior.log_prob_root(root) - log_q).mean()
        (-bound).backward()
        optimiser.step()
        schedule.step()
        if (step + 1) % max(1, options.steps // 5) == 0:
            print(f"step {step + 1:5d}: bound {bound.item():9.3f}, log evidence {evidence:9.3f}")
    error = (posterior().mean - exact_mean).abs().max() / exact_mean.abs().max()
    print(f"posterior mean differs from the exact one by {error.item():.1%}")


if __name__ == "__main__":
    main()
