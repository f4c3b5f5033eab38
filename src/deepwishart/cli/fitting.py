"""The work of ``deepwishart fit``."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from rich.console import Console

import deepwishart
from deepwishart.cli.directory import ModelDirectory, SavedModel
from deepwishart.cli.errors import FAILURE, INTERRUPTED, CommandError, note, plain_warnings
from deepwishart.cli.scores import holdout_report, report_tables
from deepwishart.estimators import DeepKernelRegressor
from deepwishart.estimators.checks import check_parameters
from deepwishart.tables import TableEncoder, TableError, read_table, read_targets
from deepwishart.training import TrainingError

__all__ = ["FitSettings", "run_fit"]


@dataclass(frozen=True)
class FitSettings:
    """The options of ``deepwishart fit`` that decide which model comes out."""

    target: list[str]
    categorical: list[str]
    drop: list[str]
    impute: str | None
    holdout: float
    process: str
    depth: int
    width: int | None
    inducing: int
    kernel: str
    dtype: str
    device: str
    protocol: str
    max_iter: int | None
    learning_rate: float | None
    batch_size: int | None
    samples: int
    early_stopping: bool
    seed: int

    def make_regressor(self) -> DeepKernelRegressor:
        """An unfitted regressor; ``ValueError`` for a parameter that cannot be used."""
        regressor = DeepKernelRegressor(
            process=self.process,
            depth=self.depth,
            width=self.width,
            n_inducing=self.inducing,
            kernel=self.kernel,
            n_samples=self.samples,
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            batch_size="auto" if self.batch_size is None else self.batch_size,
            protocol=self.protocol,
            dtype=self.dtype,
            device=self.device,
            random_state=self.seed,
            early_stopping=self.early_stopping,
        )
        check_parameters(regressor.get_params(deep=False))
        return regressor


class Prepared(NamedTuple):
    """A training table, read, divided and encoded; rows held out may be none."""

    encoder: TableEncoder
    X: pl.DataFrame
    y: np.ndarray
    X_test: pl.DataFrame
    y_test: np.ndarray


def run_fit(
    data: Path, out: Path, settings: FitSettings, *, resume: bool, force: bool, quiet: bool
) -> None:
    """Read, train, report, save; everything that can be wrong is refused before training."""
    regressor = settings.make_regressor()
    prepared = prepare(data, settings)
    plain = {**asdict(settings), "data": _sha256(data)}
    directory = ModelDirectory(out)
    if not directory.begin(plain, resume=resume, force=force):
        note(f"the run in {out} has already finished")
        return
    regressor.set_params(checkpoint_dir=directory.checkpoints, verbose=int(not quiet))
    try:
        with plain_warnings(ignore="Training was interrupted"):
            regressor.fit(prepared.X, prepared.y[:, 0] if len(settings.target) == 1 else prepared.y)
    except TrainingError as error:
        directory.mark("failed", plain)
        raise CommandError(_failure(error, directory), FAILURE) from error

    regressor.set_params(checkpoint_dir=None, verbose=0)
    about = _about(regressor, prepared, settings, plain)
    directory.save(SavedModel(regressor, prepared.encoder, settings.target, about))
    interrupted = regressor.history_.stopped_by == "interrupt"
    directory.mark("interrupted" if interrupted else "finished", plain)
    if not quiet:
        _print_outcome(regressor, about, out)
    if interrupted:
        raise CommandError(
            f"interrupted after {regressor.n_iter_} steps; the model so far is in {out}, and the "
            "same command with --resume goes on from there",
            INTERRUPTED,
        )


def prepare(data: Path, settings: FitSettings) -> Prepared:
    """Read the table and divide its rows; ``ValueError`` for a table that cannot be used."""
    table = read_table(data)
    y = read_targets(table, settings.target)
    train, test = _split(len(table), settings.holdout, settings.seed)
    encoder = TableEncoder.fit(
        table,
        ignore=[*settings.target, *settings.drop],
        categorical=settings.categorical,
        impute=settings.impute,
        fill_from=train.tolist(),
    )
    X = encoder.encode(table)
    if not any(X[name].n_unique() > 1 for name in X.columns):
        raise TableError("Every input column is constant; there is nothing to predict from.")
    return Prepared(encoder, X[train], y[train], X[test], y[test])


def _split(num_rows: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, in their order, and rows held out: at least one if a fraction is given."""
    count = max(1, round(holdout * num_rows)) if holdout else 0
    if num_rows - count < 2:
        raise TableError(
            f"The table has {num_rows} rows; at least two have to be left to train on besides the "
            f"{count} held out."
        )
    order = np.random.default_rng(seed).permutation(num_rows)
    return np.sort(order[count:]), np.sort(order[:count])


def _about(
    regressor: DeepKernelRegressor,
    prepared: Prepared,
    settings: FitSettings,
    plain: dict[str, Any],
) -> dict[str, Any]:
    """What a person may later want to know of a fit, the hold-out report included."""
    report = None
    if len(prepared.y_test):
        prediction = regressor.predict_distribution(prepared.X_test)
        report = holdout_report(prediction, prepared.y, prepared.y_test, settings.target)
    return {
        "version": deepwishart.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "rows": len(prepared.y),
        "settings": plain,
        "holdout": report,
    }


def _print_outcome(regressor: DeepKernelRegressor, about: dict[str, Any], out: Path) -> None:
    console = Console(highlight=False)
    seconds = regressor.history_.seconds[-1] if regressor.history_.seconds else 0.0
    console.print(
        f"{regressor.n_iter_} steps in {seconds:.1f} s on {about['rows']} rows, "
        f"{regressor.n_features_in_} inputs; ELBO {regressor.elbo_:.3f} per row (standardised)"
    )
    for table in report_tables(about["holdout"] or {"targets": {}}):
        console.print(table)
    console.print(f"model written to {out}", soft_wrap=True, markup=False)


def _failure(error: TrainingError, directory: ModelDirectory) -> str:
    where = error.last_good or directory.checkpoints
    message = str(error)
    return message if str(where) in message else f"{message} The last good state is in {where}."


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
