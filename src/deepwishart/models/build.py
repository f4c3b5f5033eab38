"""From data and a few choices to a ready model."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

from deepwishart import linalg
from deepwishart._support.arguments import number, shown, tensor, whole_number
from deepwishart._support.choices import check_choice
from deepwishart.kernels import Kernel
from deepwishart.layers import DoublyStochasticLayer, Layer
from deepwishart.likelihoods import Gaussian, Likelihood
from deepwishart.models.initialise import nearest_rows, select_inducing
from deepwishart.models.plan import OUTPUTS, PROCESSES, STARTS, Plan, make_output, start_layers
from deepwishart.models.process import DeepKernelProcess

__all__ = ["OUTPUTS", "PROCESSES", "build"]

# Jitter is variance that nothing explains, and the collapsed bound divides it by the noise.
_COLLAPSED_JITTER = 1e-8
T = TypeVar("T")


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
    likelihood: Likelihood | None = None,
    output: str = "inducing",
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    noise: float = 0.1,
    precision: float = 9.0,
    mixing: float = 1e-6,
    posterior: str = "bartlett",
    start: str = "inputs",
    jitter: float | None = None,
    linear_mean: bool = False,
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
        likelihood: how targets arise from the output, copied; Gaussian noise if ``None``.
        output: ``"inducing"``, the paper's output layer, for any likelihood and for minibatches, or
            ``"collapsed"``, which integrates the output out: for Gaussian noise, and all rows at
            every step.
        dtype: ``torch.float64`` or ``torch.float32``.
        seed: seed of the initialisation.
        noise: initial noise variance, where ``likelihood`` is ``None``.
        precision: initial precision of the output layer's pseudo-targets.
        mixing: initial weight :math:`q` of the learned scale in the posterior of a ``dwp`` layer;
            the paper's experiments start from about 0.018.
        posterior: family of the posterior of a ``dwp`` layer: ``"bartlett"`` (the paper's), or with
            mixed ``"rows"``, ``"columns"`` or ``"rows_columns"``
            (:class:`deepwishart.layers.WishartLayer`).
        start: where the hidden layers of ``dwp`` and ``dgp`` start: at their ``"inputs"``, or close
            to the ``"prior"``, as if noise had been observed. Deep GPs of three or more layers
            that were trained for long ended higher from there on two data sets of three, with a
            lower learning rate (docs, "What we found").
        jitter: relative jitter on kernel matrices; the dtype's default if ``None``.
        linear_mean: give ``dsvi`` hidden layers a linear mean function (this changes the prior).

    >>> X, y = torch.randn(30, 3), torch.randn(30)
    >>> build("dwp", X, y, depth=3, num_inducing=10).depth
    3
    """
    X, y = tensor("X", X), tensor("y", y)
    device = X.device
    X, y = _check_data(X, y, dtype)
    layers = None if isinstance(process, str) else _check_layers(process, width, dtype)
    depth = depth if layers is None else len(layers) + 1
    _check_choices(process, output, start, depth, num_inducing, mixing, linear_mean, likelihood)
    generator = torch.Generator().manual_seed(whole_number("seed", seed, 0, most=2**63 - 1))
    likelihood = _check_likelihood(likelihood, y.shape[1], noise, dtype)
    likelihood.start_from(y)
    if inducing_inputs is None:
        selected = select_inducing(X, num_inducing, generator)
        points, latents = selected.points, selected.averages(likelihood.initial_latents(y))
    else:
        points = _check_inducing(inducing_inputs, X)
        latents = likelihood.initial_latents(y)[nearest_rows(points, X)]
    plain_jitter = linalg.default_jitter(dtype) if jitter is None else number("jitter", jitter)
    precise = jitter is None and output == "collapsed" and dtype == torch.float64
    plan = Plan(
        inducing_inputs=points,
        num_rows=len(X),
        widths=_per_layer("width", _check_widths(width, layers, X.shape[1]), depth - 1),
        kernels=_per_layer("kernel", _several(kernel), depth),
        ard=ard,
        mixing=mixing,
        posterior=posterior,
        start=start,
        jitter=plain_jitter,
        output_jitter=_COLLAPSED_JITTER if precise else plain_jitter,
        linear_mean=linear_mean,
        generator=generator,
    )
    name = process if isinstance(process, str) else "custom"
    if layers is None:
        layers = [PROCESSES[name](plan, index) for index in range(depth - 1)]
    own = [isinstance(layer, DoublyStochasticLayer) for layer in layers] or [name == "dsvi"]
    points_of_output = start_layers(layers, plan, X)
    model = DeepKernelProcess(
        name,
        layers,
        make_output(
            output,
            plan,
            latents.split(likelihood.latent_groups, dim=-1),
            number("precision", precision),
            points_of_output if own[-1] else None,
        ),
        likelihood,
        inducing_inputs=None if all(own) else points,
        num_features=X.shape[1],
        num_inducing=len(points),
    ).to(device)
    model.remember(X, y)
    return model


def _several(value: T | Sequence[T]) -> Sequence[T]:
    """What was given for all layers at once, as for each."""
    several = isinstance(value, Sequence) and not isinstance(value, str)
    return value if several else [value]  # type: ignore[list-item, return-value]


def _per_layer(name: str, values: Sequence[T], count: int) -> Sequence[T]:
    if len(values) == 1:
        return [*values] * count
    if len(values) != count:
        raise ValueError(
            f"{name} has {len(values)} entries for {count} layers; give one value for all of "
            "them, or one for each."
        )
    return values


def _check_choices(
    process: str | Sequence[Layer],
    output: str,
    start: str,
    depth: int,
    num_inducing: int,
    mixing: float,
    linear_mean: bool,
    likelihood: Likelihood | None,
) -> None:
    if isinstance(process, str):
        check_choice("process", process, PROCESSES)
    check_choice("output", output, OUTPUTS)
    check_choice("start", start, STARTS)
    if start != "inputs" and process not in ("dwp", "dgp"):
        raise ValueError(
            f"start={start!r} is for the processes 'dwp' and 'dgp' by name; leave it out here."
        )
    whole_number("depth", depth)
    whole_number("num_inducing", num_inducing)
    number("mixing", mixing, high=1.0)
    if linear_mean and process != "dsvi":
        raise ValueError(
            f"linear_mean=True is for 'dsvi' only: a {process} with a mean function would need "
            "a non-central Wishart prior."
        )
    if output == "collapsed" and not (likelihood is None or isinstance(likelihood, Gaussian)):
        raise ValueError(
            f"output='collapsed' integrates Gaussian noise; {type(likelihood).__name__} needs "
            "output='inducing'."
        )


def _check_widths(
    width: int | Sequence[int] | None, layers: Sequence[Layer] | None, num_features: int
) -> Sequence[int]:
    """Widths of the hidden layers; ready layers may know theirs."""
    if width is None and layers:
        return [int(getattr(layer, "width", num_features)) for layer in layers]
    if width is None:
        return [num_features]
    return [whole_number("width", each) for each in _several(width)]


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


def _check_likelihood(
    likelihood: Likelihood | None, num_columns: int, noise: float, dtype: torch.dtype
) -> Likelihood:
    if likelihood is None:
        return Gaussian(num_columns, noise, dtype=dtype)
    if not isinstance(likelihood, Likelihood):
        raise ValueError(
            f"likelihood must be a likelihoods.Likelihood, got {type(likelihood).__name__}."
        )
    if likelihood.num_columns != num_columns:
        known = "" if likelihood.num_columns == likelihood.num_outputs else " and log exposures"
        raise ValueError(
            f"y has {num_columns} columns, but {type(likelihood).__name__} is for "
            f"{likelihood.num_outputs} targets{known}: set its num_outputs."
        )
    return copy.deepcopy(likelihood).to(dtype)


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
