"""A fitted estimator as plain data, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.arguments import resolve_device
from deepwishart.estimators import checks
from deepwishart.estimators.scaled_model import ScaledModel, Standardiser
from deepwishart.estimators.schema import check_config, check_conformity, check_history, check_model
from deepwishart.persistence import ModelFileError
from deepwishart.training import History, Protocol

if TYPE_CHECKING:
    from deepwishart.estimators.base import DeepKernelEstimator

    Estimator = TypeVar("Estimator", bound=DeepKernelEstimator)

_CONFORMITY = "conformity_scores"
Record = tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]


def check_record(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Refuse what does not make a model; the values of the tensors do not matter."""
    check_config(config)
    check_model(config, {k: v for k, v in tensors.items() if k != _CONFORMITY})


def to_record(estimator: DeepKernelEstimator) -> Record:
    """Tensors, config and history of a fitted estimator."""
    try:
        spec = estimator.spec_.to_dict()
    except ValueError as error:  # code is not saved
        raise ModelFileError(f"{error} Or pickle the estimator.") from None
    names = getattr(estimator, "feature_names_in_", None)
    config = {
        "estimator": type(estimator).__name__,
        "parameters": {k: _plain(k, v) for k, v in estimator.get_params(deep=False).items()},
        "spec": spec,
        "num_inducing": estimator.n_inducing_,
        "single_column": estimator._single_column,
        "feature_names": None if names is None else list(names),
        "input_scaling": estimator._scaled.inputs.to_dict(),
        "target_scaling": estimator._scaled.targets.to_dict(),
        **estimator._describe_targets(),
        "seed": estimator.seed_,
        "training": {
            "elbo": estimator.elbo_,
            "steps": estimator.n_iter_,
            "stopped_by": estimator.history_.stopped_by,
        },
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
    _check_kind(kind, config)
    check_config(config)
    check_history(history)
    tensors = dict(tensors)
    conformity = tensors.pop(_CONFORMITY, None)
    spec = check_model(config, tensors)
    try:
        estimator = kind(**config["parameters"])
        if isinstance(estimator.protocol, dict):
            estimator.protocol = Protocol(**estimator.protocol)
        if device is not None:
            estimator.set_params(device=device)
        checks.check_parameters(estimator.get_params(deep=False))
        estimator._recall_targets(config)
        estimator.history_ = History.from_dict(history)
        model = spec.replace(num_inducing=config["num_inducing"]).make()
        model.load_tensors(tensors)
        model.to(resolve_device(estimator.device))
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"The saved model does not describe an estimator: {error}") from error
    inputs = Standardiser.from_dict(config["input_scaling"])
    targets = Standardiser.from_dict(config["target_scaling"])
    estimator._scaled, estimator.spec_ = ScaledModel(model, inputs, targets), spec
    estimator._single_column = config["single_column"]
    estimator.n_features_in_, estimator.n_outputs_ = spec.num_features, spec.num_outputs
    estimator.n_inducing_, estimator.seed_ = config["num_inducing"], config["seed"]
    estimator.elbo_, estimator.n_iter_ = config["training"]["elbo"], config["training"]["steps"]
    if config["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    if conformity is not None:
        check_conformity(conformity, spec.num_outputs)
        estimator.conformity_scores_ = conformity.numpy()
    return estimator


def _check_kind(kind: type[Estimator], config: dict[str, Any]) -> None:
    """Refuse to read a classifier as a regressor, and the reverse."""
    saved = config.get("estimator")
    if any(saved == each.__name__ for each in kind.__mro__):
        return
    raise ModelFileError(
        f"This model was saved by {saved!s:.40}, not by {kind.__name__}: read it with "
        f"{saved!s:.40}.load."
        if saved in ("DeepKernelRegressor", "DeepKernelClassifier")
        else f"This model was saved by {saved!r:.40}, which {kind.__name__} cannot read."
    )


def _plain(name: str, value: Any) -> Any:
    """A constructor parameter as JSON can hold it."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # what it decided is in the seed
    if isinstance(value, Protocol):
        return asdict(value)
    if name == "class_weight" and isinstance(value, Mapping):
        return [[_plain(name, label), _plain(name, weight)] for label, weight in value.items()]
    if isinstance(value, torch.device | os.PathLike):
        return str(value)
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(f"The parameter {name}={value!r} cannot be saved as plain data.")
