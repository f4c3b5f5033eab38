"""Comparing processes
===================

A deep Wishart process and the deep Gaussian process with the same prior, on the same data. ::

    python examples/compare_processes.py --steps 500 --processes dwp dgp dsvi diwp

The first two differ in their approximate posterior alone, so a difference between their bounds is a
difference in inference. Two seeds say how much of it is luck; for a conclusion, use many.
"""

import argparse

import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import deepwishart as dw
from deepwishart.estimators import estimate_elbo
from deepwishart.training import Protocol, train


def load() -> list[torch.Tensor]:
    """Training and test rows, standardised with the training rows."""
    split = train_test_split(*load_diabetes(return_X_y=True), test_size=0.2, random_state=0)
    X, X_test, y, y_test = (torch.as_tensor(part) for part in split)
    X_mean, X_std, y_mean, y_std = X.mean(0), X.std(0), y.mean(), y.std()
    return [
        (X - X_mean) / X_std,
        (X_test - X_mean) / X_std,
        (y - y_mean) / y_std,
        (y_test - y_mean) / y_std,
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--processes", nargs="+", default=["dwp", "dgp"])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args(arguments)

    X, X_test, y, y_test = load()
    protocol = Protocol.named("fast", len(X))
    protocol = protocol.replace(max_iter=options.steps, kl_anneal=options.steps // 10)
    print(f"{'process':>8} {'seed':>5} {'ELBO per row':>18} {'test log lik.':>14} {'seconds':>8}")
    for process in options.processes:
        for seed in range(options.seeds):
            model = dw.build(process, X, y, depth=3, num_inducing=40, seed=seed)
            history = train(model, X, y, protocol, seed=seed)
            generator = torch.Generator().manual_seed(seed)
            bound = estimate_elbo(model, X, y, num_samples=100, generator=generator)
            prediction = model.predict(X_test, num_samples=100, generator=generator)
            print(
                f"{process:>8} {seed:5d} {bound.mean:9.3f} +- {bound.standard_error:.3f} "
                f"{prediction.log_prob(y_test).mean():15.3f} {history.seconds[-1]:8.1f}"
            )


if __name__ == "__main__":
    main()
