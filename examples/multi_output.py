"""Several targets
===============

Several targets at once: one representation, one Gaussian process and one noise for each. ::

    python examples/multi_output.py --steps 500
"""

import argparse

import torch

import deepwishart as dw
from deepwishart.training import Protocol, train


def make_data(num_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Position of a two-joint arm, and a third target that is almost all noise."""
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(num_rows, 2, generator=generator, dtype=torch.float64) * 3
    first, both = angles[:, 0], angles.sum(-1)
    targets = torch.stack(
        [first.cos() + both.cos(), first.sin() + both.sin(), 0.3 * first.cos()], dim=-1
    )
    scale = torch.tensor([0.02, 0.02, 1.0], dtype=torch.float64)
    targets += scale * torch.randn(num_rows, 3, generator=generator, dtype=torch.float64)
    return angles, targets


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args(arguments)

    X, y = make_data(250)
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean(0)) / y.std(0)
    X, X_test, y, y_test = X[:200], X[200:], y[:200], y[200:]
    model = dw.build("dwp", X, y, depth=2, width=4, num_inducing=40)
    protocol = Protocol.named("fast", len(X)).replace(
        max_iter=options.steps, kl_anneal=options.steps // 10
    )
    train(model, X, y, protocol)

    generator = torch.Generator().manual_seed(0)
    prediction = model.predict(X_test, generator=generator)  # mean and stddev: rows x 3
    lower, upper = prediction.quantile(torch.tensor([0.05, 0.95]))  # each rows x 3
    inside = ((lower <= y_test) & (y_test <= upper)).double().mean(0)
    error = (prediction.mean - y_test).square().mean(0).sqrt()
    noise = model.likelihood.noise.sqrt()
    print(f"{'target':>8} {'RMSE':>6} {'noise':>6} {'in 90%':>7}")
    for column, name in enumerate(("x", "y", "noisy")):
        print(f"{name:>8} {error[column]:6.3f} {noise[column]:6.3f} {inside[column]:7.0%}")
    # One density for all targets of a row, since they share the posterior samples.
    print(f"joint test log likelihood per row: {prediction.log_prob(y_test).mean():.3f}")


if __name__ == "__main__":
    main()
