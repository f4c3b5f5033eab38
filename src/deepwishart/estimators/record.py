"""A fitted estimator as plain data, and back."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.machine import resolve_device
from deepwishart.estimators import checks
from deepwishart.estimators.scaled_model import ScaledModel
from deepwishart.estimators.schema import check_config, check_conformity, check_history
from deepwishart.estimators.standardise import Standardiser
from deepwishart.kernels import Kernel
from deepwishart.likelihoods import Likelihood
from deepwishart.persistence import ModelFileError
from deepwishart.training import History, Protocol

if TYPE_CHECKING:
    from deepwishart.estimators.base import DeepKernelEstimator

    Estimator = TypeVar("Estimator", bound=DeepKernelEstimator)

_CONFORMITY = "conformity_scores"
_LAYER = r"layers\.\d+|output"
Record = tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]


def build_model(
    structure: dict[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    *,
    device: str | torch.device = "cpu",
    **options: Any,
) -> ScaledModel:
    """A model that has the structure which an estimator's parameters ask for; ``options`` are those
    of :func:`deepwishart.build` that they do not decide."""
    return ScaledModel.build(
        structure["process"],
        X,
        y,
        device=resolve_device(device),
        depth=int(structure["depth"]),
        width=None if structure["width"] is None else int(structure["width"]),
        num_inducing=int(structure["n_inducing"]),
        kernel=structure["kernel"],
        ard=bool(structure.get("ard", True)),
        dtype=checks.DTYPES[structure["dtype"]],
        jitter=None if structure["jitter"] is None else float(structure["jitter"]),
        output=structure.get("output", "inducing"),
        posterior=structure.get("posterior", "bartlett"),
        **options,
    )


# What the parameters of a layer were called in version 0.1, by process.
_PSEUDO = {
    "pseudo_targets": "pseudo.targets",
    "log_precision": "pseudo.log_precision",
    "precision_shape": "pseudo.precision_shape",
}
_RENAMED = {
    "dwp": {"loc": "mean", "log_scale": "log_deviation", "scale_root": "learned_root", **_PSEUDO},
    "dgp": _PSEUDO,
    "diwp": {"scale_root": "learned_root", **_PSEUDO},
    "dsvi": {
        "inducing_inputs": "whitened.inputs",
        "variational_mean": "whitened.mean",
        "root_lower": "whitened.root_lower",
        "log_root_diagonal": "whitened.log_root_diagonal",
    },
}


def current_names(tensors: dict[str, Tensor], process: str) -> dict[str, Tensor]:
    """Tensors by the names that parameters have today, from those of any earlier version."""
    new = _RENAMED.get(process, {})
    if process == "dsvi" and "output.variational_mean" not in tensors:
        return tensors  # a collapsed output has inducing_inputs to this day

    def rename(name: str) -> str:
        layer, _, last = name.rpartition(".")
        return f"{layer}.{new.get(last, last)}" if re.fullmatch(_LAYER, layer) else name

    return {rename(name): value for name, value in tensors.items()}


def check_record(config: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Refuse what does not make a model; tensors by today's names. Their values do not matter."""
    structure = config.get("structure")
    process = structure.get("process") if isinstance(structure, dict) else None
    tensors = current_names(tensors, process if isinstance(process, str) else "")
    check_config(config, {k: v for k, v in tensors.items() if k != _CONFORMITY})
    return tensors


def to_record(regressor: DeepKernelEstimator) -> Record:
    """Tensors, config and history of a fitted estimator."""
    names = getattr(regressor, "feature_names_in_", None)
    config = {
        "parameters": {k: _plain(k, v) for k, v in regressor.get_params(deep=False).items()},
        "structure": {k: _plain(k, v) for k, v in regressor._fitted_structure.items()},
        "num_features": regressor.n_features_in_,
        "num_outputs": regressor.n_outputs_,
        "num_inducing": regressor.n_inducing_,
        "single_column": regressor._single_column,
        "feature_names": None if names is None else list(names),
        "input_scaling": regressor._scaled.inputs.to_dict(),
        "target_scaling": regressor._scaled.targets.to_dict(),
        "estimator": type(regressor).__name__,
        **regressor._describe_targets(),
        "seed": regressor.seed_,
        "training": {
            "elbo": regressor.elbo_,
            "steps": regressor.n_iter_,
            "stopped_by": regressor.history_.stopped_by,
        },
    }
    tensors = regressor.model_.state_dict()
    if hasattr(regressor, "conformity_scores_"):
        tensors[_CONFORMITY] = torch.as_tensor(regressor.conformity_scores_)
    return tensors, config, regressor.history_.to_dict()


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
    tensors = check_record(config, tensors)
    conformity = tensors.pop(_CONFORMITY, None)
    check_history(history)
    if conformity is not None:
        check_conformity(conformity, config["num_outputs"])
    try:
        regressor = kind(**config["parameters"])
        if isinstance(regressor.protocol, dict):
            regressor.protocol = Protocol(**regressor.protocol)
        if device is not None:
            regressor.set_params(device=device)
        checks.check_parameters(regressor.get_params(deep=False))
        checks.check_parameters({**regressor.get_params(deep=False), **config["structure"]})
        regressor.history_ = History.from_dict(history)
        regressor.n_outputs_, regressor.n_inducing_ = config["num_outputs"], config["num_inducing"]
        regressor._recall_targets(config)
        # A model of the right shapes; it keeps as many inducing points as there are distinct rows.
        rows = regressor.n_inducing_
        X = np.arange(rows)[:, None] * np.ones(config["num_features"])
        structure, likelihood = config["structure"], regressor._make_likelihood()
        y = np.zeros((rows, likelihood.num_columns))
        model = build_model(structure | {"n_inducing": rows}, X, y, likelihood=likelihood).model
        model.load_tensors(tensors)
        model.to(resolve_device(regressor.device))
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"The saved model does not describe a regressor: {error}") from error
    inputs = Standardiser.from_dict(config["input_scaling"])
    targets = Standardiser.from_dict(config["target_scaling"])
    regressor._scaled = ScaledModel(model, inputs, targets)
    regressor._fitted_structure = config["structure"]
    regressor._single_column = config["single_column"]
    regressor.n_features_in_ = config["num_features"]
    if config["feature_names"] is not None:
        regressor.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    if conformity is not None:
        regressor.conformity_scores_ = conformity.numpy()
    regressor.seed_ = config["seed"]
    regressor.elbo_, regressor.n_iter_ = config["training"]["elbo"], config["training"]["steps"]
    return regressor


def _check_kind(kind: type[Estimator], config: dict[str, Any]) -> None:
    """Refuse to read a classifier as a regressor, and the reverse."""
    saved = config.get("estimator", "DeepKernelRegressor")  # before 0.3 there was no other
    if any(saved == each.__name__ for each in kind.__mro__):
        return
    raise ModelFileError(
        f"This model was saved by {saved!s:.40}, not by {kind.__name__}: read it with "
        f"{saved!s:.40}.load."
        if saved in ("DeepKernelRegressor", "DeepKernelClassifier")
        else f"This model was saved by {saved!r:.40}, which {kind.__name__} cannot read."
    )


def refuse_object(name: str, value: Any) -> NoReturn:
    """Raise :class:`~deepwishart.persistence.ModelFileError`: code is not saved."""
    known = "deepwishart.kernels.names()" if name == "kernel" else "the documentation"
    raise ModelFileError(
        f"An estimator with {name}={type(value).__name__}(...), an object, cannot be saved: "
        f"rebuilding it would mean to run code from the file. Use a {name}'s name from {known}, or "
        "pickle the estimator."
    )


def _plain(name: str, value: Any) -> Any:
    """A constructor parameter as JSON can hold it."""
    if isinstance(value, Kernel | Likelihood):
        refuse_object(name, value)
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
