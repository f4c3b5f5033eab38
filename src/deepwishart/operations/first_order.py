r"""What all autograd functions here share: gradients without gradients, and quick calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["first_order", "known_signature"]

Backward = Callable[..., Any]


def first_order(backward: Backward) -> Backward:
    """A hand-written ``backward`` whose result must not be differentiated again.

    PyTorch's ``once_differentiable`` is for the same purpose, but under nested ``torch.func``
    transforms its second derivatives are silently zero.

    >>> from deepwishart.operations.cholesky import cholesky_inverse
    >>> slope = torch.func.grad(lambda matrix: cholesky_inverse(matrix)[1].sum())
    >>> slope(torch.eye(2)).shape
    torch.Size([2, 2])
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *gradients: Tensor | None) -> Any:
        with torch.no_grad():
            found = backward(ctx, *gradients)
        if not torch.is_grad_enabled():  # nobody can ask
            return found
        results = found if isinstance(found, tuple) else (found,)
        present = [t for t in results if t is not None]
        sources = [t for t in (*ctx.saved_tensors, *gradients) if t is not None]
        guarded = iter(_Refusing.apply(len(present), *present, *sources))
        guarded_results = tuple(None if t is None else next(guarded) for t in results)
        return guarded_results if isinstance(found, tuple) else guarded_results[0]

    return wrapped


def known_signature(forward: Backward) -> Backward:
    """A ``forward`` whose arguments are all given by position: ``apply`` binds them to the
    signature at every call, and to find that out anew takes longer than some of the operations.

    >>> inspect.signature(known_signature(lambda matrix: matrix)).bind(1).args
    (1,)
    """
    forward.__signature__ = _Positional()  # type: ignore[attr-defined]
    return forward


class _Positional(inspect.Signature):
    """Takes arguments as they come; ``forward`` itself finds out whether they fit."""

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        return _Bound(args, kwargs)


class _Bound(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def apply_defaults(self) -> None:
        """There are none."""


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
