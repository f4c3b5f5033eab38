"""Noise that depends on the inputs
================================

The same data under constant noise and under noise that is a function of the inputs. ::

    python examples/noise_that_changes.py --steps 500 --figure noise.svg

Both models have the same mean. What differs is how far from it they expect the next measurement.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from deepwishart import DeepKernelRegressor, metrics

NAMES = {"gaussian": "constant noise", "heteroscedastic": "noise that depends on x"}


def make_data(num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A sine with noise of standard deviation 0.05 + 0.15 x."""
    random = np.random.default_rng(seed)
    x = random.uniform(0, 4, num_rows)
    return x[:, None], np.sin(2 * x) + (0.05 + 0.15 * x) * random.standard_normal(num_rows)


def draw(X: np.ndarray, y: np.ndarray, models: dict[str, DeepKernelRegressor]) -> Figure:
    """Data, mean and 90% interval of each model, side by side."""
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    line = np.linspace(0, 4, 200)[:, None]
    for axes, (name, model) in zip(figure.subplots(1, 2, sharey=True), models.items(), strict=True):
        lower, upper = model.predict_interval(line)
        axes.fill_between(line[:, 0], lower, upper, alpha=0.25, linewidth=0, label="90% interval")
        axes.plot(line[:, 0], model.predict(line), label="mean")
        axes.plot(X[:, 0], y, ".", color="black", markersize=3, label="data")
        axes.set(title=NAMES[name], xlabel="x")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("y")
    figure.axes[0].legend(frameon=False, loc="lower left", fontsize="small")
    return figure


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args(arguments)

    X, y = make_data(400, seed=0)
    X_test, y_test = make_data(2000, seed=1)
    models = {}
    for name in NAMES:
        models[name] = DeepKernelRegressor(
            likelihood=name, n_inducing=20, max_iter=options.steps, random_state=0
        )
        models[name].fit(X, y)
        prediction = models[name].predict_distribution(X_test)
        lower, upper = prediction.quantile([0.05, 0.95])
        inside = (lower <= y_test) & (y_test <= upper)
        quarter = (X_test[:, 0] // 1.0).astype(int)
        shares = " ".join(f"{inside[quarter == each].mean():.2f}" for each in range(4))
        print(f"{NAMES[name]}")
        print(f"  test log likelihood  {metrics.log_likelihood(prediction, y_test):.3f}")
        print(f"  RMSE  {metrics.rmse(prediction, y_test):.3f}")
        print(f"  inside the 90% interval, by quarters of x  {shares}")
    if options.figure:
        draw(X, y, models).savefig(options.figure)


if __name__ == "__main__":
    main()
