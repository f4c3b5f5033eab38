"""The work of ``deepwishart fit``."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from sklearn.base import clone

import deepwishart
from deepwishart.cli.directory import ModelDirectory, SavedModel, likelihood_name
from deepwishart.cli.errors import (
    FAILURE,
    INTERRUPTED,
    CommandError,
    note,
    plain_warnings,
    printable,
)
from deepwishart.cli.preparation import Prepared, Split, prepare, targets_of
from deepwishart.cli.scores import cross_validation, holdout_report, report_tables
from deepwishart.estimators import DeepKernelClassifier, DeepKernelEstimator, DeepKernelRegressor
from deepwishart.estimators.checks import check_counts, check_parameters
from deepwishart.likelihoods import NAMES, CountLikelihood, Gaussian
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.tables.problems import listing
from deepwishart.training import TrainingError

__all__ = ["FitRun", "run_fit"]

# Settings about the table; the others are parameters of the estimators.
_OF_THE_TABLE = (
    *("target", "categorical", "drop", "impute", "holdout"),
    *("missing", "separator", "decimal", "encoding"),
)


@dataclass(frozen=True)
class FitRun:
    """One call of the command: where to read and write, whether to go on or start anew, folds to
    validate on, and what to say of the outcome. None of it changes the model that comes out."""

    data: Path
    out: Path
    resume: bool
    force: bool
    cv: int
    report: Path | None
    as_json: bool
    quiet: bool

    def check(self, holdout: float) -> None:
        """Better to refuse a page before training than after it."""
        if self.resume and self.force:
            raise CommandError("--resume continues a run and --force starts anew: give one.")
        if self.report is None:
            return
        if not holdout:
            raise CommandError("--report is about rows held out; give a --holdout above 0.")
        if self.report.suffix.lower() not in (".html", ".htm"):
            raise CommandError(f"--report must be an .html file, got {self.report}.")
        if self.report.is_dir() or not self.report.absolute().parent.is_dir():
            raise CommandError(f"--report {self.report}: there is no such directory to write to.")


def run_fit(run: FitRun, settings: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Read, train, report, save; everything that can be wrong is refused before training.

    ``settings`` decide which model comes out, ``options`` are their names on the command line.
    """
    run.check(settings["holdout"])
    # Columns in an order of their own, so that --resume may name them in another.
    lists = {name: sorted(settings[name] or ()) for name in ("categorical", "drop")}
    lists |= {"target": list(settings["target"]), "missing": list(settings["missing"] or ())}
    settings = {**settings, **lists}
    chosen = {
        name: value
        for name, value in settings.items()
        if value is not None and name not in _OF_THE_TABLE
    }
    check_parameters(DeepKernelRegressor(**chosen).get_params(deep=False))
    prepared = prepare(run.data, settings, quiet=run.quiet)
    estimator = _make_estimator(chosen, prepared, options)
    split = prepared.hold_out()
    _check_counts(settings, prepared, split)
    folds = list(prepared.folds(run.cv)) if run.cv else []
    for sentence in prepared.notes if not run.quiet else ():
        note(sentence)
    settings["data"] = prepared.digest
    directory = ModelDirectory(run.out)
    with directory.locked():
        if not directory.begin(settings, options, run.resume, run.force):
            note(f"the run in {run.out} has already finished")
            return
        estimator.set_params(checkpoint_dir=directory.checkpoints, verbose=int(not run.quiet))
        validation = _cross_validate(estimator, folds, directory)
        about = _train(estimator, split, directory, compare=run.report is not None)
        about |= {"cv": validation, "left_out": prepared.left_out}
        estimator.set_params(checkpoint_dir=None, verbose=0)
        interrupted = estimator.history_.stopped_by == "interrupt"
        saved = SavedModel(estimator, split.encoder, settings["target"], about)
        in_place = directory.save(saved, interrupted=interrupted)
        directory.mark("interrupted" if interrupted else "finished")
    if run.report is not None and not interrupted:
        from deepwishart.cli.fit_report import write_fit_report

        write_fit_report(run.report, saved, split, run.data)
    if not run.quiet or run.as_json:
        _print_outcome(saved, run, run.out if in_place else None)
    if interrupted:
        where = f"the model so far is in {run.out}"
        where = where if in_place else f"the model in {run.out} is as it was"
        raise CommandError(
            f"interrupted after {estimator.n_iter_} steps; {where}, and the same command with "
            f"--resume {'instead of --force ' if run.force else ''}goes on from there",
            INTERRUPTED,
        )


def _make_estimator(
    chosen: Mapping[str, Any], prepared: Prepared, options: Mapping[str, str]
) -> DeepKernelEstimator:
    """A regressor, or a classifier where the target names classes, with all that was chosen."""
    if not prepared.classes:
        return DeepKernelRegressor(**chosen)
    known = DeepKernelClassifier().get_params()
    for name, value in chosen.items():
        if name not in known and value != "auto":
            raise CommandError(
                f"{options[name]} {printable(value, 60)} is for numbers, but the target "
                f"{printable(prepared.settings['target'][0], 60)} names classes."
            )
    return DeepKernelClassifier(**{name: chosen[name] for name in known if name in chosen})


def _check_counts(settings: Mapping[str, Any], prepared: Prepared, split: Split) -> None:
    """Refuse targets that are no counts, and an exposure that is no column of numbers."""
    counts = issubclass(NAMES.get(settings["likelihood"], Gaussian), CountLikelihood)
    if counts:
        check_counts(prepared.y, settings["target"])
    exposure = settings["exposure"]
    if exposure is None:
        return
    if not counts:
        raise CommandError(
            "--exposure is for counts: give --likelihood poisson or negative_binomial with it."
        )
    option = f"--exposure {printable(exposure, 60)}"
    if exposure not in split.encoder.feature_names:
        known = listing(split.encoder.feature_names, 8)
        raise CommandError(f"{option} is no column of numbers among the inputs: {known}.")
    if not (prepared.table[exposure].cast(float, strict=False) > 0).all():
        raise CommandError(f"{option}: not all positive.")


def _cross_validate(
    regressor: DeepKernelEstimator, folds: list[Split], directory: ModelDirectory
) -> dict[str, Any] | None:
    """Train anew without each part of the rows, and score the part; beside a linear model."""
    reports: list[dict[str, Any]] = []
    for fold in folds:
        model = clone(regressor)
        with _training(directory):
            fit_rows(model, *fold.train)
            if model.history_.stopped_by == "interrupt":
                directory.mark("interrupted")
                raise CommandError(
                    f"interrupted in part {len(reports) + 1} of {len(folds)} of the "
                    "cross-validation; the same command with --resume goes on from there",
                    INTERRUPTED,
                )
            targets = directory.settings["target"]
            reports.append(holdout_report(model, fold, targets, linear=True))
    return cross_validation(reports) if reports else None


def fit_rows(model: DeepKernelEstimator, X: Any, y: Any) -> None:
    """Fit to encoded rows; who interrupts knows it without a warning."""
    with plain_warnings(ignore="Training was interrupted"):
        model.fit(X, targets_of(y))


@contextmanager
def _training(directory: ModelDirectory) -> Iterator[None]:
    """Failures of training as errors that say where the last good state is."""
    try:
        yield
    except (TrainingError, CholeskyError, FloatingPointError) as error:
        directory.mark("failed")
        where = getattr(error, "last_good", None) or directory.checkpoints
        more = "" if str(where) in str(error) else f" The last good state is in {where}."
        raise CommandError(f"{error}{more}", FAILURE) from error


def _train(
    regressor: DeepKernelEstimator, split: Split, directory: ModelDirectory, *, compare: bool
) -> dict[str, Any]:
    """Train; what a person may later want to know of the fit, the hold-out report included."""
    targets, report = directory.settings["target"], None
    with _training(directory):
        fit_rows(regressor, *split.train)
        if len(split.test[0]):
            compare = compare and regressor.history_.stopped_by != "interrupt"
            report = holdout_report(regressor, split, targets, linear=compare, one_layer=compare)
    return {
        "version": deepwishart.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "rows": len(split.train[1]),
        "settings": directory.settings,
        "run": directory.run,
        "holdout": report,
    }


def _print_outcome(saved: SavedModel, run: FitRun, out: Path | None) -> None:
    estimator, model, about = saved.regressor, saved.regressor.model_, saved.fit
    seconds = estimator.history_.seconds[-1] if estimator.history_.seconds else 0.0
    if run.as_json:
        facts = {
            "model": None if out is None else str(out),
            "report": None if run.report is None else str(run.report),
            "steps": estimator.n_iter_,
            "stopped_by": estimator.history_.stopped_by,
            "seconds": round(seconds, 1),
            "inputs": estimator.n_features_in_,
            "depth": model.depth,
            "likelihood": likelihood_name(model),
            "elbo": estimator.elbo_,
            **{name: about[name] for name in ("rows", "left_out", "holdout", "cv")},
        }
        print(json.dumps(facts, indent=2, allow_nan=False))
        return
    console = Console(highlight=False)
    console.print(
        f"{estimator.n_iter_:,} steps in {seconds:,.1f} s on {about['rows']:,} rows, "
        f"{estimator.n_features_in_} inputs; ELBO {estimator.elbo_:.3f} per row"
        f"{' (standardised)' if model.likelihood.location_scale else ''}"
    )
    if estimator.depth == "auto":
        layers = f"{model.depth} layer{'s' * (model.depth > 1)}"
        if getattr(estimator, "likelihood", None) == "auto":
            varies = not isinstance(model.likelihood, Gaussian)
            layers += f", {'noise that depends on the inputs' if varies else 'constant noise'}"
        console.print(f"chosen by the bound: {layers}")
    for table in report_tables(about["cv"], about["holdout"]):
        console.print(table)
    if out is not None:
        for what, where in (("model", out), ("report", run.report)):
            if where is not None:
                console.print(f"{what} written to {where}", soft_wrap=True, markup=False)
