"""
What layers have learned
========================

A deep Wishart process has no features to look at, it has Gram matrices.
:func:`~deepwishart.plots.layer_grams` takes their posterior mean from a model, and
:func:`~deepwishart.plots.gram_matrices` draws them with rows in the order of the target. Here the
target is a wave in one of three columns. The kernel of the inputs sees all columns; the last one
should be bright where targets are alike, along the diagonal.
"""

import torch

import deepwishart as dw
from deepwishart import plots
from deepwishart.training import Protocol, train

generator = torch.Generator().manual_seed(0)
X = torch.randn(80, 3, generator=generator, dtype=torch.float64)
y = (1.5 * X[:, 0]).sin()
y = (y - y.mean()) / y.std()
model = dw.build("dwp", X, y, depth=3, num_inducing=25)
train(model, X, y, Protocol.named("fast", len(X)).replace(max_iter=150, kl_anneal=15))
grams = plots.layer_grams(model, X, generator=generator)
figure = plots.gram_matrices({"dwp": grams}, y.numpy())
