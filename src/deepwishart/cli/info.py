"""``deepwishart info``: what a model is and how it was trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from deepwishart._support.numbers import plain
from deepwishart.cli.errors import printable
from deepwishart.cli.table_options import AsJson, ModelPath

if TYPE_CHECKING:
    from deepwishart.cli.directory import SavedModel

__all__ = ["describe", "info"]

_MOST_RELEVANT = 5


def info(model: ModelPath, as_json: AsJson = False) -> None:
    """Show what a model is, how it was trained, and what its layers have learned."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from deepwishart.cli.directory import ModelDirectory
    from deepwishart.cli.scores import report_tables
    from deepwishart.persistence import ModelFileError

    facts = describe(ModelDirectory(model).load())
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
    for title in ("model", "data", "training", "layers"):
        section = _learned(facts) if title == "layers" else facts[title]
        table = Table("", "", title=title, title_justify="left", show_header=False)
        for name, value in section.items():
            if value is not None:
                # Names come from tables: neither control characters nor rich's markup count.
                text = plain(value) if isinstance(value, float) else str(value)
                lines = value if isinstance(value, list) else [text]
                shown = "\n".join(escape(printable(str(line), 200)) for line in lines)
                table.add_row(f"[dim]{name}[/]", shown)
        console.print(table)
    for table in report_tables(facts["cv"], facts["holdout"]):
        console.print(table)


def describe(saved: SavedModel) -> dict[str, Any]:
    """Everything ``info`` shows, as plain data."""
    from deepwishart.cli.directory import likelihood_name

    regressor, fit, model = saved.regressor, saved.fit, saved.regressor.model_
    settings, history = fit.get("settings", {}), regressor.history_
    classes = getattr(regressor, "classes_", None)
    likelihood = likelihood_name(model)
    known = {} if classes is not None else _describe_likelihood(regressor, likelihood)
    spec = model.spec
    assert spec is not None  # estimators build processes by name
    return {
        "model": {
            **{each.name: _choice(getattr(spec, each.name)) for each in fields(spec)},
            "width": list(spec.widths),
            "likelihood": likelihood,
            "parameters": sum(p.numel() for p in model.parameters()),
        },
        "data": {
            "targets": saved.targets,
            "classes": None if classes is None else [str(label) for label in classes],
            "inputs": [str(column) for column in saved.encoder.columns],
            "rows": fit.get("rows"),
            "rows without a target": fit.get("left_out"),
            "missing values": "median" if settings.get("impute") else "refused",
        },
        "training": {
            "protocol": str(regressor.protocol),
            "steps": regressor.n_iter_,
            "stopped by": history.stopped_by,
            "seconds": round(history.seconds[-1], 1) if history.seconds else 0.0,
            "recoveries": len(history.recoveries),
            "ELBO per row": regressor.elbo_,
            "tried": [_tried(each) for each in history.tried] or None,
            "seed": regressor.random_state,
            "date": fit.get("date"),
            "version": fit.get("version"),
        },
        "feature_names": saved.encoder.feature_names,
        "layers": [
            _describe_layer(layer)
            for layer in (*model.layers, *getattr(model.output, "parts", [model.output]))
        ],
        "noise": dict(zip(saved.targets, known.get("standard deviation", ()), strict=False)),
        "likelihood": {
            target: {name: values[index] for name, values in known.items()}
            for index, target in enumerate(saved.targets)
            if known
        },
        "holdout": fit.get("holdout"),
        "cv": fit.get("cv"),
    }


def _describe_likelihood(regressor: Any, kind: str) -> dict[str, list[float]]:
    """What the likelihood has learned, one number for each target, in units of the data."""
    likelihood, units = regressor.model_.likelihood, regressor._scaled.targets.scale

    def values(parameter: Any) -> Any:
        return parameter.detach().exp().cpu().numpy().reshape(-1)

    typical = "typical " if kind.startswith("heteroscedastic") else ""
    spread = "scale" if kind == "heteroscedastic_t" else "standard deviation"
    found = {
        "log_noise": (spread, lambda value: value**0.5 * units),
        "log_scale": ("scale", lambda value: value * units),
        "log_excess": ("degrees of freedom", lambda value: (2.0 + value).repeat(len(units))),
        "log_rate": ("typical rate", lambda value: value),
        "log_dispersion": ("dispersion", lambda value: value),
    }
    return {
        f"{typical}{found[name][0]}": found[name][1](values(parameter)).tolist()
        for name, parameter in likelihood.named_parameters()
        if name in found
    }


def _tried(each: dict[str, Any]) -> str:
    """A model that was trained before one was kept."""
    likelihood = each.get("likelihood", "Gaussian")
    noise = "" if likelihood == "Gaussian" else f"{printable(likelihood, 60)}, "
    return (
        f"{noise}depth {each['depth']:.0f}, {each['num_inducing']:.0f} inducing points: ELBO "
        f"{each['elbo']:.3f} ± {each['standard_error']:.3f} after {each['steps']:.0f} steps, "
        f"{each['seconds']:.1f} s"
    )


def _describe_layer(layer: Any) -> dict[str, Any]:
    mixing = getattr(layer, "mixing", None)
    return {
        "name": str(layer.name).removeprefix("the "),
        "kernel": type(layer.kernel).__name__,
        "hyperparameters": {
            name.removeprefix("log_"): log.detach().exp().cpu().tolist()
            for name, log in layer.kernel.named_parameters()
        },
        "mixing": None if mixing is None else mixing.item(),
    }


def _choice(value: Any) -> Any:
    """A field of a specification as JSON holds it; an object by the name of its class."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_choice(each) for each in value]
    return dict(value) or None if isinstance(value, Mapping) else type(value).__name__


def _learned(facts: dict[str, Any]) -> dict[str, list[str]]:
    """Lines about each layer, and about the noise."""
    lines, features = {}, facts["feature_names"]
    for layer in facts["layers"]:
        known = layer["hyperparameters"].items()
        shown = [layer["kernel"], *(_values(name, value, features) for name, value in known)]
        if layer["mixing"] is not None:
            shown.append(f"mixing q {layer['mixing']:.3f}")
        lines[layer["name"]] = shown
    shown = [
        f"{what} of {printable(name, 60)}: {plain(value)}"
        for name, known in facts["likelihood"].items()
        for what, value in known.items()
    ]
    return {**lines, "noise": shown} if shown else lines


def _values(name: str, value: Any, features: list[str]) -> str:
    """One number as it is; of many lengthscales the shortest, whose inputs matter most."""
    if not isinstance(value, list):
        return f"{name} {value:.3g}"
    shortest = sorted(zip(value, features, strict=True))[:_MOST_RELEVANT]
    shown = ", ".join(f"{printable(feature, 30)} {number:.3g}" for number, feature in shortest)
    rest = f", {len(value) - len(shortest)} longer" if len(value) > len(shortest) else ""
    return f"{name}s: {shown}{rest}"
