"""Functions instead of rows
=========================

Whole functions from the posterior, and what the hidden layer makes of the inputs. ::

    python examples/function_samples.py --steps 500 --figure functions.png

Predictions treat rows one by one. Where rows have to be consistent with each other (the maximum of
a curve, the total over a region), draw functions jointly instead.
"""

import argparse

import torch

import deepwishart as dw
from deepwishart.training import Protocol, train


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--figure", help="file to draw the functions into")
    options = parser.parse_args(arguments)

    generator = torch.Generator().manual_seed(0)
    X = torch.rand(60, 1, generator=generator, dtype=torch.float64) * 4 - 2
    X = X[(X - 0.4).abs().squeeze(-1) > 0.6]  # a gap in the data
    y = (2 * X).sin() + 0.1 * torch.randn(X.shape, generator=generator, dtype=torch.float64)
    model = dw.build("dwp", X, y, depth=2, width=3, num_inducing=20)
    protocol = Protocol.named("fast", len(X)).replace(
        max_iter=options.steps, kl_anneal=options.steps // 10
    )
    train(model, X, y, protocol)

    grid = torch.linspace(-2, 2, 81, dtype=torch.float64).unsqueeze(-1)
    samples = model.sample_functions(grid, 200, generator=generator)
    functions = samples.functions.squeeze(-1)  # samples x points
    features = samples.layers[0]  # samples x points x width; determined up to rotation
    grams = features @ features.mT

    highest = grid[functions.argmax(-1), 0]
    gap = (grid - 0.4).abs().squeeze(-1) < 0.3
    print(f"spread of functions at the data  {functions[:, ~gap].std(0).mean():.3f}")
    print(f"spread of functions in the gap   {functions[:, gap].std(0).mean():.3f}")
    print(f"the maximum lies at x =          {highest.mean():.2f} +- {highest.std():.2f}")
    print(f"Gram matrices of layer 1         {tuple(grams.shape)}, rank {features.shape[-1]}")

    if options.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.subplots()
        axes.plot(grid, functions[:15].mT, color="#0072B2", linewidth=0.8, alpha=0.6)
        axes.plot(X, y, "o", color="black", markersize=3)
        axes.set(xlabel="x", ylabel="y", title="15 posterior functions")
        figure.savefig(options.figure, dpi=150)
        print(f"wrote {options.figure}")


if __name__ == "__main__":
    main()
