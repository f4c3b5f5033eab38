"""``deepwishart fit``: from a table to a model on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepwishart.cli.lists import is_word, taking_lists

__all__ = ["fit"]

KERNELS = (
    "arc_cosine0, arc_cosine1, linear, matern12, matern32, matern52, rational_quadratic, relu, "
    "squared_exponential"
)
_DATA, _MODEL, _TRAINING, _RUN = "Data", "Model", "Training", "Run"

fit_command = taking_lists({"--categorical": is_word, "--drop": is_word})


def fit(
    data: Annotated[
        Path, typer.Argument(help="Training table: a .csv, .tsv or .parquet file.", metavar="TABLE")
    ],
    target: Annotated[
        list[str],
        typer.Option(help="Column to predict; repeat it for several.", rich_help_panel=_DATA),
    ],
    out: Annotated[
        Path, typer.Option(help="Directory to write the model to.", rich_help_panel=_RUN)
    ],
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of numbers that are categories, such as post codes. Text columns are "
            "categories anyway.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Columns to leave out, such as identifiers.", rich_help_panel=_DATA),
    ] = None,
    impute: Annotated[
        str | None,
        typer.Option(
            metavar="median",
            help="Fill in missing inputs: 'median' takes the median of a column of numbers, and "
            "the most frequent category. Without it, missing values are refused.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    holdout: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=0.9,
            help="Fraction of rows, chosen at random, to keep out of training and report on.",
            rich_help_panel=_DATA,
        ),
    ] = 0.1,
    process: Annotated[
        str,
        typer.Option(
            help="dwp (deep Wishart process), dgp (deep GP, same prior), dsvi (doubly stochastic "
            "deep GP) or diwp (deep inverse Wishart process).",
            rich_help_panel=_MODEL,
        ),
    ] = "dwp",
    depth: Annotated[
        int, typer.Option(min=1, help="Layers, output layer included.", rich_help_panel=_MODEL)
    ] = 3,
    width: Annotated[
        int | None,
        typer.Option(
            min=1, help="Width of hidden layers; number of inputs.", rich_help_panel=_MODEL
        ),
    ] = None,
    inducing: Annotated[
        int, typer.Option(min=1, help="Inducing points.", rich_help_panel=_MODEL)
    ] = 100,
    kernel: Annotated[
        str, typer.Option(help=f"One of {KERNELS}.", rich_help_panel=_MODEL)
    ] = "squared_exponential",
    dtype: Annotated[
        str, typer.Option(help="float64 or float32.", rich_help_panel=_MODEL)
    ] = "float64",
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda:0, ...", rich_help_panel=_MODEL)
    ] = "auto",
    protocol: Annotated[
        str,
        typer.Option(
            help="fast, or paper for the long schedule of the paper.", rich_help_panel=_TRAINING
        ),
    ] = "fast",
    max_iter: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps; the protocol's.", rich_help_panel=_TRAINING),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="First learning rate; the protocol's.", rich_help_panel=_TRAINING),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Rows per step; the protocol's.", rich_help_panel=_TRAINING),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Posterior samples per step.", rich_help_panel=_TRAINING)
    ] = 10,
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping",
            help="Stop when the bound no longer rises.",
            rich_help_panel=_TRAINING,
        ),
    ] = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            max=2**32 - 1,
            help="Seed of the hold-out rows, the start, training and predictions.",
            rich_help_panel=_TRAINING,
        ),
    ] = 0,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue an unfinished run in --out, given the same options; a new run if there "
            "is none.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace the model in --out once the new one is whole; the old one is kept in its "
            "directory 'previous'.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress, no report.", rich_help_panel=_RUN)
    ] = False,
) -> None:
    """Fit a model to a table, report how well it predicts rows it has not seen, and save it.

    Columns other than the targets are inputs: numbers, true/false, or text categories.
    Ctrl-C stops training and saves the model so far; --resume goes on from there.
    """
    from deepwishart.cli.fitting import FitSettings, run_fit

    settings = FitSettings(
        target=target,
        categorical=sorted(categorical or []),
        drop=sorted(drop or []),
        impute=impute,
        holdout=holdout,
        process=process,
        depth=depth,
        width=width,
        inducing=inducing,
        kernel=kernel,
        dtype=dtype,
        device=device,
        protocol=protocol,
        max_iter=max_iter,
        learning_rate=learning_rate,
        batch_size=batch_size,
        samples=samples,
        early_stopping=early_stopping,
        seed=seed,
    )
    run_fit(data, out, settings, resume=resume, force=force, quiet=quiet)
