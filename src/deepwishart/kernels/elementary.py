r"""Roots and slopes that stay finite, where the chain rule does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def safe_sqrt(value: Tensor) -> Tensor:
    r"""The square root :math:`\sqrt{v}`, with derivative 0 instead of infinity at 0: a distance
    there is a minimum from every side, so 0 is the subgradient that respects symmetry."""
    positive = value > 0
    # Both branches must be finite: the zero gradient of the branch not taken multiplies its slope.
    root = torch.where(positive, value, torch.ones_like(value)).sqrt()
    return torch.where(positive, root, torch.zeros_like(value))


def with_slope(
    value: Callable[[Tensor], Tensor], times_slope: Callable[[Tensor, Tensor], Tensor], x: Tensor
) -> Tensor:
    """``value(x)``, entry by entry, whose gradient is ``times_slope(gradient, x)``: for functions
    that are smoother than their terms, which the chain rule takes one by one."""
    result: Tensor = _WithSlope.apply(x, value, times_slope)
    return result


class _WithSlope(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, value: Callable[[Tensor], Tensor], times_slope: Any) -> Tensor:
        return value(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.times_slope = inputs[2]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return ctx.times_slope(grad_outputs[0], *ctx.saved_tensors), None, None
