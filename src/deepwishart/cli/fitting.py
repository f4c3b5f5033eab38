"""The work of ``deepwishart fit``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from sklearn.base import clone

from deepwishart.cli.directory import ModelDirectory
from deepwishart.cli.errors import (
    FAILURE,
    INTERRUPTED,
    CommandError,
    name_options,
    note,
    plain_warnings,
    printable,
)
from deepwishart.cli.preparation import OF_THE_TABLE, Prepared, prepare, targets_of
from deepwishart.cli.scores import (
    TRIED,
    cross_validation,
    holdout_report,
    report_tables,
    table_of,
    tried_lines,
)
from deepwishart.estimators import DeepKernelClassifier, DeepKernelEstimator, DeepKernelRegressor
from deepwishart.estimators.checks import check_parameters
from deepwishart.estimators.table_model import TableModel
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.training import TrainingError


def run_fit(
    data: Path,
    out: Path,
    settings: dict[str, Any],
    options: Mapping[str, str],
    *,
    resume: bool,
    force: bool,
    report: Path | None,
    cv: int,
    quiet: bool,
) -> None:
    """Read, train, report, save; everything that can be wrong is refused before training.

    ``settings`` decide which model comes out, ``options`` are their names on the command line.
    """
    # Columns in an order of their own, so that --resume may name them in another.
    settings |= {name: sorted(settings[name] or ()) for name in ("categorical", "drop")}
    settings |= {name: list(settings[name] or ()) for name in ("target", "missing")}
    chosen = {k: v for k, v in settings.items() if v is not None and k not in OF_THE_TABLE}
    regressor = DeepKernelRegressor(**chosen)
    check_parameters(regressor.get_params(deep=False))
    rows, *folds = prepare(data, settings, regressor, cv=cv, quiet=quiet)
    estimator = _make_estimator(chosen, bool(rows.classes), settings["target"][0], options)
    for sentence in rows.notes if not quiet else ():
        note(sentence)
    settings["data"] = rows.digest
    directory = ModelDirectory(out)
    with directory.locked():
        if not directory.begin(settings, options, resume, force):
            note(f"the run in {out} has already finished")
            return
        estimator.set_params(checkpoint_dir=directory.checkpoints, verbose=int(not quiet))
        about: dict[str, Any] = {"run": directory.run, "holdout": None, "cv": None}
        about |= {"rows": len(rows.train[1]), "left_out": rows.left_out}
        with _training(directory, options):
            if folds:
                about["cv"] = _cross_validate(estimator, folds, directory)
            interrupted = _fit_rows(estimator, rows)
            if len(rows.test[0]):
                compare = ("linear", "gp") if report is not None and not interrupted else ()
                about["holdout"] = holdout_report(estimator, rows, settings["target"], compare)
        estimator.set_params(checkpoint_dir=None, verbose=0)
        saved = TableModel(estimator, rows.encoder, settings["target"], about)
        in_place = directory.save(saved, interrupted=interrupted)
        directory.mark("interrupted" if interrupted else "finished")
    if not quiet:
        _print_outcome(saved)
        if in_place:
            print(f"model written to {out}")
    if report is not None and not interrupted:
        from deepwishart.cli.fit_report import write_fit_report

        write_fit_report(report, saved, rows, data)
        if not quiet:
            print(f"report written to {report}")
    if interrupted:
        left = f"the model so far is in {out}"
        left = left if in_place else f"the model in {out} is as it was"
        raise CommandError(
            f"interrupted after {estimator.n_iter_} steps; {left}, and the same command with "
            f"--resume {'instead of --force ' if force else ''}goes on from there",
            INTERRUPTED,
        )


def _make_estimator(
    chosen: Mapping[str, Any], classes: bool, target: str, options: Mapping[str, str]
) -> DeepKernelEstimator:
    """A regressor, or a classifier where the target names classes, with all that was chosen."""
    if not classes:
        return DeepKernelRegressor(**chosen)
    known = DeepKernelClassifier().get_params()
    for name, value in chosen.items():
        if name not in known and value != "auto":
            raise CommandError(
                f"{options[name]} {printable(value, 60)} is for numbers, but the target "
                f"{printable(target, 60)} names classes."
            )
    return DeepKernelClassifier(**{name: chosen[name] for name in known if name in chosen})


def _fit_rows(estimator: DeepKernelEstimator, rows: Prepared) -> bool:
    """Train, and say whether that was interrupted."""
    X, y = rows.train
    return estimator.fit(X, targets_of(y)).history_.stopped_by == "interrupt"


def _cross_validate(
    estimator: DeepKernelEstimator, folds: list[Prepared], directory: ModelDirectory
) -> dict[str, Any]:
    """Train anew without each part of the rows, and score the part; beside a linear model."""
    reports: list[dict[str, Any]] = []
    for fold in folds:
        model = clone(estimator)
        if _fit_rows(model, fold):
            directory.mark("interrupted")
            raise CommandError(
                f"interrupted in part {len(reports) + 1} of {len(folds)} of the "
                "cross-validation; the same command with --resume goes on from there",
                INTERRUPTED,
            )
        reports.append(holdout_report(model, fold, directory.settings["target"], ("linear",)))
    return cross_validation(reports)


@contextmanager
def _training(directory: ModelDirectory, options: Mapping[str, str]) -> Iterator[None]:
    """Warnings of training in a line each, and failures as errors that say where the last good
    state is; an interruption is said elsewhere."""
    try:
        with plain_warnings("Training was interrupted", options):
            yield
    except ValueError:  # of a model that cannot be
        directory.forget()
        raise
    except (TrainingError, CholeskyError, FloatingPointError) as error:
        directory.mark("failed")
        where = getattr(error, "last_good", None) or directory.checkpoints
        more = "" if str(where) in str(error) else f" The last good state is in {where}."
        raise CommandError(f"{name_options(error, options)}{more}", FAILURE) from error


def _print_outcome(saved: TableModel) -> None:
    estimator, model, about = saved.regressor, saved.regressor.model_, saved.fit
    history = estimator.history_
    seconds = history.seconds[-1] if history.seconds else 0.0
    print(
        f"{estimator.n_iter_:,} steps in {seconds:,.1f} s on {about['rows']:,} rows, "
        f"{estimator.n_features_in_} inputs; ELBO {estimator.elbo_:.3f} per row"
        f"{' (standardised)' if model.likelihood.location_scale else ''}"
    )
    chosen = [
        f"{name} {getattr(estimator.spec_, name)}"
        for name in ("kernel", "likelihood", "depth")
        if len({each[name] for each in history.tried}) > 1
    ]
    if chosen:
        print(f"chosen by the bound: {', '.join(chosen)}")
        Console(highlight=False).print(table_of(tried_lines(history), *TRIED, title="tried"))
    for table in report_tables(about["cv"], about["holdout"]):
        Console(highlight=False).print(table)
