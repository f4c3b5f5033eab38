"""The command line, ``deepwishart``.

One file per command; what is slow to import, a command imports when it runs. Exit codes are
described in :mod:`deepwishart.cli.errors`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deepwishart import __version__
from deepwishart.cli.bench import bench_app
from deepwishart.cli.data import data_app
from deepwishart.cli.demo import demo
from deepwishart.cli.errors import FriendlyGroup
from deepwishart.cli.example import example
from deepwishart.cli.explain import explain, explain_command
from deepwishart.cli.fit import FitCommand, fit
from deepwishart.cli.info import info
from deepwishart.cli.predict import predict, predict_command
from deepwishart.cli.toy import toy
from deepwishart.cli.uci import uci_app

__all__ = ["app"]

app = typer.Typer(
    name="deepwishart",
    cls=FriendlyGroup,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(example)
app.command(cls=FitCommand)(fit)
app.command(cls=predict_command)(predict)
app.command()(info)
app.command(cls=explain_command)(explain)
app.command()(toy)
app.add_typer(bench_app, name="bench")
app.add_typer(data_app, name="data")
app.add_typer(uci_app, name="uci")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"deepwishart {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Bayesian deep kernel regression: fit a model to a table, predict with error bars.

    Exit codes: 0 success; 1 training failed, and the message says where the last good state is;
    2 wrong usage or bad input; 130 interrupted.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
