"""``deepwishart uci``: the paper's experiments on the UCI data sets."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from functools import cache, partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from deepwishart.cli.errors import FAILURE, INTERRUPTED, CommandError, note
from deepwishart.cli.lists import is_word, taking_lists

if TYPE_CHECKING:
    from deepwishart.reproduction.sweeps import Engine, ResultsStore, RunSpec, Settings

__all__ = ["uci_app"]

uci_app = typer.Typer(help="Sweeps over the UCI data sets of the paper.", no_args_is_help=True)

_run = partial(typer.Option, rich_help_panel="Runs")
_model = partial(typer.Option, rich_help_panel="Model")
_train = partial(typer.Option, rich_help_panel="Training and evaluation")
_engine = partial(typer.Option, rich_help_panel="Engine")
_Out = Annotated[Path, typer.Option(help="Directory of the results.", show_default=False)]
_Words = list[str] | None
_lists = dict.fromkeys(["--datasets", "--processes", "--depths", "--splits", "--seeds"], is_word)


class _RunCommand(taking_lists(_lists, {"--inducing": "--num-inducing"})):  # type: ignore[misc]
    """A command with an option for each field of a ModelSpec besides its own.

    They are put together when the command is run or asked for help: a ModelSpec needs PyTorch,
    which takes seconds to import. Those that were given are ``context.obj``.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *_model_options()]

    def invoke(self, ctx: Any) -> Any:
        names = [option.name for option in _model_options()]
        found = {name: ctx.params.pop(name) for name in names}
        ctx.obj = {name: value for name, value in found.items() if value is not None}
        return super().invoke(ctx)


@cache
def _model_options() -> list[Any]:
    """Options for the fields of a ModelSpec that are the same for all runs of a sweep."""
    from deepwishart.reproduction.sweeps.spec import model_defaults
    from deepwishart.spec import ModelSpec

    usual, kinds = {**model_defaults(), "output": "the protocol's"}, get_type_hints(ModelSpec)
    hints: dict[str, Any] = {}
    for each in fields(ModelSpec):
        if each.name in usual and "help" in each.metadata:
            kind = next(iter(get_args(kinds[each.name])), kinds[each.name])
            shown = False if usual[each.name] is None else str(usual[each.name])
            option = _model(help=each.metadata["help"], show_default=shown)
            hints[each.name] = Annotated[kind | None, option]

    def template(**values: Any) -> None: ...

    template.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(n, Parameter.KEYWORD_ONLY, default=None, annotation=h) for n, h in hints.items()]
    )
    template.__annotations__ = hints
    made = typer.Typer(add_completion=False)
    made.command()(template)
    return [each for each in typer.main.get_command(made).params if each.name in hints]


@uci_app.command(cls=_RunCommand)
def run(
    context: typer.Context,
    out: _Out,
    datasets: Annotated[_Words, _run(help="Data sets; all of them by default.")] = None,
    processes: Annotated[_Words, _run(help="dwp, dgp, dsvi, diwp; by default dwp and dgp.")] = None,
    depths: Annotated[_Words, _run(help="Layers, output included; by default 2-5.")] = None,
    splits: Annotated[_Words, _run(help="As 0-19 or 0,3,5; all of them by default.")] = None,
    seeds: Annotated[_Words, _run(help="By default 0.")] = None,
    protocol: Annotated[str, _run(help="Training protocol: paper, converged or fast.")] = "paper",
    retry_failed: Annotated[bool, _run("--retry-failed", help="Do failed runs again.")] = False,
    dry_run: Annotated[
        bool, _run("--dry-run", help="List what is to be done and stop; needs no data.")
    ] = False,
    samples: Annotated[int | None, _train(min=1, help="Samples per step; the protocol's.")] = None,
    max_iter: Annotated[
        int | None,
        _train("--max-iter", "--max-steps", min=1, help="Training steps; the protocol's."),
    ] = None,
    learning_rate: Annotated[
        float | None, _train(help="First learning rate; the protocol's.")
    ] = None,
    start: Annotated[
        str, _train(help="Where hidden layers of dwp and dgp start: inputs or prior.")
    ] = "inputs",
    elbo_samples: Annotated[int, _train(min=1, help="Samples for the final ELBO.")] = 1000,
    test_samples: Annotated[int, _train(min=1, help="Samples for predictions.")] = 100,
    engine: Annotated[str, _engine(help="local or ray.")] = "local",
    workers: Annotated[
        int | None,
        _engine(min=1, help="Runs at a time; as many as cores (local) or as the cluster holds."),
    ] = None,
    threads_per_worker: Annotated[int, _engine(min=1, help="Threads (ray: CPUs) of a run.")] = 1,
    device: Annotated[str, _engine(help="cpu, cuda or auto.")] = "cpu",
    gpus_per_run: Annotated[float, _engine(min=0.0, help="GPUs of a run, on Ray.")] = 0.0,
    address: Annotated[str, _engine(help="Address of the Ray cluster.")] = "auto",
    checkpoint_every: Annotated[int, _engine(min=1, help="Steps between checkpoints.")] = 500,
) -> None:
    """Train and evaluate every combination of data set, split, process, depth and seed.

    Each finished run adds a line to runs.jsonl in the results directory. Runs that are there
    already, with the same settings, are not repeated, and interrupted ones resume: after any crash,
    give the same command again.

    Exit codes: 0 all runs have results; 1 some failed; 2 wrong usage; 130 interrupted.
    """
    from deepwishart._support.arguments import check_choice
    from deepwishart.reproduction import sweeps
    from deepwishart.reproduction.datasets import load

    settings = sweeps.Settings(
        context.obj, max_iter, samples, elbo_samples, test_samples, learning_rate, start
    )
    execution = sweeps.Execution(threads_per_worker, device, checkpoint_every)
    check_choice("engine", engine, ("local", "ray"))
    specs = _plan(datasets, processes, depths, splits, seeds, protocol, settings)
    store = sweeps.ResultsStore(out)
    if dry_run:
        todo = sweeps.pending(specs, store, retry_failed=retry_failed)
        print(*todo, sep="\n", end="\n" * bool(todo))
        typer.echo(f"{len(todo)} of {len(specs)} runs are to be done.", err=True)
        return
    data = {name: load(name) for name in dict.fromkeys(spec.dataset for spec in specs)}
    with store.writing():
        common = settings, store, data
        chosen: Engine
        if engine == "local":
            number = workers or max(1, (os.cpu_count() or 1) // threads_per_worker)
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
def status(out: _Out) -> None:
    """Show how many runs have finished, and why runs failed."""
    from collections import Counter

    from rich.console import Console
    from rich.table import Table

    from deepwishart.reproduction.sweeps import ResultsStore

    records = ResultsStore(out).records()
    if not records:
        raise CommandError(f"There are no results in {out}.")
    table = Table("data set", "process", "depth", "protocol", "settings", box=None, pad_edge=False)
    table.add_column("ok", justify="right")
    table.add_column("failed", justify="right")
    counts = Counter((spec.kind, record["status"]) for spec, record in records.items())
    for kind in sorted({spec.kind for spec in records}):
        table.add_row(*map(str, kind), *(str(counts[kind, end]) for end in ("ok", "failed")))
    Console().print(table)
    for spec, record in records.items():
        if record["status"] != "ok":
            print(f"{spec}: {record['reason']}")


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

    written = write_report(results, out)
    for sentence in written.notes:
        note(sentence)
    print(written.summary, *written.files, sep="\n")


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
    from deepwishart.spec import PROCESSES
    from deepwishart.start import STARTS
    from deepwishart.training import Protocol

    chosen = tuple(dict.fromkeys(processes or ("dwp", "dgp")))
    check_choice("start", settings.start, STARTS)
    version = settings_version(settings, asdict(Protocol.named(protocol, 1)))
    layers = parse_numbers(depths or ["2-5"], "depths")
    for process in chosen:
        check_choice("process", process, PROCESSES)
        posterior = settings.model.get("posterior", "bartlett")
        if process != "dwp" and posterior != "bartlett":
            raise CommandError(
                f"posterior: {posterior} is for dwp; leave {process} out with --processes."
            )
        if process not in ("dwp", "dgp") and settings.start != "inputs":
            raise CommandError(
                f"start: {settings.start} is for dwp and dgp; leave {process} out with --processes."
            )
        for depth in layers:
            structure(RunSpec("", 0, process, depth, protocol=protocol), settings)
    source = datasets.Source.find()
    return expand(
        {name: source.num_splits(name) for name in names or datasets.names()},
        processes=chosen,
        depths=layers,
        splits=parse_numbers(splits, "splits") if splits else None,
        seeds=parse_numbers(seeds or ["0"], "seeds"),
        protocol=protocol,
        settings_version=version,
    )


def _carry_out(
    specs: list[RunSpec], store: ResultsStore, engine: Engine, retry_failed: bool
) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from deepwishart.reproduction.sweeps import pending, run_sweep
    from deepwishart.reproduction.sweeps.engine import Event, Lost

    left = len(pending(specs, store, retry_failed=retry_failed))
    typer.echo(f"{len(specs)} runs, {len(specs) - left} of them done before.", err=True)
    console = Console(stderr=True)
    try:
        with Progress(console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task("runs", total=left)

            def show(event: Event) -> None:
                progress.advance(task, not isinstance(event, Lost))
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
