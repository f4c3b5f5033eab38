"""``deepwishart toy``: the paper's one-dimensional comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepwishart.cli.errors import INTERRUPTED, CommandError


def toy(
    out: Annotated[
        Path, typer.Option(help="Directory for pictures and numbers; made if it does not exist.")
    ] = Path("toy"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from 0 on.")] = 5,
    max_iter: Annotated[int, typer.Option(min=1, help="Training steps of each model.")] = 4000,
    inducing: Annotated[int, typer.Option(min=2, help="Inducing points.")] = 20,
    samples: Annotated[
        int, typer.Option(min=2, help="Posterior samples behind every number.")
    ] = 200,
) -> None:
    """Compare the posteriors of a deep Wishart process and of a deep GP with the same prior.

    Both learn a function of one input from 40 points with a gap between them. Writes toy.md with
    the numbers and what they say about the paper's claim, toy.json with all of them, and a picture
    of each posterior. Takes a few minutes.
    """
    from deepwishart.reproduction.toy import ToySettings, run_toy
    from deepwishart.reproduction.toy.report import markdown, write_report

    out.mkdir(parents=True, exist_ok=True)  # better to fail before training than after it
    settings = ToySettings(
        tuple(range(seeds)), max_iter, inducing, num_samples=samples, elbo_samples=5 * samples
    )
    try:
        runs = run_toy(settings, verbose=1)
    except KeyboardInterrupt:
        raise CommandError("interrupted; nothing was written.", INTERRUPTED) from None
    files = write_report(runs, settings, out)
    table, claims = markdown(runs, settings).split("\n## ")[:2]
    print(table[table.index("| |") :].rstrip(), claims.partition("\n")[2].strip(), sep="\n\n")
    typer.echo(f"{len(files)} files written to {out}")
