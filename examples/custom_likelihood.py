"""A likelihood of your own
========================

A likelihood of your own: Student's t, for targets with outliers. ::

    python examples/custom_likelihood.py --steps 300
"""

import argparse
import math

import torch
from torch import Tensor, nn

import deepwishart as dw
from deepwishart.likelihoods import Likelihood
from deepwishart.testing import check_likelihood


# begin likelihood
class StudentT(Likelihood):
    r"""Noise :math:`y - f = \sigma t` with :math:`t` Student's, of a fixed number of degrees of
    freedom; :math:`\sigma` is learned, one for each target column.
    """

    def __init__(self, num_outputs: int = 1, noise: float = 0.1, degrees: float = 4.0) -> None:
        super().__init__(num_outputs)
        self.degrees = degrees
        self.log_scale = nn.Parameter(torch.full((num_outputs,), 0.5 * math.log(noise)))

    def distribution(self, latents: Tensor) -> torch.distributions.StudentT:
        return torch.distributions.StudentT(self.degrees, latents, self.log_scale.exp())


# end likelihood


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
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
    for likelihood in (dw.likelihoods.Gaussian(), StudentT()):
        model = dw.build("dwp", X, y, depth=2, num_inducing=20, likelihood=likelihood)
        dw.training.train(model, X, y, protocol)
        mean = model.predict(X, generator=generator).mean
        error = (mean - truth.squeeze(-1)).square().mean().sqrt()
        name = type(likelihood).__name__
        print(f"{name:>9}: RMSE from the truth {error:.3f}")


if __name__ == "__main__":
    main()
