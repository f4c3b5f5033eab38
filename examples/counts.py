"""Counts, with an exposure
========================

Counting over times that differ from row to row. ::

    python examples/counts.py --steps 500

Visits are counted over some hours each. Their rate depends on the temperature, and they spread
more than Poisson's distribution allows. Counts are not standardised, the column of hours is no
input, and intervals have whole numbers as ends.
"""

import argparse

import numpy as np

from deepwishart import DeepKernelRegressor, metrics


def make_visits(num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (temperature, hours) and counts of mean ``hours * rate`` and dispersion 0.2."""
    random = np.random.default_rng(seed)
    temperature, hours = random.uniform(0, 30, num_rows), random.uniform(0.5, 8, num_rows)
    mean = hours * np.exp(1.0 - ((temperature - 20) / 10) ** 2)
    return np.c_[temperature, hours], random.poisson(mean * random.gamma(5.0, 0.2, num_rows))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args(arguments)

    X, y = make_visits(300, seed=0)
    X_test, y_test = make_visits(300, seed=1)
    for likelihood in ("poisson", "negative_binomial"):
        regressor = DeepKernelRegressor(
            likelihood=likelihood,
            exposure=1,
            n_inducing=20,
            max_iter=options.steps,
            random_state=0,
        )
        regressor.fit(X, y)
        distribution = regressor.predict_distribution(X_test)
        inside = metrics.interval_coverage(distribution, y_test, coverage=0.9)
        print(f"{likelihood}")
        print(f"  log probability per row  {metrics.log_likelihood(distribution, y_test):.3f}")
        print(f"  inside the 90% interval  {inside:.0%}")

    for hours in (1, 4):
        lower, upper = regressor.predict_interval(np.array([[20.0, hours]]))
        print(f"at 20 degrees, in {hours} hours: {lower[0]:.0f} to {upper[0]:.0f} visits")


if __name__ == "__main__":
    main()
