"""A likelihood of your own: Student's t, for targets with outliers.

python examples/custom_likelihood.py --steps 300
"""

import argparse
import math

import numpy as np
import torch
from torch import Tensor

import deepwishart as dw
from deepwishart.likelihoods import Gaussian
from deepwishart.testing import check_likelihood


# begin likelihood
class StudentT(Gaussian):
    r"""Noise :math:`y - f = \sigma t` with :math:`t` Student's, of a fixed number of degrees of
    freedom :math:`\kappa > 2`. The expectation over :math:`f` is taken with Gauss and Hermite:

    .. math:: \mathbb E \log p(y \mid f) \approx
              \sum_j w_j \log p(y \mid m + \sqrt{v}\, x_j), \qquad
              \mathrm{Var}[y] = v + \frac{\kappa}{\kappa - 2}\, \sigma^2 .
    """

    def __init__(self, num_outputs: int = 1, noise: float = 0.1, degrees: float = 4.0) -> None:
        super().__init__(num_outputs, noise, dtype=torch.float64)
        self.degrees = degrees
        nodes, weights = np.polynomial.hermite_e.hermegauss(64)
        self.register_buffer("nodes", torch.as_tensor(nodes))
        self.register_buffer("weights", torch.as_tensor(weights / weights.sum()))

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        # The root of a variance that is exactly zero has no gradient.
        std = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
        residual = (y - mean).unsqueeze(-1) - std.unsqueeze(-1) * self.nodes
        half = 0.5 * (self.degrees + 1)
        constant = (
            math.lgamma(half) - math.lgamma(half - 0.5) - 0.5 * math.log(math.pi * self.degrees)
        )
        squares = residual.square() / (self.degrees * self.noise.unsqueeze(-1))
        log_density = constant - 0.5 * self.log_noise.unsqueeze(-1) - half * squares.log1p()
        return (log_density * self.weights).sum(-1).sum(-1)

    def predictive_variance(self, variance: Tensor) -> Tensor:
        return variance + self.noise * self.degrees / (self.degrees - 2)


# end likelihood


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args(arguments)

    check_likelihood(StudentT(noise=0.5))
    print("StudentT fulfils the contract of likelihoods")

    generator = torch.Generator().manual_seed(0)
    X = torch.rand(100, 1, generator=generator, dtype=torch.float64) * 6 - 3
    truth = X.sin()
    y = truth + 0.1 * torch.randn(100, 1, generator=generator, dtype=torch.float64)
    y[::10] += 3.0  # a faulty instrument
    protocol = dw.training.Protocol.named("fast", len(X)).replace(
        max_iter=options.steps, kl_anneal=options.steps // 10
    )
    for name in ("Gaussian", "StudentT"):
        model = dw.build("dwp", X, y, depth=2, num_inducing=20)
        if name == "StudentT":
            model.likelihood = StudentT(noise=0.1)
        dw.training.train(model, X, y, protocol)
        mean = model.predict(X, generator=generator).mean
        error = (mean - truth.squeeze(-1)).square().mean().sqrt()
        print(f"{name:>9}: RMSE from the truth {error:.3f}")


if __name__ == "__main__":
    main()
