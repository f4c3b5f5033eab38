"""``deepwishart bench``: what training costs on this machine."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from deepwishart._support.files import write_atomically
from deepwishart.cli.errors import CommandError, note
from deepwishart.cli.options import taking_lists

bench_app = typer.Typer(help="Measure what training costs on this machine.", no_args_is_help=True)

_case = partial(typer.Option, rich_help_panel="What to measure")
_size = partial(
    typer.Option, rich_help_panel="Sizes; by default those of the paper's runs on boston"
)
_COLUMNS = ("process", "dtype", "depth", "threads", "step (ms)", "GEMM (GF/s)", "ratio", "speed-up")
_FORMATS = ("", "", "", "", ".1f", ".0f", ".2f", ".2f")


@bench_app.command(cls=taking_lists("--processes", "--dtypes", "--depths", "--threads"))
def step(
    processes: Annotated[
        list[str] | None, _case(help="dwp, dgp, dsvi, diwp; all by default.")
    ] = None,
    dtypes: Annotated[list[str] | None, _case(help="float64, float32; both by default.")] = None,
    depths: Annotated[
        list[int] | None, _case(min=1, help="Layers, output included; by default 2 and 5.")
    ] = None,
    threads: Annotated[
        list[int] | None, _case(min=1, help="Numbers of threads; by default 1 and 2.")
    ] = None,
    rows: Annotated[int, _size(min=1, help="Rows in the batch.")] = 455,
    features: Annotated[int, _size(min=1, help="Features, and width.")] = 13,
    inducing: Annotated[int, _size(min=1, help="Inducing points.")] = 100,
    samples: Annotated[int, _size(min=1, help="Posterior samples.")] = 10,
    repeats: Annotated[int, _case(min=1, help="Timings behind each median.")] = 25,
    out: Annotated[
        Path | None, typer.Option(help="JSON file to write as well, when all is measured.")
    ] = None,
) -> None:
    """Time gradient steps in units of this machine's own matrix product.

    Each line has the median time of a step, the rate of a 1000 by 1000 product in the same dtype
    with as many threads, timed in turn with the steps, and their ratio: the time of the step over
    that of S * depth * (4 P^2 N + 6 P^3) operations at this rate, with S samples, P inducing points
    and N rows. Dtypes are timed in turn as well; the speed-up is over the first. The table is
    Markdown.
    """
    import torch

    from deepwishart._support.arguments import check_choice
    from deepwishart.benchmark import Shape, environment, measure
    from deepwishart.spec import CHOICES

    shape = Shape(rows, features, inducing, samples)
    for what, names in (("process", processes), ("dtype", dtypes)):
        for name in names or ():
            check_choice(what, name, CHOICES[what])
    wanted = [getattr(torch, name) for name in dtypes or CHOICES["dtype"]]
    if out is not None:  # better to fail before measuring than after it
        if out.is_dir():
            raise CommandError(f"--out {out} is a directory; name a file.")
        out.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"environment": environment(), "shape": asdict(shape)}
    record |= {"repeats": repeats, "measurements": []}
    if (native := record["environment"]["native"]) != "loaded":
        note(f"steps run without compiled loops: {native}")
    print(_line(_COLUMNS), _line(["-:"] * len(_COLUMNS), "-"), sep="\n", flush=True)
    for count, depth, process in itertools.product(
        threads or (1, 2), depths or (2, 5), processes or CHOICES["process"]
    ):
        found = measure(
            process, depth=depth, dtypes=wanted, threads=count, repeats=repeats, shape=shape
        )
        for one in found:
            record["measurements"].append(asdict(one))
            numbers = zip(asdict(one).values(), _FORMATS, strict=True)
            print(_line([format(number, form) for number, form in numbers]), flush=True)
    if out is not None:
        write_atomically(out, json.dumps(record, indent=1) + "\n")


def _line(cells: Sequence[str], fill: str = " ") -> str:
    """A row of the table, in columns wide enough for any name or number."""
    widths = (max(7, len(heading)) for heading in _COLUMNS)
    return f"| {' | '.join(map(str.rjust, cells, widths, [fill] * len(cells)))} |"
