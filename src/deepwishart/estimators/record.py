"""A fitted estimator as plain data, and back.

The files may come from a stranger: before anything is made of them, every number is checked for its
type and range. The model that they describe is laid out without memory, and its tensors are
compared with those that are there, so that a small file cannot ask for a large model.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from sklearn.base import is_classifier
from torch import Tensor

from deepwishart._support.arguments import number, resolve_device, tensor, whole_number
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
# Elements of what has no tensor of its size in a file (features of a wide layer, integration nodes
# of many classes): more than any stored tensor, but not memory without end.
_LARGEST = 2**27
_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError)


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
    own = dict(tensors)
    scores = own.pop(_CONFORMITY, None)
    with describing():
        _check_history(history)
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
        model.load_tensors(own)
        model.to(resolve_device(estimator.device))
        if scores is not None:
            fits = scores.ndim == 2 and scores.shape[1] == spec.num_outputs and len(scores) > 0
            fits = fits and scores.is_floating_point() and bool((scores >= 0).all())
            require(fits, "conformity_scores are no distances of rows")
            estimator.conformity_scores_ = scores.numpy()
    inputs, targets = (Standardiser.from_dict(config[f"{what}_scaling"]) for what in _SCALED)
    estimator._scaled, estimator.spec_ = ScaledModel(model, inputs, targets), spec
    estimator._single_column, estimator.seed_ = config["single_column"], config["seed"]
    estimator.n_features_in_, estimator.n_outputs_ = spec.num_features, spec.num_outputs
    estimator.n_inducing_, estimator.n_iter_ = config["num_inducing"], len(estimator.history_)
    estimator.elbo_ = config["training"]["elbo"]
    if config["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    return cast("Estimator", estimator)


def check_record(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ModelSpec:
    """The specification in a config, if everything in it fits together and the ``tensors``, of
    which only type and shape are looked at, are those of its model."""
    tensors = {name: each for name, each in tensors.items() if name != _CONFORMITY}
    hidden = {match[1] for name in tensors if (match := re.match(r"layers\.(\d+)\.", name))}
    most = max(_LARGEST, 64 * sum(each.numel() for each in tensors.values()))
    with describing():
        # Before anything has as many entries as there are layers.
        depth = config["spec"]["depth"]
        layers = f"depth is {depth}, but there are tensors of {len(hidden) + 1} layers"
        require(depth == len(hidden) + 1, layers)
        spec = ModelSpec.from_dict(config["spec"])
        require(max(spec.widths, default=1) * spec.num_inducing <= most, "its layers are too wide")
        _check_data(config, spec)
        _check_likelihood(config, spec, most)
        likelihood = spec.make_likelihood()
        with torch.device("meta"):
            laid_out = spec.replace(num_inducing=config["num_inducing"], likelihood=likelihood)
            expected = laid_out.make().state_dict()
        shapes = {name: tuple(each.shape) for name, each in expected.items()}
        found = {name: tuple(each.shape) for name, each in tensors.items()}
        if spec.output != "inducing":  # it predicts from all rows, however many
            rows = found.get("training_inputs", ())[:1]
            shapes["training_inputs"] = (*rows, spec.num_features)
            shapes["training_targets"] = (*rows, spec.num_outputs)
        alike = all(each.dtype == spec.torch_dtype for each in tensors.values())
        require(alike, f"there are tensors of another type than {spec.dtype}")
        for name in sorted(shapes.keys() | found.keys()):
            sizes = f"the tensor {name!s:.60} should have the sizes {shapes.get(name, 'of none')}"
            there = f"it has {found.get(name, 'none')}"
            require(shapes.get(name) == found.get(name), f"{sizes}, {there}")
    return spec


def _check_data(config: Mapping[str, Any], spec: ModelSpec) -> None:
    """What is said of the data, of their units, and of training."""
    whole_number("num_inducing", config["num_inducing"], most=spec.num_inducing)
    whole_number("seed", config["seed"], 0, most=2**62)
    number("the ELBO", config["training"]["elbo"], low=-math.inf)
    single, names = config["single_column"], config["feature_names"]
    agrees = isinstance(single, bool) and (not single or spec.num_outputs == 1)
    require(agrees, "single_column contradicts num_outputs")
    if names is not None:
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        fits = texts and len(names) == spec.num_features
        require(fits, "feature_names are not as many as num_features")
    for what, length in zip(_SCALED, (spec.num_features, spec.num_outputs), strict=True):
        for name in ("magnitude", "location", "spread"):
            values = _numbers(f"{what}_scaling", config[f"{what}_scaling"][name], length)
            require(name == "location" or bool((values > 0).all()), f"{name} must be positive")


def _check_likelihood(config: Mapping[str, Any], spec: ModelSpec, most: int) -> None:
    """A likelihood with the arguments that the estimator gives it, and no others."""
    options: dict[str, Any] = dict(spec.likelihood_options)
    wanted: dict[str, Any] = {}
    if "classes" in config:
        classes = config["classes"] if isinstance(config["classes"], list) else []
        count, kinds = len(classes), {type(label) for label in classes}
        ordered = kinds in ({str}, {bool}, {int}, {float}) and sorted(set(classes)) == classes
        require(ordered and count > 1, "classes are no sorted texts or numbers, all different")
        require(4 * count**2 <= most, "there are too many classes")
        del options["class_weights"]  # which the likelihood looks at
        name, wanted = ("bernoulli", {}) if count == 2 else ("categorical", {"num_classes": count})
        fits = spec.likelihood == name and spec.num_outputs == 1 and config["single_column"]
        require(fits, f"there are {count} classes, which is not what its likelihood is for")
    else:
        require(spec.likelihood in checks.LIKELIHOODS, "its likelihood is for classes")
        if (exposure := config["exposure"]) is not None:
            whole_number("exposure", exposure, 0, most=spec.num_features - 1)
            require(issubclass(spec.likelihood_class, CountLikelihood), "exposure is for counts")
            wanted = {"exposure": True}
    require(options == wanted, "likelihood_options are not those of the estimator")


def _check_history(history: Mapping[str, Any]) -> None:
    """Refuse a history whose columns are no lists of numbers."""
    for name in (*COLUMNS, "recoveries"):
        _numbers(name, history[name])
    for each in history["tried"]:
        require(each.keys() == {"kernel", "likelihood", *_TRIED}, "what was tried is no model")
        _numbers("tried", [each[name] for name in _TRIED])
        names = each["kernel"], each["likelihood"]
        require(all(isinstance(name, str) for name in names), "what was tried has no names")


@contextmanager
def describing(what: str = "an estimator") -> Iterator[None]:
    """Whatever goes wrong is put down to the file."""
    try:
        yield
    except _WRONG as error:
        raise ModelFileError(f"The saved model does not describe {what}: {error}") from error


def require(condition: bool, what: str) -> None:
    """Raise ``ValueError`` unless the condition holds."""
    if not condition:
        raise ValueError(f"{what}.")


def _numbers(name: str, values: Any, length: int | None = None) -> Tensor:
    """A list of finite numbers, of this length if one is given."""
    found = tensor(name, values)
    fits = found.ndim == 1 and length in (None, len(found)) and bool(found.isfinite().all())
    require(fits, f"{name} is no list of {'' if length is None else f'{length} '}numbers")
    return found


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
