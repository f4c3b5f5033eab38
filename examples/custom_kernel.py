"""A kernel of your own
====================

A kernel of your own, in a deep Wishart process. ::

    python examples/custom_kernel.py --steps 300

A kernel is a function of three inner products, so it works on features and on Gram matrices alike.
"""

import argparse
import math

import torch
from torch import Tensor, nn

import deepwishart as dw
from deepwishart.kernels import Kernel
from deepwishart.testing import check_kernel


# begin kernel
class NeuralNetwork(Kernel):
    r"""The kernel of an infinite network with error functions as units (Williams, 1998):

    .. math:: k(x, y) = \frac{2h}{\pi} \arcsin
              \frac{2 \tilde g_{xy}}{\sqrt{(1 + 2 \tilde g_{xx})(1 + 2 \tilde g_{yy})}},
              \qquad \tilde g = w\,(1 + g).
    """

    def __init__(self, height: float = 1.0, weight: float = 1.0) -> None:
        super().__init__()
        self.log_height = nn.Parameter(torch.tensor(math.log(height)))
        self.log_weight = nn.Parameter(torch.tensor(math.log(weight)))

    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        g_xx, g_xy, g_yy = (self.log_weight.exp() * (1 + g) for g in (g_xx, g_xy, g_yy))
        cosine = 2 * g_xy / ((1 + 2 * g_xx) * (1 + 2 * g_yy)).sqrt()
        return 2 / math.pi * self.log_height.exp() * cosine.asin()

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        return self.elementwise(g_xx, g_xx, g_xx)


# end kernel


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args(arguments)

    check_kernel(NeuralNetwork())
    print("NeuralNetwork fulfils the contract of kernels")

    generator = torch.Generator().manual_seed(0)
    X = torch.rand(80, 1, generator=generator, dtype=torch.float64) * 6 - 3
    y = (2 * X).tanh() + 0.1 * torch.randn(80, 1, generator=generator, dtype=torch.float64)
    for kernel in ("squared_exponential", NeuralNetwork(weight=5.0)):
        # Every layer gets a copy of the kernel, with parameters of its own.
        model = dw.build("dwp", X, y, depth=2, num_inducing=20, kernel=kernel)
        protocol = dw.training.Protocol.named("fast", len(X)).replace(
            max_iter=options.steps, kl_anneal=options.steps // 10
        )
        history = dw.training.train(model, X, y, protocol)
        far = model.predict(torch.tensor([[10.0]]), generator=generator)
        name = kernel if isinstance(kernel, str) else type(kernel).__name__
        print(
            f"{name:>20}: ELBO per row {history.elbo_smoothed(20)[-1]:.3f}, "
            f"at x = 10 {far.mean.item():.2f} +- {far.stddev.item():.2f}"
        )


if __name__ == "__main__":
    main()
