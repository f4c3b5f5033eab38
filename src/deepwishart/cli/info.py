"""``deepwishart info``: what a model is and how it was trained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deepwishart._support.numbers import plain
from deepwishart.cli.errors import printable
from deepwishart.cli.options import AsJson, ModelPath

if TYPE_CHECKING:
    from deepwishart.estimators.table_model import TableModel


def info(model: ModelPath, as_json: AsJson = False) -> None:
    """Show what a model is, how it was trained, and what its layers have learned."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from deepwishart.cli.directory import ModelDirectory
    from deepwishart.cli.scores import TRIED, report_tables, table_of, tried_lines
    from deepwishart.persistence import ModelFileError

    saved = ModelDirectory(model).load()
    facts = describe(saved)
    try:
        text = json.dumps(facts, indent=2, allow_nan=False)
    except ValueError:
        raise ModelFileError(
            f"The model in {model} has a lengthscale, height or noise that is infinite: it cannot "
            "predict. Restore it from a copy, or train again."
        ) from None
    if as_json:
        print(text)
        return
    console = Console(highlight=False)
    for title in ("model", "data", "training", "layers", "likelihood"):
        table = Table("", "", title=title, title_justify="left", show_header=False)
        for name, value in facts[title].items():
            lines = value if isinstance(value, list) else [value]
            # Names come from tables: neither control characters nor rich's markup count.
            shown = [escape(printable(_text(each), 300)) for each in lines]
            if value not in (None, [], {}) and name != "tried":
                table.add_row(escape(printable(name, 60)), "\n".join(shown))
        console.print(table)
    if lines := tried_lines(saved.regressor.history_):
        console.print(table_of(lines, *TRIED, title="tried"))
    for table in report_tables(facts["cv"], facts["holdout"]):
        console.print(table)


def describe(saved: TableModel) -> dict[str, Any]:
    """Everything ``info`` shows, as plain data."""
    regressor, fit, model = saved.regressor, saved.fit, saved.regressor.model_
    history, columns = regressor.history_, saved.encoder.columns
    parts = (*model.layers, *getattr(model.output, "parts", [model.output]))
    return {
        "model": {
            **regressor.spec_.to_dict(),
            "num_inducing": regressor.n_inducing_,
            "width": list(regressor.spec_.widths),
            "parameters": sum(each.numel() for each in model.parameters()),
        },
        "data": {
            "targets": saved.targets,
            "classes": [str(label) for label in getattr(regressor, "classes_", [])],
            "inputs": [str(column) for column in columns],
            "rows": fit.get("rows"),
            "rows without a target": fit.get("left_out"),
            "imputed": [column.name for column in columns if column.fill is not None],
        },
        "training": {
            "protocol": str(regressor.protocol),
            "steps": regressor.n_iter_,
            "stopped by": history.stopped_by,
            "seconds": round(history.seconds[-1], 1) if history.seconds else 0.0,
            "recoveries": len(history.recoveries),
            "ELBO per row": regressor.elbo_,
            "seed": regressor.random_state,
            "tried": history.tried,
        },
        "layers": {
            str(layer.name).removeprefix("the "): _learned(layer, saved.encoder.feature_names)
            for layer in parts
        },
        "likelihood": dict(_likelihood(saved)),
        "holdout": fit.get("holdout"),
        "cv": fit.get("cv"),
    }


def _learned(layer: Any, features: list[str]) -> dict[str, Any]:
    """What a layer's kernel has learned: a number, or one for each feature, the lowest first, whose
    inputs matter most."""
    mixing = getattr(layer, "mixing", None)
    found: dict[str, Any] = {"kernel": type(layer.kernel).__name__}
    for name, log in layer.kernel.named_parameters():
        value = log.detach().exp().cpu()
        pairs = zip(features, value.tolist(), strict=True) if value.ndim else ()
        by_feature = dict(sorted(pairs, key=lambda pair: pair[1]))
        found[name.removeprefix("log_")] = by_feature or value.item()
    return found if mixing is None else {**found, "mixing": mixing.item()}


def _likelihood(saved: TableModel) -> Iterator[tuple[str, dict[str, float]]]:
    """What the likelihood has learned about each target, in units of the data."""
    likelihood, units = saved.regressor.model_.likelihood, saved.regressor._scaled.targets.scale
    known = {
        "log_noise": ("standard deviation", lambda value: value**0.5 * units),
        "log_scale": ("scale", lambda value: value * units),
        "log_excess": ("degrees of freedom", lambda value: (2.0 + value).repeat(len(units))),
        "log_rate": ("typical rate", lambda value: value),
        "log_dispersion": ("dispersion", lambda value: value),
    }
    learned = {
        known[name][0]: known[name][1](log.detach().exp().cpu().numpy().reshape(-1)).tolist()
        for name, log in likelihood.named_parameters()
        if name in known
    }
    for index, target in enumerate(saved.targets):
        yield target, {name: values[index] for name, values in learned.items()}


def _text(value: Any) -> str:
    """A fact on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return plain(value) if isinstance(value, float) else str(value)
