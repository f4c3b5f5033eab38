"""A layer of your own, stacked into a model.

    python examples/custom_layer.py --steps 300

The layer is a deep Gaussian process's, with a posterior that knows no correlations. Rows given the
inducing points come with the base class, because they are Gaussian under its prior.
"""

import argparse
import math

import torch
from torch import Tensor, nn

import deepwishart as dw
from deepwishart import linalg
from deepwishart.distributions import MatrixNormal
from deepwishart.kernels import Kernel, SquaredExponential
from deepwishart.layers import GPOutputLayer
from deepwishart.layers.base import GaussianRows, GaussianState, Inducing, kernel_inducing
from deepwishart.likelihoods import Gaussian
from deepwishart.noise import Noise
from deepwishart.testing import check_layer


# begin layer
class MeanFieldLayer(GaussianRows):
    r"""Features :math:`F = \sqrt s\, L E` with :math:`K = L L^\top` and independent posteriors
    :math:`q(E_{pd}) = \mathcal N(m_{pd}, \sigma_{pd}^2)`; under the prior, :math:`E` is standard
    normal, so :math:`\log \frac pq = \sum \frac12 (\epsilon^2 - E^2) + \log \sigma`.
    """

    def __init__(
        self, kernel: Kernel, width: int, num_inducing: int, name: str, jitter: float = 1e-6
    ) -> None:
        super().__init__(kernel, scale=1.0 / width, name=name, jitter=jitter)
        self.mean = nn.Parameter(torch.zeros(num_inducing, width, dtype=torch.float64))
        self.log_std = nn.Parameter(torch.full_like(self.mean.data, -2.0))

    def factor(self, kernel_matrix: Tensor) -> linalg.Factor:
        jittered = linalg.add_jitter(kernel_matrix, self.jitter)
        return linalg.factor(jittered * self.scale, what=f"the kernel matrix of {self.name}")

    def sample_inducing(self, inducing: Inducing, noise: Noise) -> tuple[GaussianState, Tensor]:
        lower, inverse = self.factor(kernel_inducing(self.kernel, inducing))
        standard = noise.normal(*self.mean.shape)
        drawn = self.mean + self.log_std.exp() * standard
        log_ratio = 0.5 * (standard.square() - drawn.square()).sum((-2, -1)) + self.log_std.sum()
        # In terms of K rather than sK, as rows want it: its own L^-1, and L^-1 F = sqrt(s) E.
        root = math.sqrt(self.scale)
        return GaussianState(inducing, inverse * root, drawn * root, lower @ drawn), log_ratio

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor) -> Tensor:
        self.mean.copy_(self.factor(kernel_inducing(self.kernel, inducing)).inverse @ features)
        return features

    def prior(self, kernel_matrix: Tensor) -> MatrixNormal:
        lower = self.factor(kernel_matrix).lower
        return MatrixNormal(lower.new_zeros(*lower.shape[:-1], self.mean.shape[1]), lower)


# end layer


def build(X: Tensor, y: Tensor, num_inducing: int = 20, width: int = 2) -> dw.DeepKernelProcess:
    """One hidden layer of the new kind below a Gaussian process."""
    inducing_inputs, targets = X[:num_inducing].clone(), y[:num_inducing].clone()
    layer = MeanFieldLayer(
        SquaredExponential(dtype=torch.float64), width, num_inducing, name="layer 1"
    )
    model = dw.DeepKernelProcess(
        "mean field",
        [layer],
        GPOutputLayer(SquaredExponential(dtype=torch.float64), targets),
        Gaussian(y.shape[1], dtype=torch.float64),
        inducing_inputs=inducing_inputs,
        num_features=X.shape[1],
    )
    inducing = model.inducing_start()
    layer.start_from(inducing, inducing.detach().expand(-1, width) * torch.tensor([1.0, 0.5]))
    return model


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
