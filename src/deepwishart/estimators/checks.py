"""Checks of parameters and data, with messages that name the argument or the column."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_array

from deepwishart import likelihoods
from deepwishart._support.arguments import (
    check_choice,
    number,
    resolve_device,
    shown,
    tensor,
    whole_number,
)
from deepwishart.kernels import Kernel
from deepwishart.likelihoods import ClassLikelihood, Likelihood
from deepwishart.spec import CHOICES, LARGEST_JITTER
from deepwishart.start import STARTS
from deepwishart.training import Protocol

# Least value of each count, and what else it may be.
_COUNTS: dict[str, tuple[int, str, tuple[Any, ...]]] = {
    **dict.fromkeys(("depth", "n_inducing"), (1, "'auto' or ", ("auto",))),
    "n_predict_samples": (1, "", ()),
    **dict.fromkeys(("width", "n_samples", "max_iter"), (1, "None or ", (None,))),
    "kl_anneal": (0, "None or ", (None,)),
    "verbose": (0, "", (True, False)),
    "batch_size": (1, "'auto', None (all rows) or ", ("auto", None)),
}
#: Likelihoods of a regressor by name.
LIKELIHOODS: dict[str, type[Likelihood]] = {
    name: kind for name, kind in likelihoods.NAMES.items() if not issubclass(kind, ClassLikelihood)
}
_AUTO = ("output", "posterior", "kernel", "inputs", "bound")
_NAMES: dict[str, tuple[str, ...]] = {
    **CHOICES,
    **{name: ("auto", *CHOICES[name]) for name in _AUTO},
    "likelihood": ("auto", *LIKELIHOODS),
    "start": STARTS,
}
# Finiteness has a better message here; one memory layout makes results independent of it.
NUMBERS: dict[str, Any] = {"dtype": np.float64, "order": "C", "ensure_all_finite": False}
_FARTHEST = 1e15  # in training standard deviations; squares stay finite in single precision
_LARGEST_TARGET = 1e300  # predictions a little beyond the targets have to stay finite
_LEAST_SPREAD = 1e3 * np.finfo(np.float64).eps  # relative to the largest magnitude
_LARGEST_COUNT = 1e15  # in double precision, larger numbers are not all there


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raise ``ValueError`` naming the first constructor parameter that cannot be used."""
    for name, (least, also, others) in _COUNTS.items():
        value = parameters[name]
        if not (isinstance(value, str | bool | None) and value in others):
            whole_number(name, value, least, also)
    for name, most in (("learning_rate", math.inf), ("jitter", LARGEST_JITTER)):
        value = parameters[name]
        if value is not None:
            number(name, value, high=most, also="None or ")
    for name, other in (("ard", "auto"), ("early_stopping", True), ("warm_start", True)):
        value = parameters[name]
        if not isinstance(value, bool | np.bool_) and str(value) != other:
            also = " or 'auto'" if isinstance(other, str) else ""
            raise ValueError(f"{name} must be True or False{also}, got {value!r}.")
    for name, choices in _NAMES.items():
        value = parameters.get(name, choices[0])  # not every choice is a parameter
        if not (name in ("kernel", "likelihood") and isinstance(value, Kernel | Likelihood)):
            check_choice(name, value, choices)
    if parameters["process"] != "dwp" and parameters["posterior"] not in ("auto", "bartlett"):
        raise ValueError(
            f"posterior='{parameters['posterior']}' is for process='dwp'; leave it out for "
            f"process='{parameters['process']}'."
        )
    if not isinstance(parameters["protocol"], Protocol):
        Protocol.named(str(parameters["protocol"]), 1)
    resolve_device(parameters["device"])
    if not isinstance(parameters["checkpoint_dir"], str | os.PathLike | None):
        raise ValueError(
            f"checkpoint_dir must be None or a path, got {parameters['checkpoint_dir']!r}."
        )


def column_names(table: Any) -> list[str] | None:
    """Column names of a data frame, the name of a series, or ``None``."""
    columns = getattr(table, "columns", None)
    if columns is not None and hasattr(table, "__getitem__"):
        return [str(name) for name in columns]
    name = getattr(table, "name", None)
    return [name] if isinstance(name, str) and name and hasattr(table, "dtype") else None


def check_numeric(table: Any, what: str = "X") -> Any:
    """The table, a tensor as an array; text, dates and other things that are no numbers are
    refused, naming their column.

    Numbers of any kind pass, and Python objects that convert to ``float``; whether some are missing
    is for :func:`check_finite` to say.
    """
    if isinstance(table, torch.Tensor):
        return tensor(what, table).to("cpu", torch.float64).numpy()
    if hasattr(table, "collect") and hasattr(table, "lazy"):
        raise TypeError(f"{what} is a lazy frame; call .collect() on it first.")
    for index, values in enumerate(_columns(table)):
        for value in values if values.dtype.kind not in "biufc" else ():
            if value is None or type(value).__name__ == "NAType" or isinstance(value, complex):
                continue  # missing values and complex numbers have messages of their own
            try:
                if isinstance(value, str | bytes | datetime.date | np.datetime64 | np.timedelta64):
                    raise ValueError(
                        "encode text, for example with sklearn.preprocessing.OneHotEncoder in a "
                        "pipeline, and give dates as days since the first"
                    )
                float(value)
            except (ArithmeticError, TypeError, ValueError) as error:
                label = _label(index, column_names(table), what)
                kind = ValueError if isinstance(error, ValueError) else TypeError
                held = shown(str(value) if isinstance(value, str) else value)
                found = f"{label} holds {held}, which is no number: {error}."
                raise kind(found) from None
    return table


def _columns(table: Any) -> Iterable[np.ndarray]:
    """The columns as arrays. There are none of what is sparse or ragged, or has other dimensions:
    scikit-learn has good words for those."""
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return (np.asarray(table[name]).ravel() for name in table.columns)
    try:
        array = np.asarray(table)
        # A list with one text column would otherwise become text everywhere.
        array = np.array(table, dtype=object) if array.dtype.kind in "US" else array
    except ValueError:
        return ()
    return array.T if array.ndim == 2 else [array] * (array.ndim == 1)


def check_targets(y: Any) -> np.ndarray:
    """Targets as finite numbers, ``(N,)`` or ``(N, D)``."""
    y = check_numeric(y, "y")
    values = check_array(y, **NUMBERS, ensure_2d=False, input_name="y")
    check_finite(values.reshape(len(values), -1), column_names(y), "y")
    if values.size and np.abs(values).max() > _LARGEST_TARGET:
        raise ValueError(
            f"y has values beyond {_LARGEST_TARGET:g}, where predictions would be infinite. Divide "
            "it by a constant first."
        )
    return values


def check_spread(values: np.ndarray, names: list[str] | None) -> None:
    """Refuse targets whose spread is lost in their size, naming the column."""
    table = values.reshape(len(values), -1)
    size = np.abs(table).max(0)
    spread = (table / np.where(size > 0, size, 1.0)).std(0)
    lost = (spread > 0) & (spread < _LEAST_SPREAD)
    if lost.any():
        column = int(lost.argmax())
        raise ValueError(
            f"{_label(column, names, 'y')} varies by {spread[column] * size[column]:.2g} around "
            f"{table[:, column].mean():.2g}, and numbers of that size are stored in steps of "
            f"{np.spacing(size[column]):.2g}: what varies is mostly rounding. Compute it anew "
            "without the constant part, or round the column if it is meant to be constant."
        )


def check_counts(values: np.ndarray, names: list[str] | None) -> None:
    """Refuse targets that are no counts, naming column and row."""
    table = values.reshape(len(values), -1)
    bad = (table < 0) | (table > _LARGEST_COUNT) | (table != np.floor(table))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{_label(column, names, 'y')} has {table[row, column]:g} in row {row}, which is no "
            f"whole number from 0 to {_LARGEST_COUNT:g}: likelihoods 'poisson' and "
            "'negative_binomial' are for counts. Use 'auto', 'gaussian', 'heteroscedastic' or "
            "'student_t' for measurements."
        )


def check_finite(values: np.ndarray, names: list[str] | None, what: str = "X") -> None:
    """Refuse NaN and infinity, naming column and row."""
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    row, column = np.argwhere(bad)[0]
    kind = "NaN (a missing value)" if np.isnan(values[row, column]) else "an infinite value"
    raise ValueError(
        f"{_label(column, names, what)} has {kind} in row {row}, one of {int(bad.sum())} values "
        f"in {what} that are NaN or infinite. Drop those rows, or fill the values in first, for "
        "example with sklearn.impute.SimpleImputer in a pipeline."
    )


def check_distance(standardised: np.ndarray, names: list[str] | None, what: str = "X") -> None:
    """Refuse values so far from the training data that arithmetic on them would overflow."""
    far = ~(np.abs(standardised) <= _FARTHEST)
    if far.any():
        row, column = np.argwhere(far)[0]
        raise ValueError(
            f"{_label(column, names, what)} in row {row} is more than {_FARTHEST:.0e} "
            "training standard deviations from the training data. Check the units of that column."
        )


def _label(index: int, names: list[str] | None, what: str) -> str:
    if names is not None and index < len(names):
        return f"Column {names[index]!r} of {what}"
    return f"Column {index} of {what}"
