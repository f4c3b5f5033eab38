"""The work of ``deepwishart fit``."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

import deepwishart
from deepwishart.cli.directory import ModelDirectory, SavedModel
from deepwishart.cli.errors import FAILURE, INTERRUPTED, CommandError, note, plain_warnings
from deepwishart.cli.scores import check_report, holdout_report, report_tables
from deepwishart.estimators import DeepKernelRegressor, Standardiser
from deepwishart.estimators.checks import check_distance, check_parameters
from deepwishart.linalg import CholeskyError
from deepwishart.tables import TableEncoder, TableError, read_table, read_targets
from deepwishart.training import TrainingError

__all__ = ["run_fit"]

# Settings about the table; the others are parameters of the regressor.
_OF_THE_TABLE = ("target", "categorical", "drop", "impute", "holdout")
Rows = tuple[pl.DataFrame, np.ndarray]


def run_fit(
    data: Path,
    out: Path,
    settings: Mapping[str, Any],
    options: Mapping[str, str],
    *,
    resume: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Read, train, report, save; everything that can be wrong is refused before training.

    ``settings`` decide which model comes out, ``options`` are their names on the command line.
    """
    if resume and force:
        raise CommandError("--resume continues a run and --force starts anew: give one of them.")
    # Columns in an order of their own, so that --resume may name them in another.
    lists = {name: sorted(settings[name] or ()) for name in ("categorical", "drop")}
    settings = {**settings, **lists, "target": list(settings["target"])}
    regressor = DeepKernelRegressor(
        **{
            name: value
            for name, value in settings.items()
            if name not in _OF_THE_TABLE and value is not None
        }
    )
    check_parameters(regressor.get_params(deep=False))
    encoder, train, test = prepare(data, settings)
    with open(data, "rb") as file:
        settings["data"] = hashlib.file_digest(file, "sha256").hexdigest()
    directory = ModelDirectory(out)
    with directory.locked():
        if not directory.begin(settings, options, resume, force):
            note(f"the run in {out} has already finished")
            return
        regressor.set_params(checkpoint_dir=directory.checkpoints, verbose=int(not quiet))
        about = _train(regressor, train, test, directory)
        regressor.set_params(checkpoint_dir=None, verbose=0)
        interrupted = regressor.history_.stopped_by == "interrupt"
        saved = SavedModel(regressor, encoder, settings["target"], about)
        in_place = directory.save(saved, interrupted=interrupted)
        directory.mark("interrupted" if interrupted else "finished")
    if not quiet:
        _print_outcome(regressor, about, out if in_place else None)
    if interrupted:
        where = f"the model so far is in {out}" if in_place else f"the model in {out} is as it was"
        raise CommandError(
            f"interrupted after {regressor.n_iter_} steps; {where}, and the same command with "
            f"--resume {'instead of --force ' if force else ''}goes on from there",
            INTERRUPTED,
        )


def prepare(data: Path, settings: Mapping[str, Any]) -> tuple[TableEncoder, Rows, Rows]:
    """Read a table, and encode rows to train on and rows held out, which may be none."""
    table = read_table(data)
    y = read_targets(table, settings["target"])
    train, test = _split(len(table), settings["holdout"], settings["random_state"])
    encoder = TableEncoder.fit(
        table,
        ignore=[*settings["target"], *settings["drop"]],
        categorical=settings["categorical"],
        impute=settings["impute"],
        fill_from=train.tolist(),
    )
    X = encoder.encode(table)
    values = X.to_numpy()
    if not (values != values[0]).any():
        raise TableError("Every input column is constant; there is nothing to predict from.")
    for scaled, names, what in ((values, X.columns, "X"), (y, settings["target"], "y")):
        check_distance(Standardiser.fit(scaled[train]).forward(scaled), names, what)
    return encoder, (X[train], y[train]), (X[test], y[test])


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


def _train(
    regressor: DeepKernelRegressor, train: Rows, test: Rows, directory: ModelDirectory
) -> dict[str, Any]:
    """Train; what a person may later want to know of the fit, the hold-out report included."""
    targets, report = directory.settings["target"], None
    X, y = train
    try:
        with plain_warnings(ignore="Training was interrupted"):
            regressor.fit(X, y[:, 0] if len(targets) == 1 else y)
        if len(test[0]):
            report = holdout_report(regressor.predict_distribution(test[0]), test[1], targets)
            check_report(report)
    except (TrainingError, CholeskyError, FloatingPointError) as error:
        directory.mark("failed")
        where = getattr(error, "last_good", None) or directory.checkpoints
        more = "" if str(where) in str(error) else f" The last good state is in {where}."
        raise CommandError(f"{error}{more}", FAILURE) from error
    return {
        "version": deepwishart.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "rows": len(y),
        "settings": directory.settings,
        "run": directory.run,
        "holdout": report,
    }


def _print_outcome(regressor: DeepKernelRegressor, about: dict[str, Any], out: Path | None) -> None:
    console = Console(highlight=False)
    seconds = regressor.history_.seconds[-1] if regressor.history_.seconds else 0.0
    console.print(
        f"{regressor.n_iter_} steps in {seconds:.1f} s on {about['rows']} rows, "
        f"{regressor.n_features_in_} inputs; ELBO {regressor.elbo_:.3f} per row (standardised)"
    )
    for table in report_tables(about["holdout"]):
        console.print(table)
    if out is not None:
        console.print(f"model written to {out}", soft_wrap=True, markup=False)
