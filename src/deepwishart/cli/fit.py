"""``deepwishart fit``: from a table to a model on disk.

Each option is spelled once, here. Those that decide which model comes out are named after the
regressor's parameters, and reach it as they are.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

import typer

from deepwishart.cli.lists import completing, is_word, is_word_or_number, taking_lists
from deepwishart.cli.table_options import KINDS, Decimal, Encoding, Separator

__all__ = ["fit"]

KERNELS = (
    "arc_cosine0, arc_cosine1, linear, matern12, matern32, matern52, rational_quadratic, relu, "
    "squared_exponential"
)
PROCESSES = (
    "dwp (deep Wishart process), dgp (deep GP, same prior), dsvi (doubly stochastic deep GP) or "
    "diwp (deep inverse Wishart process)."
)

fit_command = taking_lists(
    {"--categorical": is_word, "--drop": is_word, "--missing": is_word_or_number},
    also={"--inducing": "--num-inducing"},
)


def _option(panel: str, help: str, *names: str, **limits: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **limits)


_data, _model, _training, _run = (
    functools.partial(_option, panel) for panel in ("Data", "Model", "Training", "Run")
)


def _count_or_auto(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"{text!r} is neither 'auto' nor a whole number of at least 1.")
    return number


_COUNT: dict[str, Any] = {"parser": _count_or_auto, "metavar": "NUMBER|auto"}


def fit(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help=f"Training table: {KINDS}", metavar="TABLE")],
    target: Annotated[list[str], _data("Column to predict; repeat it for several.")],
    out: Annotated[Path, _run("Directory to write the model to.")],
    categorical: Annotated[
        list[str] | None,
        _data(
            "Columns of numbers that are categories, such as post codes. Text columns are "
            "categories anyway."
        ),
    ] = None,
    drop: Annotated[list[str] | None, _data("Columns to leave out, such as identifiers.")] = None,
    impute: Annotated[
        str | None,
        _data(
            "Fill in missing inputs: 'median' takes the median of a column of numbers, and the "
            "most frequent category. Without it, missing values are refused.",
            metavar="median",
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        _data(
            "Spellings of a missing value, instead of NA, N/A, NaN, null, ?, #N/A and Excel's "
            "other errors. An empty field is one anyway."
        ),
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    holdout: Annotated[
        float,
        _data(
            "Fraction of rows, chosen at random, to keep out of training and report on.",
            min=0.0,
            max=0.9,
        ),
    ] = 0.1,
    process: Annotated[
        str, _model(PROCESSES, autocompletion=completing(("dwp", "dgp", "dsvi", "diwp")))
    ] = "dwp",
    depth: Annotated[
        Any, _model("Layers, output layer included; auto: as many as the bound asks for.", **_COUNT)
    ] = "auto",
    width: Annotated[int | None, _model("Width of hidden layers; number of inputs.", min=1)] = None,
    n_inducing: Annotated[
        Any, _model("Inducing points; auto: by rows.", "--num-inducing", **_COUNT)
    ] = "auto",
    kernel: Annotated[
        str, _model(f"One of {KERNELS}.", autocompletion=completing(KERNELS.split(", ")))
    ] = "squared_exponential",
    output: Annotated[
        str, _model("collapsed (all rows at every step), inducing (minibatches) or auto, by rows.")
    ] = "auto",
    likelihood: Annotated[
        str,
        _model(
            "How targets scatter: gaussian, heteroscedastic (noise depends on the inputs), "
            "student_t (outliers), heteroscedastic_t (both), poisson or negative_binomial "
            "(counts); auto: gaussian or heteroscedastic_t, by the bound."
        ),
    ] = "auto",
    exposure: Annotated[
        str | None, _model("Column with the time, area or population that counts were made over.")
    ] = None,
    posterior: Annotated[
        str,
        _model(
            "Mixing of the Bartlett factor: bartlett (none), rows, columns or rows_columns; "
            "auto: the last, but none with the protocol paper."
        ),
    ] = "auto",
    dtype: Annotated[str, _model("float64 or float32.")] = "float64",
    device: Annotated[str, _model("auto, cpu, cuda:0, ...")] = "auto",
    protocol: Annotated[
        str, _training("fast, or paper for the long schedule of the paper.")
    ] = "fast",
    max_iter: Annotated[int | None, _training("Training steps; the protocol's.", min=1)] = None,
    learning_rate: Annotated[
        float | None, _training("First learning rate; the protocol's.")
    ] = None,
    batch_size: Annotated[int | None, _training("Rows per step; the protocol's.", min=1)] = None,
    n_samples: Annotated[
        int | None, _training("Posterior samples per step; the protocol's.", "--samples", min=1)
    ] = None,
    early_stopping: Annotated[
        bool, _training("Stop when the bound no longer rises.", "--early-stopping/--all-steps")
    ] = True,
    random_state: Annotated[
        int,
        _training(
            "Seed of the hold-out rows, the start, training and predictions.",
            "--seed",
            min=0,
            max=2**32 - 1,
        ),
    ] = 0,
    resume: Annotated[
        bool,
        _run(
            "Continue an unfinished run in --out, given the same options; a new run if there is "
            "none.",
            "--resume",
        ),
    ] = False,
    force: Annotated[
        bool,
        _run(
            "Replace the model in --out once the new one is whole; the old one is kept in its "
            "directory 'previous'.",
            "--force",
        ),
    ] = False,
    report: Annotated[
        Path | None,
        _run(
            "Write a page about the model and the rows held out to this .html file, with a linear "
            "model and a plain GP for comparison."
        ),
    ] = None,
    cv: Annotated[
        int | None,
        _run(
            "Cross-validate in so many parts first, such as 5; takes as many times longer.",
            "--cv",
            min=2,
        ),
    ] = None,
    as_json: Annotated[
        bool, _run("Print the outcome as JSON, for programs to read.", "--json")
    ] = False,
    quiet: Annotated[bool, _run("No progress, no remarks, no tables.", "--quiet")] = False,
) -> None:
    """Fit a model to a table, report how well it predicts rows it has not seen, and save it.

    Columns other than the targets are inputs: numbers, true/false, ISO dates, or text categories.
    Rows without a target are left out. Ctrl-C stops training and saves the model so far, unless it
    would replace another; --resume goes on from there.
    """
    from deepwishart.cli.fitting import Wishes, run_fit

    options = {each.name: each.opts[0] for each in context.command.params}
    settings = {name: context.params[name] for name in options if name not in _NO_SETTINGS}
    wishes = Wishes(resume, force, cv or 0, report, as_json, quiet)
    run_fit(data, out, settings, options, wishes)


_NO_SETTINGS = ("data", "out", "resume", "force", "quiet", "help", "report", "cv", "as_json")
