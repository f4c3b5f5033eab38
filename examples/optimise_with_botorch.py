"""Bayesian optimisation with BoTorch
==================================

A function that is expensive to evaluate, maximised with a deep Wishart process as surrogate. ::

    python examples/optimise_with_botorch.py --steps 500 --figure optimisation.png

Needs BoTorch: ``pip install 'deepwishart[botorch]'``. Each round fits the model to what is known,
takes the point of largest expected improvement, and evaluates the function there. In the end,
Thompson sampling says where the maximum might still be.
"""

import argparse
import warnings

import torch
from torch import Tensor

from deepwishart import DeepKernelRegressor

BOUNDS = torch.tensor([[0.0], [1.0]], dtype=torch.float64)


def function(x: Tensor) -> Tensor:
    """Forrester's, upside down: a small hill at 0.14, the summit of 6.02 at 0.757."""
    return -((6 * x - 2) ** 2) * torch.sin(12 * x - 4)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--figure", help="file to draw the last round into")
    options = parser.parse_args(arguments)

    from botorch.acquisition.logei import qLogExpectedImprovement
    from botorch.generation.sampling import MaxPosteriorSampling
    from botorch.optim import optimize_acqf

    from deepwishart.botorch import DeepKernelModel

    # A line search that fails at one of several starts is nothing to worry about, nor is a
    # surrogate that more steps, or rows, would make a little better.
    known = ("Optimization failed", "Training ended after", "The bound, ", ". rows cannot tell")
    for message in known:
        warnings.filterwarnings("ignore", message=message)
    torch.manual_seed(0)
    X = torch.linspace(0, 1, 4, dtype=torch.float64)[:, None]
    y = function(X)
    print(f"{'round':>6} {'x':>6} {'f(x)':>7} {'best':>7}")
    for number in range(1, options.rounds + 1):
        regressor = DeepKernelRegressor(depth=2, width=3, max_iter=options.steps, random_state=0)
        model = DeepKernelModel(regressor.fit(X, y))
        acquisition = qLogExpectedImprovement(model, best_f=y.max())
        x, _ = optimize_acqf(
            acquisition, BOUNDS, q=1, num_restarts=4, raw_samples=32, options={"maxiter": 30}
        )
        X, y = torch.cat([X, x]), torch.cat([y, function(x)])
        print(f"{number:6d} {x.item():6.3f} {y[-1].item():7.3f} {y.max().item():7.3f}")

    grid = torch.linspace(0, 1, 101, dtype=torch.float64)[:, None]
    chosen = MaxPosteriorSampling(model, replacement=False)(grid, num_samples=5)
    print("Thompson sampling would try", ", ".join(f"{x:.2f}" for x in sorted(chosen.ravel())))
    if options.figure:
        draw(model, acquisition, grid, X, y, options.figure)


def draw(model, acquisition, grid: Tensor, X: Tensor, y: Tensor, file: str) -> None:
    """The surrogate of the last round above its acquisition function."""
    from matplotlib.figure import Figure

    with torch.no_grad():
        posterior = model.posterior(grid[:, None])
        mean, spread = posterior.mean.ravel(), 2 * posterior.variance.sqrt().ravel()
        improvement = acquisition(grid[:, None])
    figure = Figure(figsize=(7, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    x = grid.ravel()
    above.fill_between(x, mean - spread, mean + spread, color="#0072B2", alpha=0.25, lw=0)
    above.plot(x, mean, color="#0072B2", label="surrogate, two standard deviations")
    above.plot(x, function(grid).ravel(), color="#767676", ls="--", label="the function")
    above.plot(X[:-1], y[:-1], "o", color="black", ms=4, label="known so far")
    above.plot(X[-1:], y[-1:], "*", color="#D55E00", ms=11, label="tried next")
    above.set(ylabel="f(x)")
    above.legend(frameon=False, fontsize=9, loc="lower left")
    below.plot(x, improvement, color="#D55E00")
    below.axvline(X[-1].item(), color="#D55E00", lw=0.8, ls=":")
    below.set(xlabel="x", ylabel="log expected improvement")
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
