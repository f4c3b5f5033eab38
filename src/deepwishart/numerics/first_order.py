r"""What all autograd functions here share: gradients without gradients, and quick calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Operation", "first_order"]

Backward = Callable[..., Any]


class Operation(torch.autograd.Function):
    """An autograd function whose arguments are all given by position. PyTorch's ``apply`` binds
    them to the signature of ``forward`` at every call, which takes longer than some operations;
    only transforms of ``torch.func`` need what else it does.

    >>> class Double(Operation):
    ...     @staticmethod
    ...     def forward(x):
    ...         return 2.0 * x
    ...
    ...     @staticmethod
    ...     def setup_context(ctx, inputs, output): ...
    ...
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         return 2.0 * gradient
    >>> torch.func.grad(Double.apply)(torch.tensor(1.0))
    tensor(2.)
    """

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            return super().apply(*inputs)
        direct: Any = super(torch.autograd.Function, cls)
        return direct.apply(*inputs)


def first_order(backward: Backward) -> Backward:
    """A hand-written ``backward`` whose result must not be differentiated again.

    PyTorch's ``once_differentiable`` is for the same purpose, but under nested ``torch.func``
    transforms its second derivatives are silently zero.

    >>> from deepwishart.numerics.cholesky import cholesky_inverse
    >>> slope = torch.func.grad(lambda matrix: cholesky_inverse(matrix)[1].sum())
    >>> slope(torch.eye(2)).shape
    torch.Size([2, 2])
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *gradients: Tensor | None) -> Any:
        if not torch.is_grad_enabled():  # nobody can ask
            return backward(ctx, *gradients)
        with torch.no_grad():
            found = backward(ctx, *gradients)
        results = found if isinstance(found, tuple) else (found,)
        present = [t for t in results if t is not None]
        sources = [t for t in (*ctx.saved_tensors, *gradients) if t is not None]
        guarded = iter(_Refusing.apply(len(present), *present, *sources))
        guarded_results = tuple(None if t is None else next(guarded) for t in results)
        return guarded_results if isinstance(found, tuple) else guarded_results[0]

    return wrapped


class _Refusing(torch.autograd.Function):
    """The first ``count`` tensors as they are, as functions of the others with no derivative."""

    @staticmethod
    def forward(count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(t.clone() for t in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError(
            "deepwishart: compiled operations have first derivatives only. For second derivatives "
            "set DEEPWISHART_NATIVE=0, which computes the same in ordinary PyTorch."
        )
