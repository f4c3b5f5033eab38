"""What a model's files may say, checked before anything is made of it.

The files may come from a stranger: every number is checked for its type and range. The model that
they describe is laid out first without memory, and its tensors are compared with those that are
there, so that a small file cannot ask for a large model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from deepwishart.estimators.checks import LIKELIHOODS
from deepwishart.likelihoods.counts import CountLikelihood
from deepwishart.persistence import ModelFileError
from deepwishart.spec import ModelSpec
from deepwishart.training.history import COLUMNS

_TRIED = ("depth", "num_inducing", "elbo", "standard_error", "steps", "seconds")
_ROWS = ("training_inputs", "training_targets")
_MOST = 2**31
# Elements of what has no tensor of its size in a file (features of a wide layer, integration nodes
# of many classes): more than any stored tensor, but not memory without end.
_LARGEST = 2**27


def require(condition: bool, what: str) -> None:
    """Raise :class:`~deepwishart.persistence.ModelFileError` unless the condition holds."""
    if not condition:
        raise ModelFileError(f"The saved model does not describe an estimator: {what}.")


def is_count(value: Any, least: int = 1, most: int = _MOST) -> bool:
    """An integer in a range."""
    return type(value) is int and least <= value <= most


def is_number(value: Any) -> bool:
    """A finite number."""
    return (type(value) is float and math.isfinite(value)) or is_count(value, -(2**63), 2**63)


def check_config(config: Mapping[str, Any]) -> None:
    """Refuse a config that is incomplete or of wrong types."""
    for name in ("parameters", "spec", "training"):
        require(isinstance(config.get(name), dict), f"{name} is missing or no object")
    spec, training = config["spec"], config["training"]
    for name in ("num_features", "num_outputs", "num_inducing"):
        require(is_count(spec.get(name)), f"{name} is no count")
    fewer = is_count(config.get("num_inducing"), 1, spec["num_inducing"])
    require(fewer, "there are more inducing points than were asked for")
    given = config["parameters"].get("random_state")
    require(given is None or is_count(given, 0, 2**32 - 1), "random_state is no seed")
    require(is_count(config.get("seed"), 0, 2**62), "seed is no seed")
    single = config.get("single_column")
    agrees = isinstance(single, bool) and (not single or spec["num_outputs"] == 1)
    require(agrees, "single_column contradicts num_outputs")
    names = config.get("feature_names", ())
    named = names is None or (_texts(names) and len(names) == spec["num_features"])
    require(named, "feature_names are not as many as num_features")
    _check_scaling(config.get("input_scaling"), spec["num_features"], "input_scaling")
    _check_scaling(config.get("target_scaling"), spec["num_outputs"], "target_scaling")
    require(is_number(training.get("elbo")), "the ELBO is no number")
    require(is_count(training.get("steps"), 0), "steps is no count")


def check_history(history: Mapping[str, Any]) -> None:
    """Refuse a history whose columns are no lists of numbers."""
    for name in (*COLUMNS, "recoveries"):
        values = history.get(name)
        numbers = isinstance(values, list) and all(is_number(value) for value in values)
        require(numbers, f"{name} of the history is no list of numbers")
    require(all(is_count(step, 0) for step in history["step"]), "a step of the history is no count")
    tried = history.get("tried", [])
    require(
        isinstance(tried, list)
        and all(
            isinstance(each, dict)
            and each.keys() == {"kernel", "likelihood", *_TRIED}
            and all(is_number(each[name]) for name in _TRIED)
            and all(isinstance(each[name], str) for name in ("kernel", "likelihood"))
            for each in tried
        ),
        "what was tried is no list of numbers by name",
    )


def check_model(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ModelSpec:
    """The specification in a config that :func:`check_config` let pass, if these ``tensors``, of
    which only type and shape are looked at, are those of its model."""
    plain = config["spec"]
    hidden = {match[1] for name in tensors if (match := re.match(r"layers\.(\d+)\.", name))}
    # Before anything has as many entries as there are layers.
    require(
        is_count(plain.get("depth")) and plain["depth"] == len(hidden) + 1,
        f"depth is {plain.get('depth')!r:.40}, but there are tensors of {len(hidden) + 1} layers",
    )
    for name in ("ard", "linear_mean"):
        require(isinstance(plain.get(name), bool), f"{name} is neither true nor false")
    require(is_number(plain.get("mixing")), "mixing is no number")
    require(plain.get("width") is None or is_count(plain["width"]), "width is no count")
    require(isinstance(plain.get("kernel"), str), "kernel is no name")
    most = max(_LARGEST, 64 * sum(tensor.numel() for tensor in tensors.values()))
    try:
        spec = ModelSpec.from_dict(plain)
        require(max(spec.widths, default=1) * spec.num_inducing <= most, "its layers are too wide")
        _check_likelihood(config, spec, most)
        likelihood = spec.make_likelihood()
        with torch.device("meta"):
            laid_out = spec.replace(num_inducing=config["num_inducing"], likelihood=likelihood)
            expected = laid_out.make().state_dict()
    except ModelFileError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"The saved model does not describe an estimator: {error}") from error
    _check_rows(spec, {name: tensors[name] for name in _ROWS if name in tensors})
    alike = all(tensor.dtype == spec.torch_dtype for tensor in tensors.values())
    require(alike, f"there are tensors of another type than {spec.dtype}")
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    found = {name: tuple(tensors[name].shape) for name in tensors.keys() - {*_ROWS}}
    for name in sorted(shapes.keys() | found.keys()):
        sizes = f"the tensor {name!s:.60} should have the sizes {shapes.get(name, 'of none')}, "
        require(shapes.get(name) == found.get(name), sizes + f"it has {found.get(name, 'none')}")
    return spec


def check_conformity(scores: Tensor, num_outputs: int) -> None:
    """Refuse scores of calibration rows that cannot be distances of ``num_outputs`` targets."""
    fits = scores.ndim == 2 and scores.shape[1] == num_outputs and len(scores) > 0
    require(
        fits and scores.is_floating_point() and bool((scores >= 0).all()),
        "conformity_scores are no distances of rows",
    )


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _check_scaling(scaling: Any, length: int, what: str) -> None:
    for name in ("magnitude", "location", "spread"):
        values: Any = scaling.get(name) if isinstance(scaling, dict) else None
        fits = isinstance(values, list) and len(values) == length and all(map(is_number, values))
        positive = name == "location" or (fits and min(values) > 0)
        require(fits and positive, f"{name} of {what} is no list of {length} numbers")


def _check_rows(spec: ModelSpec, rows: Mapping[str, Tensor]) -> None:
    """A collapsed output layer predicts from all rows; others have none."""
    shapes = [tuple(tensor.shape) for tensor in rows.values()]
    collapsed = spec.output == "collapsed"
    wanted = [(spec.num_features,), (spec.num_outputs,)] if collapsed else []
    fits = [shape[1:] for shape in shapes] == wanted and len({shape[:1] for shape in shapes}) <= 1
    require(fits, "the rows that it predicts from are missing or of other sizes")


def _check_likelihood(config: Mapping[str, Any], spec: ModelSpec, most: int) -> None:
    """A likelihood with the arguments that the estimator gives it, and no others."""
    options = dict(spec.likelihood_options)
    if "classes" in config:
        count = _count_classes(config["classes"])
        require(4 * count**2 <= most, "there are too many classes")
        weights = options.pop("class_weights", None)
        weighed = isinstance(weights, list) and all(map(is_number, weights))
        require(weighed and len(weights) == count, "class_weights are no numbers of the classes")
        name, wanted = ("bernoulli", {}) if count == 2 else ("categorical", {"num_classes": count})
        fits = spec.likelihood == name and spec.num_outputs == 1 and config["single_column"]
        require(fits, f"there are {count} classes, which is not what its likelihood is for")
    else:
        known = isinstance(spec.likelihood, str) and spec.likelihood in LIKELIHOODS
        require(known, f"Unknown likelihood {spec.likelihood!r:.40}")
        exposure, counts = (
            config.get("exposure"),
            issubclass(spec.likelihood_class, CountLikelihood),
        )
        column = counts and is_count(exposure, 0, spec.num_features - 1)
        require(exposure is None or column, "exposure is no column")
        wanted = {} if exposure is None else {"exposure": True}
    require(options == wanted, "likelihood_options are not those of the estimator")


def _count_classes(classes: Any) -> int:
    require(isinstance(classes, list) and len(classes) > 1, "classes are no list of labels")
    kinds = {type(label) for label in classes}
    ordered = kinds in ({str}, {bool}, {int}, {float}) and sorted(set(classes)) == classes
    require(ordered, "classes are no sorted texts or numbers, all different")
    return len(classes)
