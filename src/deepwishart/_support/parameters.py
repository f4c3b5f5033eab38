"""Positive parameters, learned on a logarithmic scale."""

from __future__ import annotations

import math

import torch
from torch import nn

from deepwishart._support.arguments import number


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
