"""``deepwishart fit``: from a table to a model on disk.

Options about the table and the run are here. Those that decide which model comes out are made of
the library's own fields, in :mod:`deepwishart.cli.model_options`, when somebody asks for them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from deepwishart.cli.lists import ListCommand, is_word, is_word_or_number
from deepwishart.cli.table_options import KINDS, Decimal, Encoding, Separator

__all__ = ["FitCommand", "fit"]

_data = partial(typer.Option, rich_help_panel="Data")
_run = partial(typer.Option, rich_help_panel="Run")


class FitCommand(ListCommand):
    """The command below, completed with options that take seconds to import."""

    lists: ClassVar = {"--categorical": is_word, "--drop": is_word, "--missing": is_word_or_number}
    also: ClassVar = {"--inducing": "--num-inducing"}  # as other commands call it
    complete = False

    def get_params(self, ctx: Any) -> list[Any]:
        if not self.complete:
            from deepwishart.cli.model_options import with_model_options

            app = typer.Typer(add_completion=False)
            app.command()(with_model_options(fit))
            command = typer.main.get_command(app)
            self.params, self.callback, self.complete = command.params, command.callback, True
        return super().get_params(ctx)


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
    holdout: Annotated[
        float,
        _data(min=0.0, max=0.9, help="Fraction of rows, drawn at random, to test on, not train."),
    ] = 0.1,
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
        int | None,
        _run(min=2, help="Cross-validate in so many parts first, such as 5; takes as many times."),
    ] = None,
    as_json: Annotated[
        bool, _run("--json", help="Print the outcome as JSON, for programs to read.")
    ] = False,
    quiet: Annotated[bool, _run("--quiet", help="No progress, no remarks, no tables.")] = False,
) -> None:
    """Fit a model to a table, report how well it predicts rows it has not seen, and save it.

    Columns other than the targets are inputs: numbers, true/false, ISO dates, or text categories.
    Rows without a target are left out. Ctrl-C stops training and saves the model so far, unless it
    would replace another; --resume goes on from there.
    """
    from deepwishart.cli.fitting import FitRun, run_fit

    run = FitRun(data, out, resume, force, cv or 0, report, as_json, quiet)
    options = {each.name: each.opts[0] for each in context.command.params}
    settings = {name: context.params[name] for name in options if not hasattr(run, name)}
    run_fit(run, settings, options)
