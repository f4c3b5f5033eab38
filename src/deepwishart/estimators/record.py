"""A fitted estimator as plain data, and back.

The files may come from a stranger: before anything is made of them, every number is checked for its
type and range. The model that they describe is laid out without memory, and its tensors are
compared with those that are there, so that a small file cannot ask for a large model.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from sklearn.base import is_classifier
from torch import Tensor

from deepwishart._support.arguments import resolve_device
from deepwishart.estimators import checks
from deepwishart.estimators.scaled_model import ScaledModel, Standardiser
from deepwishart.likelihoods.counts import CountLikelihood
from deepwishart.persistence import ModelFileError
from deepwishart.spec import ModelSpec
from deepwishart.training import History, Protocol
from deepwishart.training.history import COLUMNS

if TYPE_CHECKING:
    from deepwishart.estimators.base import DeepKernelEstimator

    Estimator = TypeVar("Estimator", bound=DeepKernelEstimator)

Record = tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]
_CONFORMITY = "conformity_scores"
_TRIED = ("depth", "num_inducing", "elbo", "standard_error", "steps", "seconds")
_LEARNED = {"classes": "classes_", "exposure": "_exposure_column"}  # from targets and inputs
_SCALED = ("input", "target")
_MOST = 2**31
# Elements of what has no tensor of its size in a file (features of a wide layer, integration nodes
# of many classes): more than any stored tensor, but not memory without end.
_LARGEST = 2**27
_WRONG = (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError)


def to_record(estimator: DeepKernelEstimator) -> Record:
    """Tensors, config and history of a fitted estimator."""
    try:
        spec = estimator.spec_.to_dict()
    except ValueError as error:  # code is not saved
        raise ModelFileError(f"{error} Or pickle the estimator.") from None
    names, known = getattr(estimator, "feature_names_in_", None), vars(estimator)
    learned = {name: known[each] for name, each in _LEARNED.items() if each in known}
    config = {
        "estimator": type(estimator).__name__,
        "parameters": {k: _plain(v) for k, v in estimator.get_params(deep=False).items()},
        "spec": spec,
        "num_inducing": estimator.n_inducing_,
        "single_column": estimator._single_column,
        "feature_names": None if names is None else list(names),
        "input_scaling": estimator._scaled.inputs.to_dict(),
        "target_scaling": estimator._scaled.targets.to_dict(),
        **{name: np.array(found).tolist() for name, found in learned.items()},
        "seed": estimator.seed_,
        "training": {"elbo": estimator.elbo_, "steps": estimator.n_iter_},
    }
    tensors = estimator.model_.state_dict()
    if hasattr(estimator, "conformity_scores_"):
        tensors[_CONFORMITY] = torch.as_tensor(estimator.conformity_scores_)
    return tensors, config, estimator.history_.to_dict()


def from_record(
    kind: type[Estimator],
    tensors: dict[str, Tensor],
    config: dict[str, Any],
    history: dict[str, Any],
    *,
    device: str | torch.device | None = None,
) -> Estimator:
    """The estimator that :func:`to_record` described, if parameters and tensors make one."""
    saved = config.get("estimator")
    if saved not in [each.__name__ for each in kind.__mro__]:
        raise ModelFileError(
            f"This model was saved by {saved!s:.40}, not by {kind.__name__}: read it with "
            f"{saved!s:.40}.load."
        )
    spec = check_record(config, tensors)
    _check_history(history)
    try:
        given = config["parameters"] | ({} if device is None else {"device": device})
        if isinstance(given.get("protocol"), dict):
            given["protocol"] = Protocol(**given["protocol"])
        if isinstance(given.get("class_weight"), list):
            given["class_weight"] = dict(given["class_weight"])
        estimator: Any = kind(**given)
        checks.check_parameters(estimator.get_params(deep=False))
        if is_classifier(estimator):
            estimator.classes_ = np.array(config["classes"])
        else:
            estimator._exposure_column = config["exposure"]
        estimator.history_ = History.from_dict(history)
        model = spec.replace(num_inducing=config["num_inducing"]).make()
        model.load_tensors({k: v for k, v in tensors.items() if k != _CONFORMITY})
        model.to(resolve_device(estimator.device))
    except _WRONG as error:
        raise ModelFileError(f"The saved model does not describe an estimator: {error}") from error
    inputs, targets = (Standardiser.from_dict(config[f"{what}_scaling"]) for what in _SCALED)
    estimator._scaled, estimator.spec_ = ScaledModel(model, inputs, targets), spec
    estimator._single_column, estimator.seed_ = config["single_column"], config["seed"]
    estimator.n_features_in_, estimator.n_outputs_ = spec.num_features, spec.num_outputs
    estimator.n_inducing_, estimator.n_iter_ = config["num_inducing"], len(estimator.history_)
    estimator.elbo_ = config["training"]["elbo"]
    if config["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    if _CONFORMITY in tensors:
        scores = tensors[_CONFORMITY]
        fits = scores.ndim == 2 and scores.shape[1] == spec.num_outputs and len(scores) > 0
        fits = fits and scores.is_floating_point() and bool((scores >= 0).all())
        require(fits, "conformity_scores are no distances of rows")
        estimator.conformity_scores_ = scores.numpy()
    return cast("Estimator", estimator)


def check_record(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ModelSpec:
    """The specification in a config, if everything in it fits together and the ``tensors``, of
    which only type and shape are looked at, are those of its model."""
    for name in ("parameters", "spec", "training"):
        require(isinstance(config.get(name), dict), f"{name} is missing or no object")
    plain, tensors = config["spec"], {k: v for k, v in tensors.items() if k != _CONFORMITY}
    for each in fields(ModelSpec):
        fits = type(plain.get(each.name)) is type(each.default)
        simple = isinstance(each.default, int | float | str)
        require(fits or not simple, f"{each.name} is no {type(each.default).__name__}")
    hidden = {match[1] for name in tensors if (match := re.match(r"layers\.(\d+)\.", name))}
    # Before anything has as many entries as there are layers.
    layers = f"depth is {plain['depth']}, but there are tensors of {len(hidden) + 1} layers"
    require(plain["depth"] == len(hidden) + 1, layers)
    most = max(_LARGEST, 64 * sum(tensor.numel() for tensor in tensors.values()))
    try:
        spec = ModelSpec.from_dict(plain)
        require(max(spec.widths, default=1) * spec.num_inducing <= most, "its layers are too wide")
        _check_data(config, spec)
        _check_likelihood(config, spec, most)
        likelihood = spec.make_likelihood()
        with torch.device("meta"):
            laid_out = spec.replace(num_inducing=config["num_inducing"], likelihood=likelihood)
            expected = laid_out.make().state_dict()
    except ModelFileError:
        raise
    except _WRONG as error:
        raise ModelFileError(f"The saved model does not describe an estimator: {error}") from error
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if spec.output == "collapsed":  # it predicts from all rows, however many
        rows = found.get("training_inputs", ())[:1]
        shapes["training_inputs"] = (*rows, spec.num_features)
        shapes["training_targets"] = (*rows, spec.num_outputs)
    alike = all(tensor.dtype == spec.torch_dtype for tensor in tensors.values())
    require(alike, f"there are tensors of another type than {spec.dtype}")
    for name in sorted(shapes.keys() | found.keys()):
        sizes = f"the tensor {name!s:.60} should have the sizes {shapes.get(name, 'of none')}, "
        require(shapes.get(name) == found.get(name), sizes + f"it has {found.get(name, 'none')}")
    return spec


def _check_data(config: Mapping[str, Any], spec: ModelSpec) -> None:
    """What is said of the data, of their units, and of training."""
    fewer = is_count(config.get("num_inducing"), 1, spec.num_inducing)
    require(fewer, "there are more inducing points than were asked for")
    given = config["parameters"].get("random_state")
    require(given is None or is_count(given, 0, 2**32 - 1), "random_state is no seed")
    require(is_count(config.get("seed"), 0, 2**62), "seed is no seed")
    require(is_number(config["training"].get("elbo")), "the ELBO is no number")
    single = config.get("single_column")
    agrees = isinstance(single, bool) and (not single or spec.num_outputs == 1)
    require(agrees, "single_column contradicts num_outputs")
    names = config.get("feature_names", ())
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    named = names is None or (texts and len(names) == spec.num_features)
    require(named, "feature_names are not as many as num_features")
    for what, length in zip(_SCALED, (spec.num_features, spec.num_outputs), strict=True):
        scaling = config.get(f"{what}_scaling")
        for name in ("magnitude", "location", "spread"):
            values: Any = scaling.get(name) if isinstance(scaling, dict) else None
            fits = _are_numbers(values) and len(values) == length
            positive = name == "location" or (fits and min(values) > 0)
            require(fits and positive, f"{name} of {what}_scaling is no list of {length} numbers")


def _check_likelihood(config: Mapping[str, Any], spec: ModelSpec, most: int) -> None:
    """A likelihood with the arguments that the estimator gives it, and no others."""
    options: dict[str, Any] = dict(spec.likelihood_options)
    wanted: dict[str, Any] = {}
    if "classes" in config:
        classes, weights = config["classes"], options.pop("class_weights", None)
        require(isinstance(classes, list) and len(classes) > 1, "classes are no list of labels")
        kinds, count = {type(label) for label in classes}, len(classes)
        ordered = kinds in ({str}, {bool}, {int}, {float}) and sorted(set(classes)) == classes
        require(ordered, "classes are no sorted texts or numbers, all different")
        require(4 * count**2 <= most, "there are too many classes")
        weighed = _are_numbers(weights) and len(weights) == count
        require(weighed, "class_weights are no numbers of the classes")
        name, wanted = ("bernoulli", {}) if count == 2 else ("categorical", {"num_classes": count})
        fits = spec.likelihood == name and spec.num_outputs == 1 and config["single_column"]
        require(fits, f"there are {count} classes, which is not what its likelihood is for")
    else:
        require(
            spec.likelihood in checks.LIKELIHOODS, f"Unknown likelihood {spec.likelihood!r:.40}"
        )
        if (exposure := config.get("exposure")) is not None:
            counts = issubclass(spec.likelihood_class, CountLikelihood)
            column = counts and is_count(exposure, 0, spec.num_features - 1)
            require(column, "exposure is no column")
            wanted = {"exposure": True}
    require(options == wanted, "likelihood_options are not those of the estimator")


def _check_history(history: Mapping[str, Any]) -> None:
    """Refuse a history whose columns are no lists of numbers."""
    for name in (*COLUMNS, "recoveries"):
        require(_are_numbers(history.get(name)), f"{name} of the history is no list of numbers")
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


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(map(is_number, values))


def _plain(value: Any) -> Any:
    """A constructor parameter as JSON can hold it."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # what it decided is in the seed
    if isinstance(value, Protocol):
        return asdict(value)
    if isinstance(value, Mapping):  # of the weights of classes; JSON has no keys but text
        return [[_plain(each) for each in pair] for pair in value.items()]
    if isinstance(value, torch.device | os.PathLike):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
