"""A model with all that it takes to read tables for it."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from deepwishart.estimators.base import DeepKernelEstimator
from deepwishart.estimators.classifier import DeepKernelClassifier
from deepwishart.estimators.record import check_record, describing, from_record, require
from deepwishart.estimators.regressor import DeepKernelRegressor
from deepwishart.persistence import read_model
from deepwishart.tables import Column, TableEncoder


@dataclass(frozen=True)
class TableModel:
    """A model that takes tables as ``deepwishart fit`` does: with text, dates, truth values and
    whatever was missing, columns in any order.

    Args:
        regressor: the estimator, a classifier where the target names classes; it takes what
            :meth:`encode` returns, in all of its methods.
        encoder: what the columns of the training table were.
        targets: their names.
        fit: how the model was fitted, and scores of rows held out; plain data.
    """

    regressor: DeepKernelEstimator
    encoder: TableEncoder
    targets: list[str]
    fit: dict[str, Any]

    def encode(self, table: Any, unseen: str = "error") -> pl.DataFrame | np.ndarray:
        """What the estimator takes of a data frame (pandas, polars) or a dictionary of columns;
        ``unseen`` is that of :meth:`deepwishart.tables.TableEncoder.encode`."""
        if hasattr(table, "to_csv"):  # of pandas, as the command would have read it
            text = io.BytesIO(table.to_csv(index=False).encode())
            table = pl.read_csv(text, infer_schema=False)
        return self.inputs(self.encoder.encode(pl.DataFrame(table), unseen=unseen))

    def inputs(self, encoded: pl.DataFrame) -> pl.DataFrame | np.ndarray:
        """Encoded rows as the estimator knows them, with names of columns or without."""
        named = hasattr(self.regressor, "feature_names_in_")
        return encoded if named else encoded.to_numpy()

    def predict(self, table: Any, **options: Any) -> Any:
        """The estimator's ``predict``, of a table."""
        return self.regressor.predict(self.encode(table), **options)

    def predict_distribution(self, table: Any) -> Any:
        """The whole predictive distribution, or of a classifier the probabilities of classes."""
        return self.regressor.predict_distribution(self.encode(table))


def load(path: str | os.PathLike[str]) -> TableModel:
    """The model in a directory that ``deepwishart fit`` or an estimator's ``save`` wrote. Columns
    of one that was fitted to an array without names are called x1, x2, ...

    >>> import tempfile
    >>> X, y = np.linspace(-1, 1, 20)[:, None], np.linspace(0, 1, 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     DeepKernelRegressor(depth=1, max_iter=5).fit(X, y).save(f"{folder}/m")
    ...     model = load(f"{folder}/m")
    >>> model.predict({"x1": ["0.5", "50 %"]}).shape
    (2,)
    """
    tensors, config, history = read_model(path, check_record)
    classes = config.get("estimator") == DeepKernelClassifier.__name__
    kind = DeepKernelClassifier if classes else DeepKernelRegressor
    regressor: DeepKernelEstimator = from_record(kind, tensors, config, history)
    if "table" not in config:
        return _without_table(regressor)
    with describing("its table"):
        return _with_table(regressor, config["table"])


def _with_table(regressor: DeepKernelEstimator, table: dict[str, Any]) -> TableModel:
    encoder, targets, fit = TableEncoder.from_dict(table["encoder"]), table["targets"], table["fit"]
    names, known = encoder.feature_names, list(getattr(regressor, "feature_names_in_", ()))
    require(names == known and len(set(names)) == len(names), "its columns are not the model's")
    require(
        {type(name) for name in targets} == {str}
        and len(set(targets)) == len(targets) == regressor.n_outputs_,
        "its targets are not the model's",
    )
    require(isinstance(fit, dict), "it does not say how it was fitted")
    return TableModel(regressor, encoder, list(targets), fit)


def _without_table(regressor: DeepKernelEstimator) -> TableModel:
    """A model that was saved from Python; columns of arrays are called x1, x2, ..."""
    unnamed = [f"x{number}" for number in range(1, regressor.n_features_in_ + 1)]
    names = getattr(regressor, "feature_names_in_", unnamed)
    count = regressor.n_outputs_
    targets = ["target"] if count == 1 else [f"target{number}" for number in range(1, count + 1)]
    encoder = TableEncoder(tuple(Column(name, "number") for name in names))
    return TableModel(regressor, encoder, targets, {})
