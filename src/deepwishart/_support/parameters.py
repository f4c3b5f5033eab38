"""Parameters: what kind they are, between which numbers they stay, and positive ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import nn

from deepwishart._support.arguments import number

#: Kinds of parameters, which may have learning rates of their own.
KINDS = ("kernel", "scale", "inducing", "posterior")


class Declaration(NamedTuple):
    """The kind of a parameter, and the numbers that it has to stay between.

    A module has a class attribute ``declares`` with a declaration for each of its own parameters by
    name. ``"*"`` stands for those that it does not name, in modules inside it as well, whose bounds
    are their own.

    >>> class Positive(nn.Module):
    ...     declares = {"*": Declaration("kernel", low=0.0)}
    """

    kind: str = "posterior"
    low: float = -math.inf
    high: float = math.inf


Declarations = Mapping[str, Declaration]
#: The logarithm of a positive number of kernels and of noise.
KERNEL_LOGARITHM = Declaration("kernel", math.log(1e-12), math.log(1e6))


def declared(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, Declaration]]:
    """Every parameter of a model with its name and what is declared of it.

    >>> from deepwishart.kernels import SquaredExponential
    >>> {name: about.kind for name, _, about in declared(SquaredExponential())}
    {'log_height': 'kernel', 'log_lengthscale': 'kernel'}
    """
    for name, p in model.named_parameters():
        *path, own = name.split(".")
        owner, found = model, Declaration()
        for step in ("", *path):
            owner = owner.get_submodule(step)
            declares: Declarations = getattr(owner, "declares", {})
            found = declares.get("*", Declaration(found.kind))
        yield name, p, declares.get(own, found)


def log_parameter(
    name: str,
    value: float,
    size: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> nn.Parameter:
    r"""A positive parameter stored as :math:`\log v`, so that any real step keeps it positive; a
    vector with ``size``, else a scalar. Errors call it ``name``.

    >>> log_parameter("noise", 1.0, 2)
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """
    shape = () if size is None else (size,)
    logarithm = math.log(number(name, value))
    return nn.Parameter(torch.full(shape, logarithm, dtype=dtype, device=device))
