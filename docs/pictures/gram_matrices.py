"""
What layers have learned
========================

A deep Wishart process has no features to look at, it has Gram matrices. The features of
:meth:`~deepwishart.DeepKernelProcess.sample_functions` are a root of them. Their posterior mean is
drawn with rows in the order of the target, which is a wave in one of three columns here. The kernel
of the inputs sees all columns; the last layer should be bright where targets are alike, along the
diagonal.
"""

import torch
from matplotlib.figure import Figure

import deepwishart as dw
from deepwishart.training import Protocol, train

generator = torch.Generator().manual_seed(0)
X = torch.randn(80, 3, generator=generator, dtype=torch.float64)
y = (1.5 * X[:, 0]).sin()
y = (y - y.mean()) / y.std()
model = dw.build("dwp", X, y, depth=3, num_inducing=25)
train(model, X, y, Protocol.named("fast", len(X)).replace(max_iter=150, kl_anneal=15))

grams = {"input kernel": model.layers[0].kernel.square(model.scale_inputs(X)).detach()}
for number, features in enumerate(model.sample_functions(X, 20, generator).layers, start=1):
    grams[f"layer {number}"] = (features @ features.mT).mean(0)
order = y.argsort()
figure = Figure(figsize=(9, 3.2), layout="constrained")
for axes, (title, gram) in zip(figure.subplots(1, 3), grams.items(), strict=True):
    axes.imshow(gram[order][:, order])
    axes.set(title=title, xlabel="rows, by target", ylabel="rows, by target")
