"""Train a deep Wishart process on scikit-learn's diabetes data and watch the ELBO settle.

Run it with ``make demo`` or ``python examples/demo_diabetes.py``. It needs no network.
"""

import math
import time

import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import deepwishart as dw

STEPS = 1000


def main() -> None:
    features, target = load_diabetes(return_X_y=True)
    splits = train_test_split(features, target, test_size=0.1, random_state=0)
    X, X_test, y, y_test = (torch.tensor(part) for part in splits)
    X_mean, X_std, y_mean, y_std = X.mean(0), X.std(0), y.mean(), y.std()
    X, X_test = (X - X_mean) / X_std, (X_test - X_mean) / X_std
    y = (y - y_mean) / y_std

    model = dw.build("dwp", X, y, depth=3, num_inducing=50, seed=0)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    print(f"{len(X)} rows, {X.shape[1]} features; {model.depth}-layer deep Wishart process")
    print(f"{'step':>6} {'ELBO per row':>13} {'noise std':>10} {'seconds':>8}")
    start, total = time.perf_counter(), 0.0
    for step in range(1, STEPS + 1):
        optimiser.param_groups[0]["lr"] = 1e-2 * 0.5 * (1 + math.cos(math.pi * step / STEPS))
        optimiser.zero_grad()
        weight = min(1.0, step / (STEPS // 10))
        bound = dw.elbo(model, X, y, num_data=len(X), kl_weight=weight, generator=generator)
        (-bound).backward()
        optimiser.step()
        total += bound.item()
        if step % (STEPS // 10) == 0:
            noise = model.likelihood.noise.sqrt().item()
            seconds = time.perf_counter() - start
            print(f"{step:6d} {total / (STEPS // 10):13.3f} {noise:10.3f} {seconds:8.1f}")
            total = 0.0

    predictive = model.predict(X_test, num_samples=100, generator=generator)
    mean = predictive.mean * y_std + y_mean
    log_likelihood = predictive.log_prob((y_test - y_mean) / y_std).mean() - y_std.log()
    low, high = predictive.quantile(torch.tensor([0.05, 0.95])) * y_std + y_mean
    inside = ((low <= y_test) & (y_test <= high)).double().mean()
    print(f"\nheld-out rows            {len(y_test)}")
    print(f"test log likelihood      {log_likelihood:.3f} (original units)")
    print(f"RMSE                     {(mean - y_test).square().mean().sqrt():.1f}")
    print(f"inside the 90% interval  {inside:.0%}")


if __name__ == "__main__":
    main()
