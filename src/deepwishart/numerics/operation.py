r"""How an operation gets a faster kernel: PyTorch's dispatcher chooses it, no caller does.

The plain function, in ordinary PyTorch, is the definition: it serves every device, autograd
differentiates it, and tests compare with it. Where the compiled loops load, the same operation gets
a CPU kernel, an autograd function around them. Loading happens once, when this module is imported;
``DEEPWISHART_NATIVE=0`` leaves the definitions alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from deepwishart import native

__all__ = [
    "compiled",
    "contiguous",
    "first_order",
    "operation",
    "or_zero",
    "shapes",
    "shapes_like",
]

Function = TypeVar("Function", bound=Callable[..., Any])
_library = torch.library.Library("deepwishart", "FRAGMENT")
_LOADED = native.load()


def operation(plain: Function) -> Function:
    """An operation of PyTorch called ``name`` where ``plain`` is called ``plain_name``.

    >>> def plain_twice(x: Tensor) -> Tensor:
    ...     return 2.0 * x
    >>> twice = operation(plain_twice)
    >>> twice(torch.ones(1)), torch.ops.deepwishart.twice(torch.ones(1))
    (tensor([2.]), tensor([2.]))
    """
    name = plain.__name__.removeprefix("plain_")
    _library.define(name + torch.library.infer_schema(plain, mutates_args=()))
    _library.impl(name, plain, "CompositeImplicitAutograd")
    found: Any = getattr(torch.ops.deepwishart, name).default
    return found


def compiled(plain: Callable[..., Any]) -> Callable[[Function], Function]:
    """Mark a function as the CPU kernel of the operation that ``plain`` defines."""
    name = plain.__name__.removeprefix("plain_")

    def register(kernel: Function) -> Function:
        def under_transforms(*arguments: Any) -> Any:
            # Transforms of torch.func come before devices. They have to see the autograd function.
            on_cpu = all(t.is_cpu for t in arguments if isinstance(t, Tensor))
            return (kernel if on_cpu else plain)(*arguments)

        if _LOADED:
            _library.impl(name, kernel, "CPU")
            _library.impl(name, kernel, "AutogradCPU")
            _library.impl(name, under_transforms, "FuncTorchDynamicLayerFrontMode")
        return kernel

    return register


def shapes(name: str) -> Callable[[Function], Function]:
    """Mark a function as saying which shapes the compiled loop ``name`` returns, which is what
    ``torch.compile`` and fake tensors ask for."""

    def register(function: Function) -> Function:
        if _LOADED:
            _library.impl(name, function, "Meta")
        return function

    return register


def shapes_like(name: str, *positions: int) -> None:
    """The results of this loop look like its arguments at these positions: most gradients do."""

    def results(*arguments: Tensor) -> Any:
        found = tuple(torch.empty_like(arguments[position]) for position in positions)
        return found if len(found) > 1 else found[0]

    shapes(name)(results)


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A hand-written ``backward`` whose result must not be differentiated again.

    PyTorch's ``once_differentiable`` is for that purpose, but under nested ``torch.func``
    transforms its second derivatives are silently zero.

    >>> from deepwishart.numerics.linalg import factor
    >>> slope = torch.func.grad(lambda matrix: factor(matrix).inverse.sum())
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


def contiguous(tensor: Tensor | None) -> Tensor | None:
    """A tensor that may be missing, as compiled loops want it."""
    return None if tensor is None else tensor.contiguous()


def or_zero(gradient: Tensor | None, like: Tensor) -> Tensor:
    """A gradient, or zeros of the shape of ``like`` where there is none. Autograd would make such
    zeros for every output that only the gradient needs, which are the large ones."""
    return torch.zeros_like(like) if gradient is None else gradient.contiguous()
