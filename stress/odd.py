"""Values that an argument should not have, or that one would not expect it to have."""

from __future__ import annotations

import functools
import random as python_random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch

__all__ = ["odd_value"]

# Counts that are large but possible, such as 10**9 samples, are left out: whoever asks for them
# gets them, or is told that there is not enough memory.
SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 10**400, -(10**400), 2**63, 0.5, -0.5, 2.0, 1e-320, 1e308),
    *(float("nan"), float("inf"), -float("inf"), 1j, "", "x", "dwp", "2", "nan", b"x", Path("x")),
    *((), [], {}, set(), [1], [None], ["x"], [[1.0]], {"a": 1}, [float("nan")], [10**400]),
    *(object(), int, len, Ellipsis, NotImplemented, slice(3), range(3), Decimal(2), Fraction(1, 2)),
    *(np.int64(2), np.float32(0.5), np.float64("nan"), np.bool_(True), np.str_("x"), pd.NA, pd.NaT),
    *(np.datetime64("2021-01-01"), torch.float16, torch.int64, torch.device("meta"), "meta"),
    *(np.random.default_rng(0), np.random.RandomState(0), python_random.Random(0), "\x00"),
    *("cuda", "\ud800"),
)


def _like(tensor: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Other tensors and arrays than the one that belongs there."""
    array = tensor.detach().numpy()
    huge = torch.full_like(tensor, 1e200)
    return {
        "requires grad": lambda: tensor.clone().requires_grad_(),
        "a parameter": lambda: torch.nn.Parameter(tensor.clone()),
        "computed": lambda: tensor.clone().requires_grad_() * 2,
        "sparse": tensor.to_sparse,
        "compressed": lambda: tensor.reshape(len(tensor), -1).to_sparse_csr(),
        "meta": lambda: tensor.to("meta"),
        "nested": lambda: torch.nested.nested_tensor(list(tensor)),
        "quantised": lambda: torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.qint8),
        **{
            f"{dtype}": functools.partial(tensor.to, dtype)
            for dtype in (torch.complex128, torch.half, torch.bfloat16, torch.float, torch.int8)
        },
        "bool": lambda: tensor > 0,
        "NaN": lambda: tensor * torch.nan,
        "one NaN": lambda: tensor.index_fill(0, torch.tensor([0]), torch.nan),
        "infinite": lambda: tensor / 0,
        "huge": lambda: huge,
        "huge and signed": lambda: huge * tensor.sign(),
        "enormous": lambda: tensor * 1e308,
        "tiny": lambda: tensor * 1e-310,
        "constant": lambda: torch.ones_like(tensor),
        "empty": lambda: tensor[:0],
        "no columns": lambda: tensor.reshape(len(tensor), -1)[:, :0],
        "one row": lambda: tensor[:1],
        "a row less": lambda: tensor[:-1],
        "a column more": lambda: torch.cat([tensor.reshape(len(tensor), -1)] * 2, 1),
        "flat": tensor.flatten,
        "scalar": lambda: tensor.sum(),
        "deep": lambda: tensor[None, None],
        "expanded": lambda: tensor[:1].expand_as(tensor),
        "reversed": lambda: tensor.flip(0),
        "strided": lambda: torch.stack([tensor, tensor], -1)[..., 0],
        "an array": lambda: array,
        "a negative stride": lambda: array[::-1],
        "read only": lambda: np.frombuffer(array.tobytes()).reshape(array.shape),
        "masked": lambda: np.ma.masked_array(array, array > 0),
        "objects": lambda: array.astype(object),
        "text": lambda: array.astype(str),
        "a list": array.tolist,
        "a ragged list": lambda: [[1.0], [1.0, 2.0]],
        "pandas": lambda: pd.DataFrame(array.reshape(len(array), -1)),
        "polars": lambda: pl.DataFrame(array.reshape(len(array), -1)),
        "dates": lambda: np.full(array.shape, np.datetime64("2021-01-01")),
        "a generator": lambda: iter(array.tolist()),
    }


def odd_value(like: Any, rng: python_random.Random) -> tuple[str, Any]:
    """Something to pass in the place of ``like``, and a name for it."""
    if isinstance(like, np.ndarray):
        like = torch.as_tensor(like)
    if isinstance(like, torch.Tensor) and rng.random() < 0.75:
        choices = _like(like)
        name = rng.choice(tuple(choices))
        return name, choices[name]()
    value = rng.choice(SCALARS)
    return f"{value!r:.40}", value
