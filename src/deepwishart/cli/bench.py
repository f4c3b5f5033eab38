"""``deepwishart bench``: what training costs on this machine."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from deepwishart._support.files import write_atomically
from deepwishart.cli.errors import CommandError, note
from deepwishart.cli.lists import is_word, taking_lists

__all__ = ["bench_app"]

bench_app = typer.Typer(help="Measure what training costs on this machine.", no_args_is_help=True)

_case = partial(typer.Option, rich_help_panel="What to measure")
_size = partial(
    typer.Option, rich_help_panel="Sizes; by default those of the paper's runs on boston"
)
_Words = list[str] | None
_COLUMNS = ("process", "dtype", "depth", "threads", "step (ms)", "GEMM (GF/s)", "ratio", "speed-up")
_FORMATS = ("", "", "", "", ".1f", ".0f", ".2f", ".2f")
_lists = dict.fromkeys(["--processes", "--dtypes", "--depths", "--threads"], is_word)


@bench_app.command(cls=taking_lists(_lists))
def step(
    processes: Annotated[_Words, _case(help="dwp, dgp, dsvi, diwp; all by default.")] = None,
    dtypes: Annotated[_Words, _case(help="float64, float32; both by default.")] = None,
    depths: Annotated[
        _Words, _case(help="Layers, output included, as 2-5 or 2,5; by default 2 and 5.")
    ] = None,
    threads: Annotated[_Words, _case(help="As 1-4 or 1,4; by default 1 and 2.")] = None,
    quick: Annotated[
        bool, _case("--quick", help="Of processes and threads, dwp and 2 only.")
    ] = False,
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

    from deepwishart.benchmark import Shape, environment, measure
    from deepwishart.spec import CHOICES, PROCESSES

    shape = Shape(rows, features, inducing, samples)
    wanted = [getattr(torch, name) for name in _choices("dtype", dtypes, CHOICES["dtype"])]
    # More threads than cores only take turns, and very many end the process.
    most = max(2, os.cpu_count() or 1)
    cases = itertools.product(
        _whole_numbers("threads", threads or (["2"] if quick else ["1", "2"]), most),
        _whole_numbers("depths", depths or ["2", "5"]),
        _choices("process", processes or (["dwp"] if quick else None), list(PROCESSES)),
    )
    if out is not None:  # better to fail before measuring than after it
        if out.is_dir():
            raise CommandError(f"--out {out} is a directory; name a file.")
        out.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"environment": environment(), "shape": asdict(shape)}
    record |= {"repeats": repeats, "measurements": []}
    if (native := record["environment"]["native"]) != "loaded":
        note(f"steps run without compiled loops: {native}")
    print(_line(_COLUMNS), _line(["-:"] * len(_COLUMNS), "-"), sep="\n", flush=True)
    for count, depth, process in cases:
        found = measure(
            process, depth=depth, dtypes=wanted, threads=count, repeats=repeats, shape=shape
        )
        for one in found:
            record["measurements"].append(asdict(one))
            numbers = zip(asdict(one).values(), _FORMATS, strict=True)
            print(_line([format(number, form) for number, form in numbers]), flush=True)
    if out is not None:
        write_atomically(out, json.dumps(record, indent=1) + "\n")


def _choices(what: str, asked: list[str] | None, known: Sequence[str]) -> list[str]:
    """The names asked for, each once; all that are known if none is."""
    from deepwishart._support.arguments import check_choice

    for name in asked or ():
        check_choice(what, name, known)
    return list(dict.fromkeys(asked or known))


def _whole_numbers(what: str, texts: list[str], most: int | None = None) -> tuple[int, ...]:
    from deepwishart.reproduction.sweeps.spec import parse_numbers

    numbers = parse_numbers(texts, what)
    if numbers[0] < 1:
        raise CommandError(f"{what}: the smallest number is 1.")
    if most is not None and numbers[-1] > most:
        raise CommandError(f"{what}: the largest number on this machine is {most}.")
    return numbers


def _line(cells: Sequence[str], fill: str = " ") -> str:
    """A row of the table, in columns wide enough for any name or number."""
    widths = (max(7, len(heading)) for heading in _COLUMNS)
    return f"| {' | '.join(map(str.rjust, cells, widths, [fill] * len(cells)))} |"
