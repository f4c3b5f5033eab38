"""What ``deepwishart fit`` writes, and what the other commands read.

A model directory holds

- ``regressor/``: the model, as :mod:`deepwishart.persistence` writes it, with the table's columns
  in its ``config.json``; :func:`deepwishart.load` reads it too;
- ``previous/``: the model that was there before, if any;
- ``run.json``: the settings of the run, and how it ended;
- ``checkpoints/``: the state of a run that has not finished;
- ``.lock``: which process is at work, while one is.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deepwishart._support.files import PARTIAL, write_atomically
from deepwishart._support.lock import LOCK, locked
from deepwishart.cli.errors import CommandError
from deepwishart.cli.scores import report_tables
from deepwishart.estimators.record import describing, to_record
from deepwishart.estimators.table_model import TableModel, load
from deepwishart.persistence import ModelFileError, write_model


class ModelDirectory:
    """A directory made by ``deepwishart fit``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.regressor = self.path / "regressor"
        self.checkpoints = self.path / "checkpoints"
        self.run_file = self.path / "run.json"
        self.settings: dict[str, Any] = {}
        self.run = ""

    # ---- one run ----------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the directory if need be, and keep other processes out of it."""
        self._read_run()  # refuses what is no model's directory before anything is written there
        with locked(self.path):
            yield

    def begin(
        self, settings: dict[str, Any], options: Mapping[str, str], resume: bool, force: bool
    ) -> bool:
        """Claim the directory for a run, or refuse; ``False`` if the run has already finished.

        With ``force`` a run starts anew, but the model that is there stays until it is replaced.
        """
        run = self._read_run()
        self.settings, self.run = settings, secrets.token_hex(8)
        if run is not None and resume:
            _check_same(run["settings"], settings, options)
            if run["status"] == "finished":
                self._clean()
                return False
            self.run = str(run.get("run", self.run))
        elif run is not None and not force:
            what, remedy = "an unfinished run", "--resume continues it, --force starts anew"
            if run["status"] == "finished":
                what, remedy = "a model", "--force replaces it"
            raise CommandError(f"{self.path} already holds {what}; {remedy}.")
        if not resume:
            shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.mark("running")
        return True

    def mark(self, status: str) -> None:
        """Write down how the run stands: running, interrupted, failed or finished."""
        content = {"status": status, "run": self.run, "settings": self.settings}
        write_atomically(self.run_file, json.dumps(content, indent=2))
        if status == "finished":
            self._clean()

    def forget(self) -> None:
        """Undo :meth:`begin`, of a run that was refused before it left anything."""
        if not (self.regressor.exists() or any(self.checkpoints.glob("*/*"))):
            self.run_file.unlink()
            self._clean()

    def _clean(self) -> None:
        """Remove what is of no use once the model is there, also after a kill."""
        for left in (self.checkpoints, *self.path.glob(".*.tmp")):
            shutil.rmtree(left, ignore_errors=True)

    def save(self, model: TableModel, *, interrupted: bool) -> bool:
        """Put a model in place, and keep the one that was there in ``previous/``; ``False`` if the
        model there stays, since an interrupted run replaces none but its own."""
        if self.regressor.exists():
            ours, previous = self._saved_by() == self.run, self.path / "previous"
            if interrupted and not ours:
                return False
            # A run that was killed after it had put its model in place keeps what it replaced.
            if not (ours and previous.exists()):
                copy = self.path / f".previous{PARTIAL}"
                for folder in (copy, previous):
                    if folder.is_symlink():
                        folder.unlink()
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(self.regressor, copy)
                shutil.rmtree(previous, ignore_errors=True)
                os.rename(copy, previous)
        tensors, config, history = to_record(model.regressor)
        table = {"encoder": model.encoder.to_dict(), "targets": model.targets, "fit": model.fit}
        write_model(self.regressor, tensors, {**config, "table": table}, history)
        return True

    def _saved_by(self) -> str | None:
        """The run that the saved model comes from, if it says so."""
        try:
            return self.load().fit.get("run")
        except (ModelFileError, CommandError):
            return None

    def _read_run(self) -> dict[str, Any] | None:
        """What ``run.json`` says, or ``None`` if the directory is new."""
        if not self.path.exists():
            return None
        if not self.path.is_dir():
            raise CommandError(f"{self.path} is a file; name a directory for the model.")
        if not self.run_file.exists():
            # A run that was killed before it could write anything leaves these two.
            ours = {LOCK, f".{self.run_file.name}{PARTIAL}"}
            if {entry.name for entry in self.path.iterdir()} - ours:
                raise CommandError(
                    f"{self.path} holds other things than a model; choose a new directory for it."
                )
            return None
        try:
            run = json.loads(self.run_file.read_text(encoding="utf-8"))
            if isinstance(run["status"], str) and isinstance(run["settings"], dict):
                return dict(run)
        except (ValueError, LookupError, TypeError, RecursionError):
            pass
        raise CommandError(f"{self.run_file} is damaged; choose a new directory for the model.")

    # ---- reading ----------------------------------------------------------------------------

    def load(self) -> TableModel:
        """The model of a finished or interrupted run, or one that was saved from Python."""
        if not self.path.exists():
            raise CommandError(f"There is no model at {self.path}: no such directory.")
        where = self.path if (self.path / "config.json").is_file() else self.regressor
        try:
            saved = load(where)
        except ModelFileError:
            if where.exists():
                raise
            said = f"There is no model in {self.path}; name a directory that deepwishart fit wrote."
            if self.run_file.exists():
                said = (
                    f"The run in {self.path} has not finished and left no model yet; continue it "
                    "with deepwishart fit --resume."
                )
            raise CommandError(said) from None
        with describing("its table"):  # whatever cannot be shown raises
            list(report_tables(saved.fit.get("holdout"), saved.fit.get("cv")))
        return saved


def _check_same(before: dict[str, Any], now: dict[str, Any], options: Mapping[str, str]) -> None:
    if before.get("data") != now["data"]:
        raise CommandError(
            "The data file has changed since the run began; --force starts anew with it."
        )
    for name, value in now.items():
        if before.get(name) != value:
            option, both = options[name], (before.get(name), value)
            then, wanted = (f"{option} {each}" if each else f"no {option}" for each in both)
            raise CommandError(
                f"The run to be resumed was started with {then}, not with {wanted}. Repeat its "
                "options, or start anew with --force instead of --resume."
            )
