"""What ``deepwishart fit`` writes, and what the other commands read.

A model directory holds

- ``regressor/``: the model, as :mod:`deepwishart.persistence` writes it, with the table's columns
  in its ``config.json``; :meth:`deepwishart.DeepKernelRegressor.load` reads it too;
- ``previous/``: the model that ``--force`` replaced, if any;
- ``run.json``: the settings of the run, and how it ended;
- ``checkpoints/``: the state of a run that has not finished.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepwishart.cli.errors import CommandError
from deepwishart.estimators import DeepKernelRegressor
from deepwishart.estimators.record import from_record, to_record
from deepwishart.persistence import ModelFileError, read_model, write_model
from deepwishart.tables import TableEncoder

__all__ = ["ModelDirectory", "SavedModel"]


@dataclass(frozen=True)
class SavedModel:
    """A model with what is needed to read tables for it.

    Args:
        regressor: the fitted model.
        encoder: how tables become inputs.
        targets: names of the target columns.
        fit: how it was fitted, and the hold-out report; plain data.
    """

    regressor: DeepKernelRegressor
    encoder: TableEncoder
    targets: list[str]
    fit: dict[str, Any]


class ModelDirectory:
    """A directory made by ``deepwishart fit``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.regressor = self.path / "regressor"
        self.previous = self.path / "previous"
        self.checkpoints = self.path / "checkpoints"
        self.run_file = self.path / "run.json"

    # ---- one run ----------------------------------------------------------------------------

    def begin(self, settings: dict[str, Any], *, resume: bool, force: bool) -> bool:
        """Claim the directory for a run, or refuse.

        Args:
            settings: everything that decides how the run goes; plain data.
            resume: continue an unfinished run that had the same settings.
            force: start anew, whatever run or model is there; the model stays until it is replaced.

        Returns:
            ``False`` if the run has already finished, and there is nothing left to do.
        """
        run = self._read_run()
        if run is not None and resume:
            _check_same(run["settings"], settings)
            if run["status"] == "finished":
                return False
        elif run is not None and not force:
            what, remedy = "an unfinished run", "--resume continues it, --force starts anew"
            if run["status"] == "finished":
                what, remedy = "a model", "--force replaces it"
            raise CommandError(f"{self.path} already holds {what}; {remedy}.")
        if not resume and self.checkpoints.exists():
            shutil.rmtree(self.checkpoints)
        self.path.mkdir(parents=True, exist_ok=True)
        self.mark("running", settings)
        return True

    def mark(self, status: str, settings: dict[str, Any]) -> None:
        """Write down how the run stands: running, interrupted, failed or finished."""
        content = json.dumps({"status": status, "settings": settings}, indent=2)
        partial = self.run_file.with_name(".run.json.partial")
        with open(partial, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self.run_file)
        if status == "finished":
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    def save(self, model: SavedModel) -> None:
        """Put a model in place; the model of another run is kept in ``previous/``."""
        if self.regressor.exists() and not self._holds_result_of(model.fit["settings"]):
            self._keep_previous()
        tensors, config, history = to_record(model.regressor)
        table = {"encoder": model.encoder.to_dict(), "targets": model.targets, "fit": model.fit}
        write_model(self.regressor, tensors, {**config, "table": table}, history)

    def _holds_result_of(self, settings: dict[str, Any]) -> bool:
        try:
            return bool(self.load().fit["settings"] == settings)
        except (ModelFileError, CommandError, KeyError):
            return False

    def _keep_previous(self) -> None:
        copy = self.path / ".previous.partial"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.regressor, copy)
        shutil.rmtree(self.previous, ignore_errors=True)
        os.rename(copy, self.previous)

    def _read_run(self) -> dict[str, Any] | None:
        """What ``run.json`` says, or ``None`` if the directory is new."""
        if not self.path.exists():
            return None
        if not self.path.is_dir():
            raise CommandError(f"{self.path} is a file; name a directory for the model.")
        if not self.run_file.exists():
            if any(self.path.iterdir()):
                raise CommandError(
                    f"{self.path} holds other things than a model; choose a new directory for it."
                )
            return None
        with contextlib.suppress(ValueError):
            run = json.loads(self.run_file.read_text(encoding="utf-8"))
            if isinstance(run, dict) and {"status", "settings"} <= run.keys():
                return run
        raise CommandError(f"{self.run_file} is damaged; choose a new directory for the model.")

    # ---- reading ----------------------------------------------------------------------------

    def load(self) -> SavedModel:
        """The model of a finished or interrupted run, or one that was saved from Python."""
        if not self.path.exists():
            raise CommandError(f"There is no model at {self.path}: no such directory.")
        where = self.path if (self.path / "config.json").is_file() else self.regressor
        try:
            tensors, config, history = read_model(where)
        except ModelFileError:
            if self.run_file.exists() and not self.regressor.exists():
                raise CommandError(
                    f"The run in {self.path} has not finished and left no model yet; continue it "
                    "with deepwishart fit --resume."
                ) from None
            raise
        regressor = from_record(DeepKernelRegressor, tensors, config, history)
        try:
            return _with_table(regressor, config.get("table"))
        except (KeyError, TypeError) as error:
            raise ModelFileError(
                f"The model in {where} does not describe a table: {error}."
            ) from error


def _with_table(regressor: DeepKernelRegressor, table: dict[str, Any] | None) -> SavedModel:
    if table is not None:
        encoder = TableEncoder.from_dict(table["encoder"])
        return SavedModel(regressor, encoder, list(table["targets"]), dict(table["fit"]))
    names = getattr(regressor, "feature_names_in_", None)
    if names is None:
        raise CommandError(
            "This model was saved from Python and does not know the names of its columns; fit it "
            "on a data frame, or with deepwishart fit."
        )
    count = regressor.n_outputs_
    targets = ["target"] if count == 1 else [f"target{number}" for number in range(1, count + 1)]
    return SavedModel(regressor, TableEncoder.of_numbers(names), targets, {})


def _check_same(before: dict[str, Any], now: dict[str, Any]) -> None:
    for name in now:
        then = before.get(name)
        if then == now[name]:
            continue
        if name == "data":
            raise CommandError(
                "The data file has changed since the run began; --force starts anew with it."
            )
        option = f"--{name.replace('_', '-')}"
        shown = [f"{option} {value}" if value else f"no {option}" for value in (then, now[name])]
        raise CommandError(
            f"The run to be resumed was started with {shown[0]}, not with {shown[1]}. Repeat its "
            "options, or start anew with --force."
        )
