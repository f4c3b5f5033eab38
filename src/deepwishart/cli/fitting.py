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
from deepwishart.cli.directory import ModelDirectory, SavedModel
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
from deepwishart.estimators.checks import LIKELIHOODS, check_counts, check_parameters
from deepwishart.likelihoods import Gaussian
from deepwishart.likelihoods.counts import CountLikelihood
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.tables.problems import listing
from deepwishart.training import TrainingError

__all__ = ["Wishes", "run_fit"]

# Settings about the table; the others are parameters of the regressor.
_OF_THE_TABLE = (
    *("target", "categorical", "drop", "impute", "holdout"),
    *("missing", "separator", "decimal", "encoding"),
)


@dataclass(frozen=True)
class Wishes:
    """How to go about it: go on or start anew, folds to validate on, a page, JSON, silence."""

    resume: bool
    force: bool
    cv: int
    report: Path | None
    as_json: bool
    quiet: bool


def run_fit(
    data: Path,
    out: Path,
    settings: Mapping[str, Any],
    options: Mapping[str, str],
    wishes: Wishes,
) -> None:
    """Read, train, report, save; everything that can be wrong is refused before training.

    ``settings`` decide which model comes out, ``options`` are their names on the command line.
    """
    if wishes.resume and wishes.force:
        raise CommandError("--resume continues a run and --force starts anew: give one of them.")
    # Columns in an order of their own, so that --resume may name them in another.
    lists = {name: sorted(settings[name] or ()) for name in ("categorical", "drop")}
    lists |= {"target": list(settings["target"]), "missing": list(settings["missing"] or ())}
    settings = {**settings, **lists}
    given = {name: value for name, value in settings.items() if value is not None}
    regressor: DeepKernelEstimator = DeepKernelRegressor(
        **{name: value for name, value in given.items() if name not in _OF_THE_TABLE}
    )
    check_parameters(regressor.get_params(deep=False))
    _check_wishes(wishes, settings["holdout"])
    prepared = prepare(data, settings, quiet=wishes.quiet)
    if prepared.classes:
        if settings["likelihood"] != "auto":
            raise CommandError(
                f"--likelihood {settings['likelihood']} is for numbers, but the target "
                f"{printable(settings['target'][0], 60)} names classes."
            )
        regressor = _as_classifier(regressor, prepared, settings["target"][0], wishes.quiet)
    split = prepared.hold_out()
    _check_counts(settings, prepared, split)
    folds = list(prepared.folds(wishes.cv)) if wishes.cv else []
    for remark in prepared.remarks if not wishes.quiet else ():
        note(remark)
    settings["data"] = prepared.digest
    directory = ModelDirectory(out)
    with directory.locked():
        if not directory.begin(settings, options, wishes.resume, wishes.force):
            note(f"the run in {out} has already finished")
            return
        regressor.set_params(checkpoint_dir=directory.checkpoints, verbose=int(not wishes.quiet))
        validation = _cross_validate(regressor, folds, directory)
        about = _train(regressor, split, directory, compare=wishes.report is not None)
        about |= {"cv": validation, "left_out": prepared.left_out}
        regressor.set_params(checkpoint_dir=None, verbose=0)
        interrupted = regressor.history_.stopped_by == "interrupt"
        saved = SavedModel(regressor, split.encoder, settings["target"], about)
        in_place = directory.save(saved, interrupted=interrupted)
        directory.mark("interrupted" if interrupted else "finished")
    if wishes.report is not None and not interrupted:
        from deepwishart.cli.fit_report import write_fit_report

        write_fit_report(wishes.report, saved, split, data)
    if not wishes.quiet or wishes.as_json:
        _print_outcome(saved, out if in_place else None, wishes)
    if interrupted:
        where = f"the model so far is in {out}" if in_place else f"the model in {out} is as it was"
        raise CommandError(
            f"interrupted after {regressor.n_iter_} steps; {where}, and the same command with "
            f"--resume {'instead of --force ' if wishes.force else ''}goes on from there",
            INTERRUPTED,
        )


def _as_classifier(
    regressor: DeepKernelEstimator, prepared: Prepared, target: str, quiet: bool
) -> DeepKernelClassifier:
    """A classifier with the parameters that were chosen, and a word about it."""
    if not quiet:
        count, names = len(prepared.classes), listing(prepared.classes, 4)
        note(f"{printable(target, 60)} names {count} classes ({names}): this is a classifier")
    known, usual = DeepKernelClassifier().get_params(), DeepKernelRegressor().get_params()
    given = {name: value for name, value in regressor.get_params().items() if name in known}
    changed = {name: value for name, value in given.items() if value != usual[name]}
    return DeepKernelClassifier(**changed)


def _check_counts(settings: Mapping[str, Any], prepared: Prepared, split: Split) -> None:
    """Refuse targets that are no counts, and an exposure that is no column of numbers."""
    counts = issubclass(LIKELIHOODS.get(settings["likelihood"], Gaussian), CountLikelihood)
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


def _check_wishes(wishes: Wishes, holdout: float) -> None:
    """Better to refuse a page before training than after it."""
    if wishes.report is None:
        return
    if not holdout:
        raise CommandError("--report is about rows held out; give a --holdout above 0.")
    if wishes.report.suffix.lower() not in (".html", ".htm"):
        raise CommandError(f"--report must be an .html file, got {wishes.report}.")
    if wishes.report.is_dir() or not wishes.report.absolute().parent.is_dir():
        raise CommandError(f"--report {wishes.report}: there is no such directory to write to.")


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


def _print_outcome(saved: SavedModel, out: Path | None, wishes: Wishes) -> None:
    regressor, about = saved.regressor, saved.fit
    seconds = regressor.history_.seconds[-1] if regressor.history_.seconds else 0.0
    if wishes.as_json:
        facts = {
            "model": None if out is None else str(out),
            "report": None if wishes.report is None else str(wishes.report),
            "steps": regressor.n_iter_,
            "stopped_by": regressor.history_.stopped_by,
            "seconds": round(seconds, 1),
            "inputs": regressor.n_features_in_,
            "depth": regressor.model_.depth,
            "likelihood": regressor.spec_.likelihood if hasattr(regressor, "likelihood") else None,
            "elbo": regressor.elbo_,
            **{name: about[name] for name in ("rows", "left_out", "holdout", "cv")},
        }
        print(json.dumps(facts, indent=2, allow_nan=False))
        return
    console = Console(highlight=False)
    console.print(
        f"{regressor.n_iter_:,} steps in {seconds:,.1f} s on {about['rows']:,} rows, "
        f"{regressor.n_features_in_} inputs; ELBO {regressor.elbo_:.3f} per row"
        f"{' (standardised)' if regressor.model_.likelihood.location_scale else ''}"
    )
    if regressor.depth == "auto" and getattr(regressor, "likelihood", None) == "auto":
        depth = regressor.model_.depth
        varies = not isinstance(regressor.model_.likelihood, Gaussian)
        console.print(
            f"chosen by the bound: {depth} layer{'s' * (depth > 1)}, "
            f"{'noise that depends on the inputs' if varies else 'the same noise everywhere'}"
        )
    for table in report_tables(about["cv"], about["holdout"]):
        console.print(table)
    if out is not None:
        console.print(f"model written to {out}", soft_wrap=True, markup=False)
    if wishes.report is not None and out is not None:
        console.print(f"report written to {wishes.report}", soft_wrap=True, markup=False)
