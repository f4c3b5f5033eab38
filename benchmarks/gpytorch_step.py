"""A step of our deep GP beside a step of GPyTorch's, same widths, inducing points, samples, rows.

python benchmarks/gpytorch_step.py      # needs the test extra, which has GPyTorch
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from deepwishart.benchmark import BOSTON, alternate, environment, make_step

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # GPyTorch still uses TorchScript, which is deprecated
    import gpytorch
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy


class Layer(DeepGPLayer):
    def __init__(self, input_dims: int, output_dims: int | None) -> None:
        batch = torch.Size([]) if output_dims is None else torch.Size([output_dims])
        points = torch.randn(*batch, BOSTON.num_inducing, input_dims)
        distribution = CholeskyVariationalDistribution(BOSTON.num_inducing, batch_shape=batch)
        super().__init__(
            VariationalStrategy(self, points, distribution, learn_inducing_locations=True),
            input_dims,
            output_dims,
        )
        self.mean_module = gpytorch.means.ZeroMean(batch_shape=batch)
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(batch_shape=batch), batch_shape=batch
        )

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Model(DeepGP):
    def __init__(self, depth: int) -> None:
        super().__init__()
        hidden = [Layer(BOSTON.num_features, BOSTON.num_features) for _ in range(depth - 1)]
        self.layers = torch.nn.ModuleList([*hidden, Layer(BOSTON.num_features, None)])
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        for layer in self.layers:
            x = layer(x)
        return x


def make_gpytorch_step(depth: int, dtype: torch.dtype) -> Callable[[], None]:
    torch.manual_seed(0)
    X = torch.randn(BOSTON.num_rows, BOSTON.num_features, dtype=dtype)
    y = X[:, 0].sin()
    model = Model(depth).to(dtype)
    objective = gpytorch.mlls.DeepApproximateMLL(
        gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=BOSTON.num_rows)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        with gpytorch.settings.num_likelihood_samples(BOSTON.num_samples):
            loss = -objective(model(X), y)
        loss.backward()
        optimiser.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpytorch_step.json"))
    options = parser.parse_args()
    torch.set_num_threads(2)
    record: dict[str, object] = {"environment": environment(), "gpytorch": gpytorch.__version__}
    for depth in (2, 5):
        ours, theirs = alternate(
            [
                make_step("dgp", depth=depth, dtype=torch.float64),
                make_gpytorch_step(depth, torch.float64),
            ],
            repeats=options.repeats,
        )
        record[f"depth_{depth}"] = {"ours": ours, "gpytorch": theirs}
        print(
            f"depth {depth}: ours {1e3 * ours:.0f} ms, GPyTorch {1e3 * theirs:.0f} ms, "
            f"{theirs / ours:.1f} times faster",
            flush=True,
        )
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
