"""Where a model starts: everything that needs data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepwishart._support.arguments import check_choice, number, shown, tensor, whole_number
from deepwishart.kernels import Kernel
from deepwishart.layers import DoublyStochasticLayer, Inducing, Layer
from deepwishart.likelihoods import Likelihood
from deepwishart.model import DeepKernelProcess
from deepwishart.spec import PROCESSES, ModelSpec

__all__ = [
    "STARTS",
    "Selection",
    "build",
    "make_model",
    "select_inducing",
    "start_noise",
    "starting_features",
]

STARTS = ("inputs", "prior")
_START_COST = 10.0  # nats per row and hidden layer that a start may lie from the prior
_PRIOR_NOISE = math.exp(4.0)  # the authors' deep GP starts with a precision of exp(-4)
_TIE_BREAK = 1e-3
_FAR = 5.0  # standard deviations


def build(
    process: str | Sequence[Layer],
    X: Tensor,
    y: Tensor,
    *,
    depth: int = 2,
    width: int | Sequence[int] | None = None,
    num_inducing: int = 100,
    inducing_inputs: Tensor | None = None,
    kernel: str | Kernel | Sequence[str | Kernel] = "squared_exponential",
    ard: bool = True,
    likelihood: str | Likelihood | None = None,
    output: str = "inducing",
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    noise: float = 0.1,
    precision: float = 9.0,
    mixing: float = 0.0,
    posterior: str = "bartlett",
    start: str = "inputs",
    jitter: float | None = None,
    bound: str = "titsias2009",
    inputs: str = "first",
) -> DeepKernelProcess:
    r"""A model of the given process, initialised from data.

    Inducing inputs are rows of ``X``, pseudo-targets of the output layer the corresponding rows of
    ``y``, and every hidden layer starts close to passing its inputs on, whatever the width, unless
    ``start`` says otherwise: a start that trains at any depth. ``X`` and ``y`` should be
    standardised.

    Args:
        process: ``"dwp"`` (deep Wishart process), ``"dgp"`` (global-inducing deep GP with exactly
            the same prior), ``"dsvi"`` (doubly stochastic deep GP) or ``"diwp"`` (deep inverse
            Wishart process); or ready hidden layers, which get their dtype and their start here.
        X: training inputs ``(N, num_features)``; the model is put on their device.
        y: training targets ``(N, D)`` or ``(N,)``.
        depth: number of layers, the output layer included; 1 is a sparse GP. Ready layers have
            decided it already.
        width: degrees of freedom :math:`\nu` of the hidden layers, one number or one for each; the
            number of features if ``None``. Ready layers have theirs.
        num_inducing: number of inducing points, at most the number of distinct rows.
        inducing_inputs: inducing points ``(P, num_features)`` to start from, instead of rows.
        kernel: a name from :func:`deepwishart.kernels.names`, a kernel to copy for each layer, or
            one of these for each layer, the output layer last. Ready layers have theirs, and only
            the output layer's is used.
        ard: a lengthscale for each input in the first layer of kernels by name, or one for all.
        likelihood: how targets arise from the output: a likelihood to copy, or its name; Gaussian
            noise if ``None``.
        output: ``"inducing"``, the paper's output layer, for any likelihood and for minibatches, or
            ``"collapsed"``, which integrates the output out: for Gaussian noise, and all rows at
            every step.
        dtype: ``torch.float64`` or ``torch.float32``.
        seed: seed of the initialisation.
        noise: initial noise variance, where ``likelihood`` is ``None``.
        precision: initial precision of the output layer's pseudo-targets.
        mixing: initial weight :math:`q` of the learned scale in the posterior of a ``dwp`` layer;
            the paper's experiments start from about 0.018, and with 0 there is no such scale.
        posterior: family of the posterior of a ``dwp`` layer: ``"bartlett"`` (the paper's), or with
            mixed ``"rows"``, ``"columns"`` or ``"rows_columns"``
            (:class:`deepwishart.layers.WishartLayer`), or ``"anchored"``, which holds features
            where they were observed (:class:`deepwishart.layers.AnchoredLayer`).
        start: where the hidden layers of ``dwp`` and ``dgp`` start: at their ``"inputs"``, or close
            to the ``"prior"``, as if noise had been observed. Deep GPs of three or more layers
            that were trained for long ended higher from there on two data sets of three, with a
            lower learning rate (docs, "What we found").
        jitter: relative jitter on kernel matrices; the dtype's default if ``None``.
        bound: ``"titsias2009"``, the bound of the paper's tables, or ``"tight"``, which is never
            below it for the same parameters (:mod:`deepwishart.layers.collapsed_output`).
        inputs: ``"first"``: only the first layer sees the inputs, as in the paper; ``"all"``: every
            layer does, :math:`K_\ell = k_G(G_{\ell-1}) \odot k_X(X)`. This is another prior, and
            every depth then contains the Gaussian process of one layer. Not for ``"diwp"``.

    >>> X, y = torch.randn(30, 3), torch.randn(30)
    >>> build("dwp", X, y, depth=3, num_inducing=10).depth
    3
    """
    X, y = tensor("X", X), tensor("y", y)
    device = X.device
    X, y = _check_data(X, y, dtype)
    layers: list[Layer] | None = None
    if not isinstance(process, str):
        layers = _check_layers(process, width, dtype)
        process, depth = "dwp", len(layers) + 1
        width = tuple(layer.width for layer in layers) or None
    num_outputs = y.shape[1]
    if isinstance(likelihood, Likelihood):
        num_outputs = _check_outputs(likelihood, num_outputs)
    per_layer: dict[str, Any] = {"width": width, "kernel": kernel}
    spec = ModelSpec(
        num_features=X.shape[1],
        num_outputs=num_outputs,
        process=process,
        depth=depth,
        num_inducing=num_inducing,
        ard=ard,
        likelihood="gaussian" if likelihood is None else likelihood,
        likelihood_options={"noise": noise} if likelihood is None else {},
        output=output,
        posterior=posterior,
        mixing=mixing,
        bound=bound,
        inputs=inputs,
        jitter=jitter,
        dtype="float64" if dtype == torch.float64 else "float32",
        **per_layer,
    )
    options: dict[str, Any] = {"inducing_inputs": inducing_inputs, "precision": precision}
    return make_model(spec, X, y, layers=layers, seed=seed, start=start, **options).to(device)


def make_model(
    spec: ModelSpec,
    X: Tensor,
    y: Tensor,
    *,
    layers: Sequence[Layer] | None = None,
    inducing_inputs: Tensor | None = None,
    seed: int = 0,
    precision: float = 9.0,
    start: str = "inputs",
) -> DeepKernelProcess:
    """A model of this structure, started from data on the CPU and in its precision; it has as many
    inducing points as there are distinct rows, if those are fewer than asked for. ``layers`` are
    ready hidden layers; the rest is as in :func:`build`.

    >>> X, y = torch.randn(30, 3).double(), torch.randn(30, 1).double()
    >>> make_model(ModelSpec(num_features=3, num_inducing=10), X, y).spec.num_inducing
    10
    """
    check_choice("start", start, STARTS)
    if start != "inputs" and (layers is not None or spec.process not in ("dwp", "dgp")):
        raise ValueError(
            f"start={start!r} is for the processes 'dwp' and 'dgp' by name; leave it out here."
        )
    generator = torch.Generator().manual_seed(whole_number("seed", seed, 0, most=2**63 - 1))
    likelihood = spec.make_likelihood()
    likelihood.start_from(y)
    latents = likelihood.initial_latents(y)
    if likelihood.location_scale:  # targets far from all others do not say where functions are
        latents = latents.clamp(-_FAR, _FAR)
    if inducing_inputs is None:
        selected = select_inducing(X, spec.num_inducing, generator)
        points, latents = selected.points, selected.averages(latents)
    else:
        points = _check_inducing(inducing_inputs, X)
        latents = latents[torch.cdist(points, X).argmin(-1)]  # of the nearest rows
    model = spec.replace(num_inducing=len(points)).make(layers)
    model.likelihood.load_state_dict(likelihood.state_dict())
    if model.inducing_inputs is not None:
        model.inducing_inputs.data.copy_(points)
    inducing = _start_layers(model, points, X, start, generator)
    model.output.start_from(inducing, latents, number("precision", precision))
    model.remember(X, y)
    return model


@torch.no_grad()
def hold_rows(model: DeepKernelProcess, X: Tensor) -> None:
    """Let the inducing points of a single layer be the distinct rows of ``X``, whose inducing
    outputs nothing has learned.

    >>> X = torch.randn(6, 2).double()
    >>> model = build("dwp", X[:4], X[:4, :1], depth=1, output="exact")
    >>> hold_rows(model, X)
    >>> model.num_inducing
    6
    """
    points = torch.unique(X, dim=0)
    model.inducing_inputs = torch.nn.Parameter(points.to(model.inducing_inputs))
    model.num_inducing = len(points)


def _start_layers(
    model: DeepKernelProcess, points: Tensor, X: Tensor, start: str, generator: torch.Generator
) -> Inducing:
    """Let every hidden layer start close to passing its inputs on, or close to the prior."""
    first, rows = model.scale_inputs(points), model.scale_inputs(X)
    inducing: Inducing = first
    for layer in model.hidden:
        width = layer.width
        noise = _PRIOR_NOISE if start == "prior" else start_noise(len(X), len(points) * width)
        if start == "prior":
            features = torch.randn(len(first), width, generator=generator, dtype=first.dtype)
            features = features / width**0.5
        else:
            features = starting_features(first, width, generator, rows)
        try:
            inducing = layer.start_from(inducing, features, noise)
        except RuntimeError as error:
            raise ValueError(
                f"{layer.name} cannot start from {len(first)} inducing points with "
                f"{first.shape[1]} features, at {width} columns of its own: {error}"
            ) from error
        inducing = model.join(inducing, first)
    return inducing


def start_noise(num_rows: int, entries: int) -> float:
    r"""Noise :math:`\lambda`, relative to the prior variance, with which the start of a layer
    counts as observed: that many ``entries``, each at :math:`\tfrac12 \log(1 + 1/\lambda)`, then
    cost about 10 nats per row. Where rows are many, next to none.

    >>> start_noise(num_rows=10, entries=1_000) > start_noise(num_rows=100, entries=1_000)
    True
    """
    return 1.0 / math.expm1(min(2.0 * _START_COST * num_rows / entries, 100.0))


class Selection(NamedTuple):
    """Rows to start inducing points from: the points ``(P, num_features)``, the number of a row for
    each, and for every row the number of its group of identical rows."""

    points: Tensor
    rows: Tensor
    groups: Tensor

    def averages(self, values: Tensor) -> Tensor:
        """Values of rows ``(N, D)`` at the points: means over identical rows, so that one of
        several contradicting targets does not speak for all of them."""
        sums = values.new_zeros(int(self.groups.max()) + 1, values.shape[1])
        sums.index_add_(0, self.groups, values)
        counts = torch.bincount(self.groups).to(values).unsqueeze(-1)
        return (sums / counts)[self.groups[self.rows]]


def select_inducing(X: Tensor, num_inducing: int, generator: torch.Generator) -> Selection:
    """Rows of ``X`` to start the inducing inputs from.

    Rows are chosen at random among distinct ones, so there may be fewer than asked for. Greedy
    conditional variance and k-means were no better after training (docs, "Defaults").

    >>> X = torch.tensor([[0.0], [1.0], [1.0]])
    >>> select_inducing(X, 3, torch.Generator().manual_seed(0)).points.sort(0).values.T
    tensor([[0., 1.]])
    """
    order = torch.randperm(X.shape[0], generator=generator)
    _, group = torch.unique(X[order], dim=0, return_inverse=True)
    first = torch.full((int(group.max()) + 1,), len(order))
    first.scatter_reduce_(0, group, torch.arange(len(order)), "amin")
    chosen = order[first.sort().values[:num_inducing]]
    return Selection(X[chosen].clone(), chosen, torch.empty_like(group).scatter_(0, order, group))


def starting_features(
    inputs: Tensor, width: int, generator: torch.Generator, rows: Tensor | None = None
) -> Tensor:
    r"""Features ``(P, width)`` for hidden layers to start from: the inputs, or the leading
    principal ones where there are more than ``width``, with columns of mean zero and mean squared
    norm of rows about one, as under the prior, plus a little noise so that no two columns are tied.

    Mean and spread of a column are those of all ``rows``, where given. Where outliers hold a
    column's variance and none is among the points, the points' own spread would say next to
    nothing, and to divide by it would make a slope that no start recovers from.

    >>> starting_features(torch.randn(5, 3), width=2, generator=torch.Generator()).shape
    torch.Size([5, 2])
    """
    inputs = inputs.detach()
    rows = inputs if rows is None else rows.detach()
    centre = rows.mean(0)
    spread = (rows - centre).square().mean(0).sqrt()
    # A constant column keeps its zeros; dividing by a rounding error would blow it up.
    usable = spread > 1e-4 * rows.abs().amax(0)
    standard = torch.where(usable, (inputs - centre) / torch.where(usable, spread, 1.0), 0.0)
    linear, missing = standard, width - standard.shape[1]
    if missing < 0:
        directions = torch.linalg.svd(standard - standard.mean(0), full_matrices=True).Vh
        linear, missing = standard @ directions[:width].mT, 0
    linear = torch.nn.functional.pad(linear, (0, missing)) / math.sqrt(inputs.shape[1])
    noise = torch.randn(linear.shape, generator=generator, dtype=linear.dtype).to(linear.device)
    return linear + _TIE_BREAK * noise


def _check_layers(
    layers: Sequence[Layer], width: int | Sequence[int] | None, dtype: torch.dtype
) -> list[Layer]:
    """Ready layers, which are used as they are and not copied."""
    every = list(layers) if isinstance(layers, Iterable) else [layers]
    found = [type(layer).__name__ for layer in every if not isinstance(layer, Layer)]
    if found:
        raise ValueError(
            f"process is the name of one ({', '.join(PROCESSES)}) or a sequence of hidden layers; "
            f"got {', '.join(found)} in it."
        )
    if width is not None:
        raise ValueError("Ready layers have their widths; leave width=None.")
    for below, above in pairwise(layers):
        if isinstance(below, DoublyStochasticLayer) and not isinstance(above, type(below)):
            raise ValueError(
                f"{below.name} has inducing points of its own and hands none on, but {above.name} "
                f"({type(above).__name__}) needs them."
            )
    return [layer.to(dtype) for layer in layers]


def _check_outputs(likelihood: Likelihood, num_columns: int) -> int:
    """The number of targets, if a likelihood goes with so many columns of ``y``."""
    if likelihood.num_columns != num_columns:
        known = "" if likelihood.num_columns == likelihood.num_outputs else " and log exposures"
        raise ValueError(
            f"y has {num_columns} columns, but {type(likelihood).__name__} is for "
            f"{likelihood.num_outputs} targets{known}: set its num_outputs."
        )
    return likelihood.num_outputs


def _check_inducing(points: Tensor, X: Tensor) -> Tensor:
    points = tensor("inducing_inputs", points).to(device="cpu", dtype=X.dtype)
    if points.ndim != 2 or points.shape[1] != X.shape[1] or not len(points):
        raise ValueError(
            f"inducing_inputs must have shape (points, {X.shape[1]}), got {tuple(points.shape)}."
        )
    if not torch.isfinite(points).all():
        raise ValueError("inducing_inputs has NaN or infinite values.")
    return points.clone()


def _check_data(X: Tensor, y: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if not any(dtype is known for known in (torch.float32, torch.float64)):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {shown(dtype)}.")
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(
            f"X must have shape (rows, features), none of them 0; got {tuple(X.shape)}."
        )
    y = y.unsqueeze(-1) if y.ndim == 1 else y
    if y.ndim != 2 or y.shape[0] != X.shape[0] or y.shape[1] == 0:
        raise ValueError(
            f"y must have one row for each of the {X.shape[0]} rows of X, got {tuple(y.shape)}."
        )
    # Models are put together on the CPU, whatever the device that they are for.
    X, y = (t.to(device="cpu", dtype=dtype) for t in (X, y))
    for name, values in (("X", X), ("y", y)):
        if not torch.isfinite(values).all():
            column = int((~torch.isfinite(values)).any(0).nonzero()[0])
            raise ValueError(
                f"{name} has NaN or infinite values, first in column {column}; impute or drop them."
            )
    return X, y
