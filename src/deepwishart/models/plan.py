"""From a plan to layers: what each process makes of it, and where its layers start."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepwishart import kernels
from deepwishart.kernels import Kernel
from deepwishart.layers import (
    CollapsedOutputLayer,
    DoublyStochasticLayer,
    DoublyStochasticOutputLayer,
    GlobalInducingLayer,
    GPOutputLayer,
    Inducing,
    InverseWishartLayer,
    Layer,
    OutputLayer,
    StackedOutputLayer,
    WishartLayer,
)
from deepwishart.models.initialise import linear_map, starting_features

__all__ = ["OUTPUTS", "PROCESSES", "STARTS", "Plan", "make_output", "start_layers"]

OUTPUTS = ("inducing", "collapsed")
STARTS = ("inputs", "prior")
_START_COST = 10.0  # nats per row and hidden layer that a start may lie from the prior
_PRIOR_NOISE = math.exp(4.0)  # the authors' deep GP starts with a precision of exp(-4)


@dataclass(frozen=True)
class Plan:
    """Everything a process needs to make its layers."""

    inducing_inputs: Tensor
    num_rows: int
    widths: Sequence[int]
    kernels: Sequence[str | Kernel]
    ard: bool
    mixing: float
    posterior: str
    start: str
    jitter: float
    output_jitter: float
    linear_mean: bool
    generator: torch.Generator

    @property
    def dtype(self) -> torch.dtype:
        return self.inducing_inputs.dtype

    @property
    def num_inducing(self) -> int:
        return self.inducing_inputs.shape[0]

    def start_noise(self, index: int) -> float:
        r"""Noise :math:`\lambda`, relative to the prior variance, with which the start of a layer
        counts as observed: :math:`P \nu` entries, each at
        :math:`\tfrac12 \log(1 + 1/\lambda)`, then cost about :data:`_START_COST` nats per row.
        Where rows are many, next to none. Close to the prior, much."""
        if self.start == "prior":
            return _PRIOR_NOISE
        entries = self.num_inducing * self.widths[index]
        return 1.0 / math.expm1(min(2.0 * _START_COST * self.num_rows / entries, 100.0))

    def make_kernel(self, index: int) -> Kernel:
        """ARD in the first layer, where features exist; isotropic after it."""
        features = self.inducing_inputs.shape[1] if index == 0 and self.ard else None
        return kernels.make(self.kernels[index], num_features=features, dtype=self.dtype)

    def common(self, index: int) -> dict[str, Any]:
        """What every hidden layer is told."""
        return {"name": f"layer {index + 1}", "jitter": self.jitter}


def start_layers(layers: Sequence[Layer], plan: Plan, X: Tensor) -> Inducing:
    """Let every hidden layer start close to passing its inputs on, or close to the prior."""
    num_features = plan.inducing_inputs.shape[1]
    first, rows = plan.inducing_inputs / num_features**0.5, X / num_features**0.5
    inducing: Inducing = first
    for layer, width in zip(layers, plan.widths, strict=True):
        weights = getattr(layer, "mean_weights", None)
        if isinstance(weights, Tensor) and isinstance(inducing, Tensor):
            features = inducing @ weights
        elif plan.start == "prior":
            noise = torch.randn(len(first), width, generator=plan.generator, dtype=plan.dtype)
            features = noise.to(first) / width**0.5
        else:
            features = starting_features(first, width, plan.generator, rows)
        try:
            inducing = layer.start_from(inducing, features)
        except RuntimeError as error:
            raise ValueError(
                f"{layer.name} cannot start from {len(first)} inducing points with {num_features} "
                f"features, at {width} columns of its own: {error}"
            ) from error
    return inducing


def make_output(
    output: str,
    plan: Plan,
    latents: Sequence[Tensor],
    precision: float,
    points: Inducing | None,
) -> OutputLayer:
    """The output layer, of one part for each group of ``latents``; ``points`` are the inducing
    points of one that has its own."""
    own = points if isinstance(points, Tensor) else None
    parts: list[OutputLayer] = []
    for number, first in enumerate(latents, 1):
        kernel = plan.make_kernel(len(plan.kernels) - 1)
        if output == "collapsed":
            return CollapsedOutputLayer(
                kernel, first.shape[1], inducing_inputs=own, jitter=plan.output_jitter
            )
        name = "the output layer" if len(latents) == 1 else f"part {number} of the output layer"
        options: dict[str, Any] = {"precision": precision, "name": name, "jitter": plan.jitter}
        if own is None:
            parts.append(GPOutputLayer(kernel, first, **options))
        else:
            parts.append(DoublyStochasticOutputLayer(kernel, own, first, **options))
    return parts[0] if len(parts) == 1 else StackedOutputLayer(parts)


def _wishart(plan: Plan, index: int) -> Layer:
    return WishartLayer(
        plan.make_kernel(index),
        plan.widths[index],
        plan.num_inducing,
        generator=plan.generator,
        initial_mixing=plan.mixing,
        start_noise=max(0.03, plan.start_noise(index)),
        posterior=plan.posterior,
        **plan.common(index),
        dtype=plan.dtype,
    )


def _global_inducing(plan: Plan, index: int) -> Layer:
    return GlobalInducingLayer(
        plan.make_kernel(index),
        torch.zeros(plan.num_inducing, plan.widths[index], dtype=plan.dtype),
        precision=1.0 / max(0.01, plan.start_noise(index)),
        **plan.common(index),
    )


def _doubly_stochastic(plan: Plan, index: int) -> Layer:
    inputs = plan.inducing_inputs / plan.inducing_inputs.shape[1] ** 0.5
    if index > 0:
        inputs = torch.zeros(plan.num_inducing, plan.widths[index - 1], dtype=plan.dtype)
    weights = linear_map(inputs, plan.widths[index]) if plan.linear_mean else None
    noise = plan.start_noise(index)
    return DoublyStochasticLayer(
        plan.make_kernel(index),
        inputs,
        plan.widths[index],
        mean_weights=weights,
        initial_root=max(1e-2, (noise / (1.0 + noise)) ** 0.5),
        start_noise=max(1e-2, noise),
        **plan.common(index),
    )


def _inverse_wishart(plan: Plan, index: int) -> Layer:
    return InverseWishartLayer(
        plan.make_kernel(index),
        plan.num_inducing,
        generator=plan.generator,
        **plan.common(index),
        dtype=plan.dtype,
    )


PROCESSES: dict[str, Callable[[Plan, int], Layer]] = {
    "dwp": _wishart,
    "dgp": _global_inducing,
    "dsvi": _doubly_stochastic,
    "diwp": _inverse_wishart,
}
