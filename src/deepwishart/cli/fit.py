"""``deepwishart fit``: from a table to a model on disk.

Options about the table and the run are here. Those that decide which model comes out are made of
the library's own fields, in :mod:`deepwishart.cli.model_options`, when somebody asks for them.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer

from deepwishart.cli.errors import CommandError
from deepwishart.cli.options import (
    KINDS,
    Decimal,
    Encoding,
    ModelCommand,
    Separator,
    flags,
    is_word,
)

_data = partial(typer.Option, rich_help_panel="Data")
_run = partial(typer.Option, rich_help_panel="Run")
# Where to read and write, and what to say: none of it changes the model that comes out.
_OF_THE_RUN = ("data", "out", "resume", "force", "report", "cv", "quiet")


def _share(text: object) -> float | str:
    """A fraction of rows drawn at random, or last with that fraction.

    >>> _share("0.2"), _share("last"), _share("last:0.2")
    (0.2, 'last:0.1', 'last:0.2')
    """
    text, share = str(text), math.nan
    with suppress(ValueError):
        share = float(text.removeprefix("last").removeprefix(":") or 0.1)
    if not 0 <= share <= 0.9:
        raise typer.BadParameter(f"{text} is no fraction up to 0.9, nor last, nor last:0.2.")
    return f"last:{share:g}" if text.startswith("last") else share


class FitCommand(ModelCommand):
    """The command below, completed with the options of models."""

    lists: ClassVar = dict.fromkeys(("--categorical", "--drop", "--missing"), is_word)

    def make_options(self) -> list[Any]:
        from deepwishart.cli.model_options import model_options
        from deepwishart.estimators import DeepKernelClassifier, DeepKernelRegressor

        return model_options(DeepKernelRegressor, classes=DeepKernelClassifier)


def fit(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help=f"Training table: {KINDS}", metavar="TABLE")],
    target: Annotated[list[str], _data(help="Column to predict; repeat it for several.")],
    out: Annotated[Path, _run(help="Directory to write the model to.")],
    categorical: Annotated[
        list[str] | None,
        _data(help="Columns of numbers that are categories. Text columns are categories anyway."),
    ] = None,
    drop: Annotated[
        list[str] | None, _data(help="Columns to leave out, such as identifiers.")
    ] = None,
    exposure: Annotated[
        str | None,
        _data(help="Column with the time, area or population that counts were made over."),
    ] = None,
    impute: Annotated[
        str | None,
        _data(
            metavar="median",
            help="Fill in missing inputs: 'median' takes the median of a column of numbers, and "
            "the most frequent category. Without it, missing values are refused.",
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        _data(
            help="Spellings of a missing value, instead of NA, N/A, NaN, null, ?, #N/A and Excel's "
            "other errors. An empty field is one anyway."
        ),
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    date_order: Annotated[
        Literal["day-first", "month-first"] | None,
        _data(help="How to read dates such as 05/01/2024; found out where the column allows it."),
    ] = None,
    holdout: Annotated[
        object,
        _data(
            parser=_share,
            metavar="FRACTION|last",
            help="Rows to test on, not train: a fraction, drawn at random; last: the last tenth of "
            "the table, last:0.2: the last fifth.",
        ),
    ] = 0.1,
    split_by: Annotated[
        str | None,
        _data(
            help="Column that divides the rows for --holdout and --cv: later numbers or dates are "
            "predicted from earlier ones; of text, which is no input then, whole groups."
        ),
    ] = None,
    random_state: Annotated[
        int,
        _run(
            "--seed",
            min=0,
            max=2**32 - 1,
            help="Seed of the hold-out rows, the start, training and predictions.",
        ),
    ] = 0,
    resume: Annotated[
        bool,
        _run(
            "--resume",
            help="Continue an unfinished run in --out, given the same options; a new run if there "
            "is none.",
        ),
    ] = False,
    force: Annotated[
        bool,
        _run(
            "--force",
            help="Replace the model in --out once the new one is whole; the old one is kept in its "
            "directory 'previous'.",
        ),
    ] = False,
    report: Annotated[
        Path | None,
        _run(
            help="Write a page about the model and the rows held out to this .html file, with a "
            "linear model and a plain GP for comparison."
        ),
    ] = None,
    cv: Annotated[
        int,
        _run(min=0, help="Cross-validate in so many parts first, such as 5; takes as many times."),
    ] = 0,
    quiet: Annotated[bool, _run("--quiet", help="No progress, no remarks, no tables.")] = False,
) -> None:
    """Fit a model to a table, report how well it predicts rows it has not seen, and save it.

    Columns other than the targets are inputs: numbers, true/false, dates, or text categories.
    Rows without a target are left out. Ctrl-C stops training and saves the model so far, unless it
    would replace another; --resume goes on from there.
    """
    if resume and force:
        raise CommandError("--resume continues a run and --force starts anew: give one.")
    if report is not None:  # better to refuse a page before training than after it
        if not holdout or holdout == "last:0":
            raise CommandError("--report is about rows held out; give a --holdout above 0.")
        if report.suffix.lower() not in (".html", ".htm"):
            raise CommandError(f"--report must be an .html file, got {report}.")
        if report.is_dir() or not report.absolute().parent.is_dir():
            raise CommandError(f"--report {report}: there is no such directory to write to.")
    from deepwishart.cli.fitting import run_fit

    settings = {k: v for k, v in (context.params | context.obj).items() if k not in _OF_THE_RUN}
    run: dict[str, Any] = {"resume": resume, "force": force, "report": report, "cv": cv}
    run_fit(data, out, settings, flags(context.command), **run, quiet=quiet)
