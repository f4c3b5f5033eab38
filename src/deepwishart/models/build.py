"""From data and a few choices to a ready model."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepwishart import kernels, linalg
from deepwishart.kernels import Kernel
from deepwishart.layers import (
    DoublyStochasticLayer,
    GlobalInducingLayer,
    GPOutputLayer,
    InverseWishartLayer,
    Layer,
    WishartLayer,
)
from deepwishart.likelihoods import Gaussian
from deepwishart.models.deep_kernel_process import DeepKernelProcess
from deepwishart.models.initialise import linear_map, select_inducing, starting_features

__all__ = ["PROCESSES", "build"]


@dataclass(frozen=True)
class _Plan:
    """Everything a process needs to make its layers."""

    inducing_inputs: Tensor
    inducing_targets: Tensor
    depth: int
    width: int
    kernel: str | Kernel
    noise: float
    precision: float
    jitter: float
    linear_mean: bool
    generator: torch.Generator

    @property
    def dtype(self) -> torch.dtype:
        return self.inducing_inputs.dtype

    @property
    def num_inducing(self) -> int:
        return self.inducing_inputs.shape[0]

    def make_kernel(self, index: int) -> Kernel:
        """ARD in the first layer, where features exist; isotropic after it."""
        features = self.inducing_inputs.shape[1] if index == 0 else None
        return kernels.make(self.kernel, num_features=features, dtype=self.dtype)


def build(
    process: str,
    X: Tensor,
    y: Tensor,
    *,
    depth: int = 2,
    width: int | None = None,
    num_inducing: int = 100,
    kernel: str | Kernel = "squared_exponential",
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    noise: float = 0.1,
    precision: float = 9.0,
    jitter: float | None = None,
    linear_mean: bool = False,
) -> DeepKernelProcess:
    r"""A model of the given process, initialised from data.

    Inducing inputs are rows of ``X``, pseudo-targets of the output layer the corresponding rows of
    ``y``, and every hidden layer starts close to passing its inputs on, whatever the width: a
    start that trains at any depth. ``X`` and ``y`` should be standardised.

    Args:
        process: ``"dwp"`` (deep Wishart process), ``"dgp"`` (global-inducing deep GP with exactly
            the same prior), ``"dsvi"`` (doubly stochastic deep GP) or ``"diwp"`` (deep inverse
            Wishart process).
        X: training inputs ``(N, num_features)``; the model is put on their device.
        y: training targets ``(N, D)`` or ``(N,)``.
        depth: number of layers, the output layer included; 1 is a sparse GP.
        width: degrees of freedom :math:`\nu` of every hidden layer; the number of features if
            ``None``.
        num_inducing: number of inducing points, at most the number of distinct rows.
        kernel: a name from :func:`deepwishart.kernels.names`, or a kernel to copy for each layer.
        dtype: ``torch.float64`` or ``torch.float32``.
        seed: seed of the initialisation.
        noise: initial noise variance.
        precision: initial precision of the output layer's pseudo-targets.
        jitter: relative jitter on kernel matrices; the dtype's default if ``None``.
        linear_mean: give ``dsvi`` hidden layers a linear mean function (this changes the prior).

    >>> X, y = torch.randn(30, 3), torch.randn(30)
    >>> build("dwp", X, y, depth=3, num_inducing=10).depth
    3
    """
    if process not in PROCESSES:
        close = difflib.get_close_matches(str(process), PROCESSES, n=1, cutoff=0.3)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"Unknown process {process!r}; choose from {', '.join(PROCESSES)}.{hint}")
    device = torch.as_tensor(X).device
    X, y = _check_data(X, y, dtype)
    _check_positive(depth=depth, num_inducing=num_inducing, width=1 if width is None else width)
    if linear_mean and process != "dsvi":
        raise ValueError(
            f"linear_mean=True is for 'dsvi' only: a {process} with a mean function would need "
            "a non-central Wishart prior."
        )
    generator = torch.Generator().manual_seed(seed)
    inducing_inputs, inducing_targets = select_inducing(X, y, num_inducing, generator)
    plan = _Plan(
        inducing_inputs=inducing_inputs,
        inducing_targets=inducing_targets,
        depth=depth,
        width=width or X.shape[1],
        kernel=kernel,
        noise=noise,
        precision=precision,
        jitter=linalg.default_jitter(dtype) if jitter is None else jitter,
        linear_mean=linear_mean,
        generator=generator,
    )
    return PROCESSES[process](process, plan).to(device)


def _global_inducing_model(
    process: str, plan: _Plan, make_layer: Callable[[_Plan, int], Layer]
) -> DeepKernelProcess:
    last = plan.depth - 1
    layers = [make_layer(plan, index) for index in range(last)]
    model = DeepKernelProcess(
        process,
        layers,
        GPOutputLayer(
            plan.make_kernel(last),
            plan.inducing_targets,
            precision=plan.precision,
            jitter=plan.jitter,
        ),
        _likelihood(plan),
        inducing_inputs=plan.inducing_inputs,
        num_features=plan.inducing_inputs.shape[1],
    )
    inducing: Any = model.inducing_start()
    features = starting_features(inducing, plan.width, plan.generator)
    for layer in layers:
        inducing = layer.start_from(inducing, features)
    return model


def _build_dwp(process: str, plan: _Plan) -> DeepKernelProcess:
    def layer(plan: _Plan, index: int) -> Layer:
        return WishartLayer(
            plan.make_kernel(index),
            plan.width,
            plan.num_inducing,
            generator=plan.generator,
            name=f"layer {index + 1}",
            jitter=plan.jitter,
            dtype=plan.dtype,
        )

    return _global_inducing_model(process, plan, layer)


def _build_dgp(process: str, plan: _Plan) -> DeepKernelProcess:
    def layer(plan: _Plan, index: int) -> Layer:
        return GlobalInducingLayer(
            plan.make_kernel(index),
            torch.zeros(plan.num_inducing, plan.width, dtype=plan.dtype),
            name=f"layer {index + 1}",
            jitter=plan.jitter,
        )

    return _global_inducing_model(process, plan, layer)


def _build_diwp(process: str, plan: _Plan) -> DeepKernelProcess:
    def layer(plan: _Plan, index: int) -> Layer:
        return InverseWishartLayer(
            plan.make_kernel(index),
            plan.num_inducing,
            generator=plan.generator,
            name=f"layer {index + 1}",
            jitter=plan.jitter,
            dtype=plan.dtype,
        )

    return _global_inducing_model(process, plan, layer)


def _build_dsvi(process: str, plan: _Plan) -> DeepKernelProcess:
    num_features, last = plan.inducing_inputs.shape[1], plan.depth - 1
    inducing = plan.inducing_inputs / math.sqrt(num_features)
    features = starting_features(inducing, plan.width, plan.generator)
    layers: list[DoublyStochasticLayer] = []
    for index in range(last):
        weights = linear_map(inducing, plan.width) if plan.linear_mean else None
        features = features if weights is None else inducing @ weights
        layer = DoublyStochasticLayer(
            plan.make_kernel(index),
            inducing,
            plan.width,
            scale=1.0 / plan.width,
            mean_weights=weights,
            initial_root=1e-2,
            name=f"layer {index + 1}",
            jitter=plan.jitter,
        )
        inducing = layer.start_from(inducing, features)
        layers.append(layer)
    output = DoublyStochasticLayer(
        plan.make_kernel(last),
        inducing,
        plan.inducing_targets.shape[1],
        initial_root=0.1,
        name="the output layer",
        jitter=plan.jitter,
    )
    output.start_from(inducing, plan.inducing_targets, ridge=1.0 / plan.precision)
    return DeepKernelProcess(
        process, layers, output, _likelihood(plan), inducing_inputs=None, num_features=num_features
    )


PROCESSES: dict[str, Callable[[str, _Plan], DeepKernelProcess]] = {
    "dwp": _build_dwp,
    "dgp": _build_dgp,
    "dsvi": _build_dsvi,
    "diwp": _build_diwp,
}


def _likelihood(plan: _Plan) -> Gaussian:
    return Gaussian(plan.inducing_targets.shape[1], plan.noise, dtype=plan.dtype)


def _check_data(X: Tensor, y: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}.")
    X, y = torch.as_tensor(X), torch.as_tensor(y)
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
    X, y = X.to(device="cpu", dtype=dtype), y.to(device="cpu", dtype=dtype)
    for name, values in (("X", X), ("y", y)):
        if not torch.isfinite(values).all():
            column = int((~torch.isfinite(values)).any(0).nonzero()[0])
            raise ValueError(
                f"{name} has NaN or infinite values, first in column {column}; impute or drop them."
            )
    return X, y


def _check_positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
