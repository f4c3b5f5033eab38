"""``deepwishart uci``: the paper's experiments on the UCI data sets."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from deepwishart.cli.errors import FAILURE, INTERRUPTED, CommandError, note
from deepwishart.cli.options import ModelCommand, is_word

if TYPE_CHECKING:
    from deepwishart.reproduction.sweeps import Engine, ResultsStore, RunSpec, Settings

uci_app = typer.Typer(help="Sweeps over the UCI data sets of the paper.", no_args_is_help=True)

_run = partial(typer.Option, rich_help_panel="Runs")
_engine = partial(typer.Option, rich_help_panel="Engine")
_Words = list[str] | None
_LISTS = ("--datasets", "--processes", "--depths", "--splits", "--seeds")


class _RunCommand(ModelCommand):
    """A command with an option for each field of a model, of settings and of how runs are done."""

    lists: ClassVar = dict.fromkeys(_LISTS, is_word)

    def make_options(self) -> list[Any]:
        from deepwishart.cli.model_options import model_options
        from deepwishart.reproduction.sweeps import Execution, Settings
        from deepwishart.spec import ModelSpec

        decided = ("process", "depth", "output")  # by the run
        return model_options(ModelSpec, Settings, Execution, without=decided)


@uci_app.command(cls=_RunCommand)
def run(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Directory of the results.", show_default=False)],
    datasets: Annotated[_Words, _run(help="Data sets; all of them by default.")] = None,
    processes: Annotated[_Words, _run(help="dwp, dgp, dsvi, diwp; by default dwp and dgp.")] = None,
    depths: Annotated[_Words, _run(help="Layers, output included; by default 2-5.")] = None,
    splits: Annotated[_Words, _run(help="As 0-19 or 0,3,5; all of them by default.")] = None,
    seeds: Annotated[_Words, _run(help="By default 0.")] = None,
    protocol: Annotated[str, _run(help="Training protocol: paper, converged or fast.")] = "paper",
    output: Annotated[
        str | None, _run(help="Output layer, inducing or collapsed; the protocol's.")
    ] = None,
    retry_failed: Annotated[bool, _run("--retry-failed", help="Do failed runs again.")] = False,
    dry_run: Annotated[
        bool, _run("--dry-run", help="List what is to be done and stop; needs no data.")
    ] = False,
    engine: Annotated[Literal["local", "ray"], _engine(help="Where runs are done.")] = "local",
    workers: Annotated[
        int | None,
        _engine(min=1, help="Runs at a time; as many as cores (local) or as the cluster holds."),
    ] = None,
    gpus_per_run: Annotated[float, _engine(min=0.0, help="GPUs of a run, on Ray.")] = 0.0,
    address: Annotated[str, _engine(help="Address of the Ray cluster.")] = "auto",
) -> None:
    """Train and evaluate every combination of data set, split, process, depth and seed.

    Each finished run adds a line to runs.jsonl in the results directory. Runs that are there
    already, with the same settings, are not repeated, and interrupted ones resume: after any crash,
    give the same command again.

    Exit codes: 0 all runs have results; 1 some failed; 2 wrong usage; 130 interrupted.
    """
    from deepwishart._support.arguments import whole_number
    from deepwishart.reproduction import sweeps
    from deepwishart.reproduction.datasets import load

    given = {k: v for k, v in {**context.obj, "output": output}.items() if v is not None}

    def take(owner: Any) -> dict[str, Any]:
        return {each.name: given.pop(each.name) for each in fields(owner) if each.name in given}

    execution, options = sweeps.Execution(**take(sweeps.Execution)), take(sweeps.Settings)
    settings = sweeps.Settings(given, **options)
    for name, value in {**asdict(execution), **options}.items():
        if isinstance(value, int):  # better to refuse a count once than in every run
            whole_number(name, value)
    specs = _plan(datasets, processes, depths, splits, seeds, protocol, settings)
    store = sweeps.ResultsStore(out)
    if dry_run:
        todo = sweeps.pending(specs, store, retry_failed=retry_failed)
        print(*todo, sep="\n", end="\n" * bool(todo))
        note(f"{len(todo)} of {len(specs)} runs are to be done")
        return
    data = {name: load(name) for name in dict.fromkeys(spec.dataset for spec in specs)}
    with store.writing():
        common = settings, store, data
        chosen: Engine
        if engine == "local":
            number = workers or max(1, (os.cpu_count() or 1) // execution.threads)
            chosen = sweeps.LocalEngine(*common, num_workers=number, execution=execution)
        else:
            chosen = sweeps.RayEngine(
                *common,
                address=address,
                num_workers=workers,
                execution=execution,
                gpus_per_run=gpus_per_run,
            )
        _carry_out(specs, store, chosen, retry_failed)


@uci_app.command()
def report(
    results: Annotated[
        Path, typer.Argument(help="Directory that deepwishart uci run wrote to.")
    ] = Path("results"),
    out: Annotated[Path, typer.Option(help="Directory of the report.")] = Path("report"),
) -> None:
    """Write the paper's tables and figures from finished runs, as Markdown and HTML.

    Published numbers stand beside ours, which are means over runs with the same settings. What
    could not be used (torn lines, failed runs) is said in the report and on standard error.
    """
    from deepwishart.reproduction.report import write_report

    content, files = write_report(results, out)
    for sentence in content.notes:
        note(sentence)
    print(content.summary, *files, sep="\n")


def _plan(
    names: _Words,
    processes: _Words,
    depths: _Words,
    splits: _Words,
    seeds: _Words,
    protocol: str,
    settings: Settings,
) -> list[RunSpec]:
    """The list of runs, everything checked; no data are needed to know it."""
    from deepwishart import datasets
    from deepwishart._support.arguments import check_choice
    from deepwishart.reproduction.sweeps import RunSpec, expand, parse_numbers, settings_version
    from deepwishart.reproduction.sweeps.run import structure
    from deepwishart.start import STARTS
    from deepwishart.training import Protocol

    chosen = tuple(dict.fromkeys(processes or ("dwp", "dgp")))
    check_choice("start", settings.start, STARTS)
    version = settings_version(settings, asdict(Protocol.named(protocol, 1)))
    layers = parse_numbers(depths or ["2-5"], "--depths")
    for process in chosen:
        for what, value, usual, owners in (
            ("posterior", settings.model.get("posterior", "bartlett"), "bartlett", ["dwp"]),
            ("start", settings.start, "inputs", ["dwp", "dgp"]),
        ):
            if value != usual and process not in owners:
                fits = f"--{what} {value} is for {' and '.join(owners)}"
                raise CommandError(f"{fits}; leave {process} out with --processes.")
        for depth in layers:
            structure(RunSpec("", 0, process, depth, protocol=protocol), settings)
    source = datasets.Source.find()
    return expand(
        {name: source.num_splits(name) for name in names or datasets.names()},
        processes=chosen,
        depths=layers,
        splits=parse_numbers(splits, "--splits") if splits else None,
        seeds=parse_numbers(seeds or ["0"], "--seeds"),
        protocol=protocol,
        settings_version=version,
    )


def _carry_out(
    specs: list[RunSpec], store: ResultsStore, engine: Engine, retry_failed: bool
) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from deepwishart.reproduction.sweeps import pending, run_sweep
    from deepwishart.reproduction.sweeps.engine import Event

    left = len(pending(specs, store, retry_failed=retry_failed))
    typer.echo(f"{len(specs)} runs, {len(specs) - left} of them done before.", err=True)
    console = Console(stderr=True)
    try:
        with Progress(console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task("runs", total=left)

            def show(event: Event) -> None:
                progress.advance(task, not event.again)
                console.print(str(event), markup=False, highlight=False, soft_wrap=True)

            missing = run_sweep(specs, store, engine, show, retry_failed=retry_failed)
    except KeyboardInterrupt:
        left = len(pending(specs, store, retry_failed=retry_failed))
        raise CommandError(
            f"interrupted with {left} of {len(specs)} runs to go; give the same command again to "
            "continue.",
            INTERRUPTED,
        ) from None
    print(f"{len(specs) - len(missing)} runs have results in {store.directory}")
    for spec, reason in missing.items():
        print(f"{spec}: {reason}")
    if missing:
        raise CommandError(f"{len(missing)} of {len(specs)} runs have no results.", FAILURE)
