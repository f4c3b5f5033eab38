"""``deepwishart data``: the UCI data sets of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepwishart.cli.errors import CommandError

if TYPE_CHECKING:
    from deepwishart.reproduction.datasets import Source

data_app = typer.Typer(help="List, download and verify the UCI data sets.", no_args_is_help=True)

_Names = Annotated[
    list[str] | None, typer.Argument(help="Data sets; all of them if none is named.")
]


@data_app.command("list")
def list_datasets() -> None:
    """Show the data sets, and whether their files are here and intact."""
    from deepwishart.reproduction import datasets

    source = datasets.Source.find()
    print(f"{'data set':10}{'rows':>8}{'features':>10}{'splits':>8}  files")
    for each in datasets.CATALOGUE.values():
        paths = source.paths(each.path(""))
        faults = sum(source.fault(path) is not None for path in paths)
        state = f"{faults} missing or damaged" if faults else "complete" if paths else "not listed"
        sizes = f"{each.num_rows:>8}{each.num_features:>10}{each.num_splits:>8}"
        print(f"{each.name:10}{sizes}  {state}")
    print(f"in {source.folder}")


@data_app.command()
def download(
    names: _Names = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Folder to download to, to be named in DEEPWISHART_DATA later."),
    ] = None,
) -> None:
    """Download data sets and check every file against its published checksum.

    Files that are here and intact are not downloaded again. Where DEEPWISHART_DATA names a folder,
    and --to does not, files are only checked.
    """
    from rich.console import Console
    from rich.progress import Progress

    from deepwishart.reproduction import datasets

    source = datasets.Source.find(to)
    paths = _paths(source, names)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("downloading", total=len(paths))
        for path in paths:
            source.get(path)
            progress.advance(task)
    print(f"{len(paths)} files are complete and intact in {source.folder}")


@data_app.command()
def verify(names: _Names = None) -> None:
    """Compare every file with its published checksum, without using the network."""
    from deepwishart.reproduction import datasets

    source = datasets.Source.find()
    paths = _paths(source, names)
    faults = {path: fault for path in paths if (fault := source.fault(path)) is not None}
    for path, fault in faults.items():
        print(f"{path} {fault}")
    if faults:
        what = source.advice(*next(iter(faults.items())))
        raise CommandError(f"{len(faults)} of {len(paths)} files are not as published. {what}")
    print(f"{len(paths)} files are complete and intact in {source.folder}")


def _paths(source: Source, names: list[str] | None) -> list[str]:
    """All registered files of some data sets."""
    from deepwishart.reproduction.datasets import catalogue

    entries = [catalogue.entry(name) for name in names or catalogue.names()]
    paths = [path for entry in entries for path in source.paths(entry.path(""))]
    if not paths:
        raise CommandError(f"The registry in {source.folder} lists no files of these data sets.")
    return paths
