"""``deepwishart uci``: the paper's experiments on the UCI data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepwishart.cli.errors import FAILURE, INTERRUPTED, CommandError, check_choice
from deepwishart.cli.lists import is_word, taking_lists

if TYPE_CHECKING:
    from deepwishart.reproduction.datasets import Dataset
    from deepwishart.reproduction.sweeps import (
        Engine,
        Execution,
        ResultsStore,
        RunSpec,
        Settings,
        Tally,
    )

__all__ = ["uci_app"]

uci_app = typer.Typer(help="Sweeps over the UCI data sets of the paper.", no_args_is_help=True)

_RUNS, _MODEL, _ENGINE = "Runs", "Model and evaluation", "Engine"
_Out = Annotated[Path, typer.Option(help="Directory of the results.", show_default=False)]
_lists = dict.fromkeys(["--datasets", "--processes", "--depths", "--splits", "--seeds"], is_word)


@uci_app.command(cls=taking_lists(_lists))
def run(
    out: _Out,
    datasets: Annotated[
        list[str] | None,
        typer.Option(help="Data sets; all of them by default.", rich_help_panel=_RUNS),
    ] = None,
    processes: Annotated[
        list[str] | None,
        typer.Option(help="dwp, dgp, dsvi, diwp; by default dwp and dgp.", rich_help_panel=_RUNS),
    ] = None,
    depths: Annotated[
        list[str] | None,
        typer.Option(help="Layers, output included; by default 2-5.", rich_help_panel=_RUNS),
    ] = None,
    splits: Annotated[
        list[str] | None,
        typer.Option(help="As 0-19 or 0,3,5; all of them by default.", rich_help_panel=_RUNS),
    ] = None,
    seeds: Annotated[
        list[str] | None, typer.Option(help="By default 0.", rich_help_panel=_RUNS)
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="Training protocol: paper or fast.", rich_help_panel=_RUNS)
    ] = "paper",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do failed runs again.", rich_help_panel=_RUNS)
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List what is to be done and stop.", rich_help_panel=_RUNS),
    ] = False,
    inducing: Annotated[
        int, typer.Option(min=1, help="Inducing points.", rich_help_panel=_MODEL)
    ] = 100,
    kernel: Annotated[
        str, typer.Option(help="Kernel.", rich_help_panel=_MODEL)
    ] = "squared_exponential",
    dtype: Annotated[
        str, typer.Option(help="float64 or float32.", rich_help_panel=_MODEL)
    ] = "float64",
    max_iter: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps; the protocol's.", rich_help_panel=_MODEL),
    ] = None,
    elbo_samples: Annotated[
        int, typer.Option(min=1, help="Samples for the final ELBO.", rich_help_panel=_MODEL)
    ] = 1000,
    test_samples: Annotated[
        int, typer.Option(min=1, help="Samples for predictions.", rich_help_panel=_MODEL)
    ] = 100,
    engine: Annotated[str, typer.Option(help="local or ray.", rich_help_panel=_ENGINE)] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs at a time; as many as cores (local) or as the cluster holds (ray).",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    threads_per_worker: Annotated[
        int, typer.Option(min=1, help="Threads (ray: CPUs) of a run.", rich_help_panel=_ENGINE)
    ] = 1,
    device: Annotated[
        str, typer.Option(help="cpu, cuda or auto.", rich_help_panel=_ENGINE)
    ] = "cpu",
    gpus_per_run: Annotated[
        float, typer.Option(min=0.0, help="GPUs of a run, on Ray.", rich_help_panel=_ENGINE)
    ] = 0.0,
    address: Annotated[
        str, typer.Option(help="Address of the Ray cluster.", rich_help_panel=_ENGINE)
    ] = "auto",
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Steps between checkpoints.", rich_help_panel=_ENGINE)
    ] = 500,
) -> None:
    """Train and evaluate every combination of data set, split, process, depth and seed.

    Each finished run adds a line to runs.jsonl in the results directory. Runs that are there
    already are not repeated, and interrupted ones resume: after any crash, give the same command
    again.

    Exit codes: 0 all runs have results; 1 some failed; 2 wrong usage; 130 interrupted.
    """
    from deepwishart.reproduction.sweeps import Execution, ResultsStore, Settings, pending

    settings = Settings(inducing, max_iter, kernel, dtype, elbo_samples, test_samples)
    execution = Execution(threads_per_worker, device, checkpoint_every)
    data, specs = _plan(datasets, processes, depths, splits, seeds, protocol, kernel)
    store = ResultsStore(out)
    if dry_run:
        _list_pending(specs, pending(specs, store, retry_failed=retry_failed))
        return
    with store.writing():
        store.agree_on(settings, {protocol: _describe_protocol(protocol)})
        if retry_failed:
            store.forget(set(pending(specs, store, retry_failed=True)))
        chosen = _make_engine(
            engine, settings, store, data, execution, workers, address, gpus_per_run
        )
        tally = _carry_out(specs, store, chosen)
    _conclude(tally, store)


@uci_app.command()
def status(out: _Out) -> None:
    """Show how many runs have finished, and why runs failed."""
    from collections import Counter

    from rich.console import Console
    from rich.table import Table

    from deepwishart.reproduction.sweeps import ResultsStore

    records = ResultsStore(out).records()
    if not records:
        raise CommandError(f"There are no results in {out}.")
    table = Table("data set", "process", "depth", "protocol", box=None, pad_edge=False)
    table.add_column("ok", justify="right")
    table.add_column("failed", justify="right")
    counts = Counter((spec.kind, record["status"]) for spec, record in records.items())
    for kind in sorted({spec.kind for spec in records}):
        table.add_row(*map(str, kind), *(str(counts[kind, end]) for end in ("ok", "failed")))
    Console().print(table)
    for spec, record in records.items():
        if record["status"] != "ok":
            print(f"{spec}: {record['reason']}")


def _plan(
    names: list[str] | None,
    processes: list[str] | None,
    depths: list[str] | None,
    splits: list[str] | None,
    seeds: list[str] | None,
    protocol: str,
    kernel: str,
) -> tuple[dict[str, Dataset], list[RunSpec]]:
    """The data, loaded, and the list of runs; everything checked before the first run."""
    from deepwishart import datasets, kernels
    from deepwishart.models import PROCESSES
    from deepwishart.reproduction.sweeps import expand, parse_numbers

    for process in processes or ():
        check_choice("process", process, PROCESSES)
    check_choice("kernel", kernel, kernels.names())
    _describe_protocol(protocol)
    layers = parse_numbers(depths or ["2-5"], "depths")
    if 0 in layers:
        raise CommandError("depths: the smallest depth is 1, a sparse GP.")
    data = {name: datasets.load(name) for name in names or datasets.names()}
    specs = expand(
        {name: dataset.num_splits for name, dataset in data.items()},
        processes=tuple(dict.fromkeys(processes or ("dwp", "dgp"))),
        depths=layers,
        splits=parse_numbers(splits, "splits") if splits else None,
        seeds=parse_numbers(seeds or ["0"], "seeds"),
        protocol=protocol,
    )
    return data, specs


def _make_engine(
    name: str,
    settings: Settings,
    store: ResultsStore,
    data: dict[str, Dataset],
    execution: Execution,
    workers: int | None,
    address: str,
    gpus_per_run: float,
) -> Engine:
    import os

    from deepwishart.reproduction.sweeps import LocalEngine, RayEngine

    check_choice("engine", name, ("local", "ray"))
    if name == "local":
        number = workers or max(1, (os.cpu_count() or 1) // execution.threads)
        return LocalEngine(settings, store, num_workers=number, execution=execution)
    return RayEngine(
        settings,
        store,
        data,
        address=address,
        num_workers=workers,
        execution=execution,
        gpus_per_run=gpus_per_run,
    )


def _carry_out(specs: list[RunSpec], store: ResultsStore, engine: Engine) -> Tally:
    from deepwishart.reproduction.sweeps import SweepProgress, pending, run_sweep

    todo = pending(specs, store)
    typer.echo(
        f"{len(specs)} runs, {len(specs) - len(todo)} of them done before; "
        f"{engine.num_workers} at a time.",
        err=True,
    )
    try:
        with SweepProgress(todo, store.records(), engine.num_workers) as progress:
            return run_sweep(specs, store, engine, progress)
    except KeyboardInterrupt:
        left = len(pending(specs, store))
        raise CommandError(
            f"interrupted with {left} of {len(specs)} runs to go; give the same command again to "
            "continue.",
            INTERRUPTED,
        ) from None


def _conclude(tally: Tally, store: ResultsStore) -> None:
    print(f"{len(tally.ok)} runs have results in {store.directory}")
    for spec, reason in {**tally.failed, **tally.broken}.items():
        print(f"{spec}: {reason}")
    if not tally.success:
        parts = [f"{len(tally.failed)} failed numerically and are recorded as such"] * bool(
            tally.failed
        ) + [f"{len(tally.broken)} could not be carried out"] * bool(tally.broken)
        raise CommandError(f"{' and '.join(parts)}.", FAILURE)


def _list_pending(specs: Sequence[RunSpec], todo: Sequence[RunSpec]) -> None:
    for spec in todo:
        print(spec)
    typer.echo(f"{len(todo)} of {len(specs)} runs are to be done.", err=True)


def _describe_protocol(name: str) -> dict[str, Any]:
    """Its numbers, whatever the size of the data."""
    from deepwishart.training import Protocol

    return {
        key: value for key, value in asdict(Protocol.named(name, 1)).items() if key != "batch_size"
    }
