"""A layer of your own
===================

A layer of your own, stacked into a model. ::

    python examples/custom_layer.py --steps 300

The layer is a deep Gaussian process's, with a posterior that knows no correlations. Its prior, and
rows given the inducing points, come with the base class.
"""

import argparse

import torch
from torch import Tensor, nn

import deepwishart as dw
from deepwishart.kernels import Kernel, SquaredExponential
from deepwishart.layers import Conditional, ConditionalSample, Inducing, Layer
from deepwishart.numerics import linalg
from deepwishart.testing import check_layer


# begin layer
class MeanFieldLayer(Layer):
    r"""Features :math:`F = L E` with :math:`K/\nu = L L^\top` and independent posteriors
    :math:`q(E_{pd}) = \mathcal N(m_{pd}, \sigma_{pd}^2)`; under the prior, :math:`E` is standard
    normal, so :math:`\log \frac pq = \sum \frac12 (\epsilon^2 - E^2) + \log \sigma`.
    """

    def __init__(
        self, kernel: Kernel, width: int, num_inducing: int, name: str, jitter: float = 1e-6
    ) -> None:
        super().__init__(kernel, width, name=name, jitter=jitter)
        self.mean = nn.Parameter(torch.zeros(num_inducing, width, dtype=torch.float64))
        self.log_std = nn.Parameter(torch.full_like(self.mean.data, -2.0))

    def sample(
        self, inducing: Inducing, random: dw.Randomness, *, integrate: bool = True
    ) -> ConditionalSample:
        covariance = self.covariance(inducing)
        lower, inverse = linalg.factor(covariance, what=f"the kernel matrix of {self.name}")
        standard = random.normal(*self.mean.shape)
        drawn = self.mean + self.log_std.exp() * standard
        log_ratio = 0.5 * (standard.square() - drawn.square()).sum((-2, -1)) + self.log_std.sum()
        given = Conditional.of(covariance, inverse, lower @ drawn)
        return ConditionalSample(self, inducing, log_ratio, given)

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor, noise: float = 0.0) -> Tensor:
        covariance = self.covariance(inducing)
        self.mean.copy_(linalg.solve_lower(linalg.cholesky(covariance), features))
        return features


# end layer


def build(X: Tensor, y: Tensor, num_inducing: int = 20, width: int = 2) -> dw.DeepKernelProcess:
    """One hidden layer of the new kind below a Gaussian process."""
    layer = MeanFieldLayer(SquaredExponential(), width, num_inducing, name="layer 1")
    return dw.build([layer], X, y, num_inducing=num_inducing)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args(arguments)

    generator = torch.Generator().manual_seed(0)
    points = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    layer = MeanFieldLayer(SquaredExponential(dtype=torch.float64), 3, 5, name="layer 1")
    check_layer(layer, points)
    print("MeanFieldLayer fulfils the contract of layers")

    X = torch.rand(100, 1, generator=generator, dtype=torch.float64) * 6 - 3
    y = (3 * X).sin() + 0.1 * torch.randn(100, 1, generator=generator, dtype=torch.float64)
    protocol = dw.training.Protocol.named("fast", len(X)).replace(
        max_iter=options.steps, kl_anneal=options.steps // 10
    )
    models = {"mean field": build(X, y), "dgp": dw.build("dgp", X, y, width=2, num_inducing=20)}
    for name, model in models.items():
        history = dw.training.train(model, X, y, protocol)
        print(f"{name:>12}: ELBO per row {history.elbo_smoothed(20)[-1]:.3f}")


if __name__ == "__main__":
    main()
