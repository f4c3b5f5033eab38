"""Options that are spelled elsewhere: as fields of :class:`deepwishart.spec.ModelSpec`, which a
model's choices are, of the estimators, and of the settings of sweeps."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import Field, fields, make_dataclass
from typing import Any

import typer

from deepwishart.estimators.checks import LIKELIHOODS
from deepwishart.spec import CHOICES, ModelSpec
from deepwishart.start import STARTS

_FLAGS = {
    **dict.fromkeys(("n_inducing", "num_inducing"), ("--num-inducing",)),
    **dict.fromkeys(("n_samples", "num_samples"), ("--samples",)),
    "early_stopping": ("--early-stopping/--all-steps",),
    "threads": ("--threads-per-worker",),
}
_AUTO = {
    "depth": "auto: as many as the bound asks for.",
    "n_inducing": "auto: by rows.",
    "ard": "auto: by rows and columns.",
    "kernel": "auto: the one with which a single layer has the highest evidence.",
    "output": "auto: by rows.",
    "posterior": "auto: anchored, or rows_columns with output inducing.",
    "inputs": "auto: all, where the output is collapsed and kernels allow it.",
    "bound": "auto: tight, where the output is collapsed.",
    "likelihood": f"{', '.join(LIKELIHOODS)}; auto: gaussian or heteroscedastic_t.",
}
# What a user of the command line may choose besides the structure of the model.
_TRAINING = {
    "start": "Where hidden layers of dwp and dgp start: inputs or prior.",
    "protocol": "fast, or paper for the long schedule of the paper.",
    "max_iter": "Training steps; the protocol's.",
    "learning_rate": "First learning rate; the protocol's.",
    "batch_size": "Rows per step; the protocol's.",
    **dict.fromkeys(("n_samples", "num_samples"), "Posterior samples per step; the protocol's."),
    "early_stopping": "Stop when the bound no longer rises.",
    "elbo_samples": "Posterior samples for the final ELBO.",
    "test_samples": "Posterior samples for predictions.",
    "device": "cpu, auto, or cuda with its number, if any.",
    "threads": "Threads (ray: CPUs) of a run.",
    "checkpoint_every": "Steps between checkpoints.",
}


def model_options(
    *owners: type, without: Collection[str] = (), classes: type | None = None
) -> list[Any]:
    """An option for each field of the ``owners`` that the specification has a sentence of help for,
    and for those of training; its value is ``None`` where it is not given. Help says which defaults
    are others for ``classes``.

    >>> from deepwishart.estimators import DeepKernelRegressor
    >>> [option.opts for option in model_options(DeepKernelRegressor)][:2]
    [['--process'], ['--depth']]
    """
    model = {each.name: each.metadata["help"] for each in fields(ModelSpec) if each.metadata}
    model["n_inducing"] = model["num_inducing"]
    asked = [each for owner in owners for each in fields(owner) if each.name not in without]
    others = {each.name: each.default for each in fields(classes)} if classes else {}
    options = [
        _option(each, known[each.name], panel, others.get(each.name, each.default))
        for panel, known in (("Model", model), ("Training", _TRAINING))
        for each in asked
        if each.name in known
    ]
    made = typer.Typer(add_completion=False)
    made.command()(make_dataclass("Options", options))
    return list(typer.main.get_command(made).params)


def _option(
    field: Field[Any], sentence: str, panel: str, for_classes: object
) -> tuple[str, Any, Any]:
    """Name, type and option, as a field of a dataclass."""
    choices = {**CHOICES, "likelihood": tuple(LIKELIHOODS), "start": STARTS}.get(field.name, ())
    words, kinds = [sentence], set(re.findall(r"\w+", str(field.type)))
    if field.default == "auto":
        words += [_AUTO[field.name]] if field.name in _AUTO else []
        choices = (*choices, "auto") if choices else ()
    usual = [] if field.default is None else [f"by default {field.default}"]
    usual += [] if for_classes == field.default else [f"for classes {for_classes}"]
    words += [f"{', '.join(usual).capitalize()}."] if usual else []
    more: dict[str, Any] = {"help": " ".join(words), "rich_help_panel": panel}
    kind: Any = next((each for each in (bool, int, float) if each.__name__ in kinds), str)
    if kind is int and "str" in kinds:
        kind, more["parser"], more["metavar"] = object, _count, "NUMBER|auto"
    if choices:
        more["autocompletion"] = lambda incomplete: [
            name for name in choices if name.startswith(incomplete)
        ]
    return field.name, kind | None, typer.Option(None, *_FLAGS.get(field.name, ()), **more)


def _count(text: str) -> int | str:
    """A number if it is one; what else a text may be, estimators know."""
    return int(text) if text.removeprefix("-").isdecimal() else text
