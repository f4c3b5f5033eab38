"""Options of ``deepwishart fit`` that are spelled elsewhere: a model's choices are the fields of
:class:`deepwishart.spec.ModelSpec`, and the estimators know how to train it."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import typer

from deepwishart.cli.lists import completing
from deepwishart.estimators import DeepKernelClassifier, DeepKernelRegressor
from deepwishart.estimators.checks import LIKELIHOODS
from deepwishart.spec import CHOICES, ModelSpec
from deepwishart.start import STARTS

__all__ = ["model_options", "with_model_options"]

_OF_SPEC = {"n_inducing": "num_inducing"}  # where estimators have another name for a field
_NAMES = {
    "n_inducing": ("--num-inducing",),
    "n_samples": ("--samples",),
    "early_stopping": ("--early-stopping/--all-steps",),
}
_AUTO = {
    "depth": "auto: as many as the bound asks for.",
    "n_inducing": "auto: by rows.",
    "kernel": "auto: the one with which a single layer has the highest evidence.",
    "output": "auto: by rows.",
    "posterior": "auto: anchored, but bartlett with the protocol paper.",
    "inputs": "auto: all, where kernels and protocol allow it.",
    "bound": "auto: tight, but titsias2009 with the protocol paper.",
    "likelihood": "auto: gaussian or heteroscedastic_t, by the bound.",
}
# What a user of the command line may choose besides the structure of the model.
_TRAINING = {
    "exposure": "Column with the time, area or population that counts were made over.",
    "start": "Where hidden layers of dwp and dgp start: inputs or prior.",
    "device": "auto, cpu, cuda:0, ...",
    "protocol": "fast, or paper for the long schedule of the paper.",
    "max_iter": "Training steps; the protocol's.",
    "learning_rate": "First learning rate; the protocol's.",
    "batch_size": "Rows per step; the protocol's.",
    "n_samples": "Posterior samples per step; the protocol's.",
    "early_stopping": "Stop when the bound no longer rises.",
}


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of models besides its own; it finds their values in its context,
    ``None`` where none is given."""
    own = inspect.signature(command, eval_str=True).parameters

    def complete(**values: Any) -> None:
        command(**{name: values[name] for name in own})

    every = [*own.values(), *model_options()]
    complete.__doc__ = command.__doc__
    complete.__annotations__ = {each.name: each.annotation for each in every}
    vars(complete)["__signature__"] = inspect.Signature(every)
    return complete


def model_options(
    estimator: type = DeepKernelRegressor, spec: type = ModelSpec
) -> Iterator[inspect.Parameter]:
    """An option for each field of a specification that has a sentence of help and that estimators
    take as a parameter; after them those of training.

    >>> [each.name for each in model_options()][:3]
    ['process', 'depth', 'width']
    """
    structure = {each.name: each.metadata.get("help") for each in dataclasses.fields(spec)}
    fields = {each.name: each for each in dataclasses.fields(estimator) if each.init}
    ours = {name: structure.get(_OF_SPEC.get(name, name)) for name in fields}
    for name, sentence in ours.items():
        if sentence:
            yield _option(fields[name], sentence, "Model")
    for name, sentence in _TRAINING.items():
        if name in fields and not ours[name]:
            yield _option(fields[name], sentence, "Training")


def _option(field: dataclasses.Field[Any], sentence: str, panel: str) -> inspect.Parameter:
    """One option, without a default: who gives nothing leaves it to the estimator."""
    choices = {**CHOICES, "likelihood": tuple(LIKELIHOODS), "start": STARTS}.get(field.name, ())
    if not any(choice in sentence for choice in choices):
        sentence += f" One of {', '.join(choices)}." if choices else ""
    more: dict[str, Any] = {
        "help": " ".join(filter(None, [sentence, _AUTO.get(field.name), _default(field)])),
        "rich_help_panel": panel,
    }
    kinds = set(re.findall(r"\w+", str(field.type)))
    kind: Any = str
    if "bool" in kinds:
        kind = bool
    elif "int" in kinds and field.default == "auto":
        kind, more["parser"], more["metavar"] = object, _count_or_auto, "NUMBER|auto"
    elif "int" in kinds and "str" not in kinds:
        kind, more["min"] = int, 1
    elif "float" in kinds:
        kind = float
    if choices:
        more["autocompletion"] = completing((*choices, *["auto"] * (field.name in _AUTO)))
    option = typer.Option(None, *_NAMES.get(field.name, ()), **more)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, keyword, default=option, annotation=kind | None)


def _default(field: dataclasses.Field[Any]) -> str:
    """What happens if nothing is given, to numbers and to classes."""
    classes = {each.name: each.default for each in dataclasses.fields(DeepKernelClassifier)}
    other = classes.get(field.name, field.default)
    shown = [] if field.default is None else [str(field.default)]
    shown += [] if other == field.default else [f"for classes {other}"]
    return f"By default {', '.join(shown)}." if shown else ""


def _count_or_auto(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither 'auto' nor a whole number of at least 1.")
    return int(text)
