"""
Functions of one input
======================

:func:`~deepwishart.plots.posteriors` shows what a deep model with one input believes: features of
the first layer, functions drawn from the posterior, and the predictive band. The data are those
of the paper's toy comparison, with a gap between them; ``deepwishart toy`` makes that comparison
in full.
"""

import torch

import deepwishart as dw
from deepwishart import plots
from deepwishart.reproduction.toy import toy_data
from deepwishart.training import Protocol, train

x, y = (torch.as_tensor(values)[:, None] for values in toy_data(seed=0))
x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
grid = torch.linspace(-2, 2, 81, dtype=torch.float64)[:, None]
protocol = Protocol.named("fast", len(x)).replace(max_iter=300, learning_rate=1e-2)
shown = {}
for process in ("dwp", "dgp"):
    model = dw.build(process, x, y, depth=2, width=2, num_inducing=12)
    train(model, x, y, protocol)
    generator = torch.Generator().manual_seed(0)
    prediction = model.predict(grid, generator=generator)
    samples = model.sample_functions(grid, 15, generator)
    if process == "dwp":  # its features are a root of a Gram matrix, any rotation is as good
        samples = samples.rotated(generator)
    shown[process] = (samples, (prediction.mean, prediction.stddev))

figure = plots.posteriors({"deep Wishart process": shown["dwp"]}, grid, data=(x, y))

# %%
# Several models are put below each other, with functions and predictions on common axes.

comparison = plots.posteriors(shown, grid, data=(x, y))
