"""What a model's files may say, checked before anything is made of it.

The files may come from a stranger: every number is checked for its type and range, and every size
against the tensors that are there, so that a small file cannot ask for a large model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from deepwishart.estimators.checks import DTYPES
from deepwishart.layers.wishart import POSTERIORS
from deepwishart.persistence import ModelFileError
from deepwishart.spec import OUTPUTS
from deepwishart.training.history import COLUMNS

# What the shape and meaning of a model's parameters depend on.
STRUCTURE = (
    *("process", "depth", "width", "n_inducing", "kernel", "dtype", "jitter"),
    *("output", "posterior", "ard"),
)
# With what version 0.1, which did not say, had.
_SINCE_0_2 = {"output": "inducing", "posterior": "bartlett", "ard": True}
_COUNTS = ("num_features", "num_outputs", "num_inducing")
_TRIED = ("depth", "num_inducing", "elbo", "standard_error", "steps", "seconds")
# The inducing inputs of a model, of its first layer, or of its only one.
_POINTS = (
    "inducing_inputs",
    "layers.0.whitened.inputs",
    "output.whitened.inputs",
    "output.parts.0.whitened.inputs",
    "output.inducing_inputs",
)
# A parameter of each likelihood that has one value for every target.
_BY_TARGET = {
    **dict.fromkeys(("gaussian", "heteroscedastic", "heteroscedastic_t"), "log_noise"),
    **dict.fromkeys(("poisson", "negative_binomial"), "log_rate"),
    "student_t": "log_scale",
}
_ROWS = ("training_inputs", "training_targets")
_MOST = 2**31
# Elements of the features that a model is built from: more than any stored tensor, but not memory
# without end. Wide layers have no tensor of their width.
_LARGEST_FEATURES = 2**27


def require(condition: bool, what: str) -> None:
    """Raise :class:`~deepwishart.persistence.ModelFileError` unless the condition holds."""
    if not condition:
        raise ModelFileError(f"The saved model does not describe a regressor: {what}.")


def is_count(value: Any, least: int = 1, most: int = _MOST) -> bool:
    """An integer in a range."""
    return type(value) is int and least <= value <= most


def is_number(value: Any) -> bool:
    """A finite number."""
    return (type(value) is float and math.isfinite(value)) or is_count(value, -(2**63), 2**63)


def check_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Refuse a config that is incomplete, of wrong types, or does not fit the stored tensors."""
    for name in ("parameters", "structure", "training"):
        require(isinstance(config.get(name), dict), f"{name} is missing or no object")
    for name in _COUNTS:
        require(is_count(config.get(name)), f"{name} is no count")
    given = config["parameters"].get("random_state")
    require(given is None or is_count(given, 0, 2**32 - 1), "random_state is no seed")
    require(is_count(config.get("seed"), 0, 2**62), "seed is no seed")
    single = config.get("single_column")
    agrees = isinstance(single, bool) and (not single or config["num_outputs"] == 1)
    require(agrees, "single_column contradicts num_outputs")
    names = config.get("feature_names", ())
    named = names is None or (_texts(names) and len(names) == config["num_features"])
    require(named, "feature_names are not as many as num_features")
    _check_scaling(config.get("input_scaling"), config["num_features"], "input_scaling")
    _check_scaling(config.get("target_scaling"), config["num_outputs"], "target_scaling")
    training = config["training"]
    require(is_number(training.get("elbo")), "the ELBO is no number")
    require(is_count(training.get("steps"), 0), "steps is no count")
    _check_sizes(config, tensors)


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
            and each.keys() - {"likelihood"} == set(_TRIED)
            and all(is_number(each[name]) for name in _TRIED)
            and isinstance(each.get("likelihood", ""), str)
            for each in tried
        ),
        "what was tried is no list of numbers by name",
    )


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _check_scaling(scaling: Any, length: int, what: str) -> None:
    for name in ("magnitude", "location", "spread"):
        values: Any = scaling.get(name) if isinstance(scaling, dict) else None
        fits = isinstance(values, list) and len(values) == length and all(map(is_number, values))
        positive = name == "location" or (fits and min(values) > 0)
        require(fits and positive, f"{name} of {what} is no list of {length} numbers")


def _check_sizes(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    structure = {**_SINCE_0_2, **config["structure"]}
    require(structure.keys() == set(STRUCTURE), "structure has other entries than it should")
    for name, choices in (("output", OUTPUTS), ("posterior", POSTERIORS)):
        require(structure[name] in choices, f"Unknown {name} {structure[name]!r:.40}")
    require(isinstance(structure["ard"], bool), "ard is neither true nor false")
    rows = [tuple(tensors[name].shape) for name in _ROWS if name in tensors]
    widths = [(config["num_features"],), (config["num_outputs"],)]
    wanted = widths if structure["output"] == "collapsed" else []
    fits = [shape[1:] for shape in rows] == wanted and len({shape[:1] for shape in rows}) <= 1
    require(fits, "the rows that it predicts from are missing or of other sizes")
    dtype = DTYPES.get(structure["dtype"]) if isinstance(structure["dtype"], str) else None
    require(dtype is not None, f"Unknown dtype {structure['dtype']!r:.40}")
    alike = all(tensor.dtype == dtype for tensor in tensors.values())
    require(alike, f"there are tensors of another type than {structure['dtype']}")
    hidden = {match[1] for name in tensors if (match := re.match(r"layers\.(\d+)\.", name))}
    require(
        is_count(structure["depth"]) and structure["depth"] == len(hidden) + 1,
        f"depth is {structure['depth']!r:.40}, but there are tensors of {len(hidden) + 1} layers",
    )
    found = next((tuple(tensors[name].shape) for name in _POINTS if name in tensors), ())
    asked = (config["num_inducing"], config["num_features"])
    sizes = f"inducing points should have the sizes {asked}, the tensor has {found}"
    require(found == asked, sizes)
    width = structure["width"] or config["num_features"]
    most = max(_LARGEST_FEATURES, 64 * sum(tensor.numel() for tensor in tensors.values()))
    fits = is_count(width) and width * asked[0] <= most
    require(fits, f"width is {structure['width']!r:.40}")
    if "classes" in config:
        _check_classes(config, tensors.get("likelihood.offset"))
        return
    kind, exposure = config.get("likelihood", "gaussian"), config.get("exposure")
    require(isinstance(kind, str) and kind in _BY_TARGET, f"Unknown likelihood {kind!r:.40}")
    outputs = tensors.get(f"likelihood.{_BY_TARGET[kind]}")
    fits = outputs is not None and outputs.numel() == config["num_outputs"]
    require(fits, "num_outputs is not that of the likelihood")
    is_column = _BY_TARGET[kind] == "log_rate" and is_count(exposure, 0, asked[1] - 1)
    require(exposure is None or is_column, "exposure is no column")


def _check_classes(config: Mapping[str, Any], offset: Tensor | None) -> None:
    classes = config["classes"]
    require(isinstance(classes, list) and len(classes) > 1, "classes are no list of labels")
    kinds = {type(label) for label in classes}
    ordered = kinds in ({str}, {bool}, {int}, {float}) and sorted(set(classes)) == classes
    require(ordered, "classes are no sorted texts or numbers, all different")
    latents = 1 if len(classes) == 2 else len(classes)
    require(
        config["single_column"] and offset is not None and offset.numel() == latents,
        f"there are {len(classes)} classes, but not as many latent functions as they need",
    )


def check_conformity(scores: Tensor, num_outputs: int) -> None:
    """Refuse scores of calibration rows that cannot be distances of ``num_outputs`` targets."""
    fits = scores.ndim == 2 and scores.shape[1] == num_outputs and len(scores) > 0
    require(
        fits and scores.is_floating_point() and bool((scores >= 0).all()),
        "conformity_scores are no distances of rows",
    )
