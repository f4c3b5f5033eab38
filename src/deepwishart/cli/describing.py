"""The work of ``deepwishart info``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deepwishart.cli.directory import ModelDirectory, SavedModel
from deepwishart.cli.errors import printable
from deepwishart.cli.scores import report_tables
from deepwishart.likelihoods import Gaussian
from deepwishart.persistence import ModelFileError

__all__ = ["describe", "run_info"]

PROCESS_NAMES = {
    "dwp": "deep Wishart process",
    "dgp": "deep Gaussian process, global inducing points",
    "dsvi": "deep Gaussian process, doubly stochastic",
    "diwp": "deep inverse Wishart process",
}
_MOST_RELEVANT = 5


def run_info(path: Path, *, as_json: bool) -> None:
    """Print a description of the model in a directory."""
    facts = describe(ModelDirectory(path).load())
    try:
        text = json.dumps(facts, indent=2, allow_nan=False)
    except ValueError:
        raise ModelFileError(
            f"The model in {path} has a lengthscale, height or noise that is infinite: it cannot "
            "predict. Restore it from a copy, or train again."
        ) from None
    if as_json:
        print(text)
        return
    console = Console(highlight=False)
    for title in ("model", "data", "training"):
        console.print(_facts_table(title, facts[title]))
    console.print(_layer_table(facts))
    for table in report_tables(facts["holdout"]):
        console.print(table)


def describe(saved: SavedModel) -> dict[str, Any]:
    """Everything ``info`` shows, as plain data."""
    regressor, fit = saved.regressor, saved.fit
    settings, history = fit.get("settings", {}), regressor.history_
    likelihood = regressor.model_.likelihood
    assert isinstance(likelihood, Gaussian)
    noise = likelihood.noise.detach().sqrt().cpu().numpy()
    noise = noise * regressor._scaled.targets.scale
    return {
        "model": {
            "process": regressor.process,
            "depth": regressor.depth,
            "width": regressor.width or regressor.n_features_in_,
            "inducing": regressor.n_inducing_,
            "kernel": regressor.kernel,
            "dtype": regressor.dtype,
            "parameters": sum(p.numel() for p in regressor.model_.parameters()),
        },
        "data": {
            "targets": saved.targets,
            "inputs": [_describe_column(column.to_dict()) for column in saved.encoder.columns],
            "rows": fit.get("rows"),
            "missing values": "median" if settings.get("impute") else "refused",
        },
        "training": {
            "protocol": settings.get("protocol", str(regressor.protocol)),
            "steps": regressor.n_iter_,
            "stopped by": history.stopped_by,
            "seconds": round(history.seconds[-1], 1) if history.seconds else 0.0,
            "recoveries": len(history.recoveries),
            "ELBO per row": regressor.elbo_,
            "seed": settings.get("seed", regressor.random_state),
            "date": fit.get("date"),
            "version": fit.get("version"),
        },
        "feature_names": saved.encoder.feature_names,
        "layers": _describe_layers(saved),
        "noise": dict(zip(saved.targets, noise.tolist(), strict=True)),
        "holdout": fit.get("holdout"),
    }


def _describe_column(column: dict[str, Any]) -> str:
    if column["kind"] != "category":
        return f"{column['name']} ({column['kind']})"
    return f"{column['name']} ({len(column['categories'])} categories)"


def _describe_layers(saved: SavedModel) -> list[dict[str, Any]]:
    model = saved.regressor.model_
    described = []
    for layer in [*model.layers, model.output]:
        kernel: Any = layer.kernel
        values = {
            name.removeprefix("log_"): log.detach().exp().cpu().tolist()
            for name, log in kernel.named_parameters()
        }
        mixing = getattr(layer, "mixing", None)
        described.append(
            {
                "name": str(layer.name).removeprefix("the "),
                "kernel": type(kernel).__name__,
                "hyperparameters": values,
                "mixing": None if mixing is None else mixing.item(),
            }
        )
    return described


def _facts_table(title: str, facts: dict[str, Any]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in facts.items():
        if value is not None:
            table.add_row(name, _show(name, value))
    return table


def _show(name: str, value: Any) -> str:
    if name == "process":
        return f"{value} ({PROCESS_NAMES[value]})"
    if isinstance(value, list):
        return "\n".join(_plain(each) for each in value)
    return f"{value:.4g}" if isinstance(value, float) else _plain(value)


def _plain(value: Any) -> str:
    """Names come from tables: neither control characters nor rich's markup count."""
    return escape(printable(str(value), 60))


def _layer_table(facts: dict[str, Any]) -> Table:
    table = Table(title="layers", title_justify="left")
    for heading in ("layer", "kernel", "learned values"):
        table.add_column(heading)
    table.add_column("mixing q", justify="right")
    for layer in facts["layers"]:
        values = [
            _show_values(name, value, facts) for name, value in layer["hyperparameters"].items()
        ]
        mixing = "" if layer["mixing"] is None else f"{layer['mixing']:.3f}"
        table.add_row(layer["name"], layer["kernel"], "\n".join(values), mixing)
    for target, noise in facts["noise"].items():
        table.add_row("noise", "", f"standard deviation of {_plain(target)}: {noise:.4g}", "")
    return table


def _show_values(name: str, value: Any, facts: dict[str, Any]) -> str:
    """One number as it is; of many lengthscales the shortest, whose inputs matter most."""
    if not isinstance(value, list):
        return f"{name} {value:.3g}"
    names = facts["feature_names"]
    shortest = sorted(zip(value, names, strict=True))[:_MOST_RELEVANT]
    shown = ", ".join(f"{_plain(feature)} {number:.3g}" for number, feature in shortest)
    rest = f", {len(value) - len(shortest)} longer" if len(value) > len(shortest) else ""
    return f"{name}s: {shown}{rest}"
