r"""How an operation gets a faster kernel: PyTorch's dispatcher chooses it, no caller does.

The plain function, in ordinary PyTorch, is the definition: it serves every device, autograd
differentiates it, and tests compare with it. Where the compiled loops load, the same operation gets
a CPU kernel, an autograd function around them. Loading happens once, when this module is imported;
``DEEPWISHART_NATIVE=0`` leaves the definitions alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from deepwishart import native

__all__ = ["compiled", "contiguous", "operation", "or_zero"]

Function = TypeVar("Function", bound=Callable[..., Any])
_library = torch.library.Library("deepwishart", "FRAGMENT")
_LOADED = native.status() == "loaded"


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
    return cast(Function, getattr(torch.ops.deepwishart, name).default)


def compiled(plain: Callable[..., Any]) -> Callable[[Function], Function]:
    """Mark a function as the CPU kernel of the operation that ``plain`` defines. Kernels have first
    derivatives; transforms of ``torch.func``, which may ask for others, get the definition."""
    name = plain.__name__.removeprefix("plain_")

    def register(kernel: Function) -> Function:
        if _LOADED:
            _library.impl(name, kernel, "CPU")
            _library.impl(name, kernel, "AutogradCPU")
            _library.impl(name, plain, "FuncTorchDynamicLayerFrontMode")
        return kernel

    return register


def contiguous(tensor: Tensor | None) -> Tensor | None:
    """A tensor that may be missing, as compiled loops want it."""
    return None if tensor is None else tensor.contiguous()


def or_zero(gradient: Tensor | None, like: Tensor) -> Tensor:
    """A gradient, or zeros of the shape of ``like`` where there is none. Autograd would make such
    zeros for every output that only the gradient needs, which are the large ones."""
    return torch.zeros_like(like) if gradient is None else gradient.contiguous()
