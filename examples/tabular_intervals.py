"""A table, with intervals
=======================

Regression on a table, with an interval for every prediction. ::

    python examples/tabular_intervals.py --steps 1000

Numbers go in and come out in the units of the data; the regressor standardises them inside.
"""

import argparse

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from deepwishart import DeepKernelRegressor, metrics


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args(arguments)

    data = load_diabetes()
    X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.2, random_state=0)
    regressor = DeepKernelRegressor(
        process="dwp", depth=2, n_inducing=30, max_iter=options.steps, random_state=0
    )
    regressor.fit(X, y)

    mean, std = regressor.predict(X_test, return_std=True)
    lower, upper = regressor.predict_interval(X_test, coverage=0.9)
    print(f"{'measured':>9} {'predicted':>10} {'+-':>6}   90% interval")
    for row in range(5):
        interval = f"[{lower[row]:.0f}, {upper[row]:.0f}]"
        print(f"{y_test[row]:9.0f} {mean[row]:10.0f} {std[row]:6.0f}   {interval}")

    distribution = regressor.predict_distribution(X_test)
    inside = np.mean((lower <= y_test) & (y_test <= upper))
    print(f"\nELBO per training row  {regressor.elbo_:.3f} (standardised units)")
    print(f"test log likelihood    {metrics.log_likelihood(distribution, y_test):.3f}")
    print(f"RMSE                   {metrics.rmse(distribution, y_test):.1f}")
    print(f"CRPS                   {metrics.crps(distribution, y_test):.1f}")
    print(f"inside their interval  {inside:.0%} of {len(y_test)} test rows")


if __name__ == "__main__":
    main()
