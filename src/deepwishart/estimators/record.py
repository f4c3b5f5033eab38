"""A fitted regressor as plain data, and back."""

from __future__ import annotations

import numbers
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from deepwishart.estimators import checks
from deepwishart.estimators.standardise import Standardiser
from deepwishart.kernels import Kernel
from deepwishart.models import DeepKernelProcess, build
from deepwishart.persistence import ModelFileError
from deepwishart.training import History, Protocol

if TYPE_CHECKING:
    from deepwishart.estimators.regressor import DeepKernelRegressor

    Regressor = TypeVar("Regressor", bound=DeepKernelRegressor)

__all__ = ["count_inducing", "from_record", "to_record"]

Record = tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]


def count_inducing(model: DeepKernelProcess) -> int:
    """Number of inducing points of a model; all its layers have the same."""
    owner = model if model.inducing_inputs is not None else model.output
    points = owner.inducing_inputs
    assert isinstance(points, Tensor)
    return points.shape[0]


def to_record(regressor: DeepKernelRegressor) -> Record:
    """Tensors, config and history of a fitted regressor."""
    names = getattr(regressor, "feature_names_in_", None)
    config = {
        "parameters": _plain_parameters(regressor.get_params(deep=False)),
        "structure": _plain_parameters(regressor._fitted_structure),
        "num_features": regressor.n_features_in_,
        "num_outputs": regressor.n_outputs_,
        "num_inducing": regressor.n_inducing_,
        "single_column": regressor._single_column,
        "feature_names": None if names is None else list(names),
        "input_scaling": regressor._input_scaling.to_dict(),
        "target_scaling": regressor._target_scaling.to_dict(),
        "seed": regressor.seed_,
        "training": {
            "elbo": regressor.elbo_,
            "steps": regressor.n_iter_,
            "stopped_by": regressor.history_.stopped_by,
        },
    }
    return regressor.model_.state_dict(), config, regressor.history_.to_dict()


def from_record(
    kind: type[Regressor],
    tensors: dict[str, Tensor],
    config: dict[str, Any],
    history: dict[str, Any],
    *,
    device: str | torch.device | None = None,
) -> Regressor:
    """The regressor that :func:`to_record` described.

    Raises:
        ModelFileError: parameters or tensors that do not make a model.
    """
    try:
        regressor = kind(**_rich_parameters(config["parameters"]))
        if device is not None:
            regressor.set_params(device=device)
        checks.check_parameters(regressor.get_params(deep=False))
        regressor._fitted_structure = config["structure"]
        regressor.n_features_in_ = config["num_features"]
        if config["feature_names"] is not None:
            regressor.feature_names_in_ = np.array(config["feature_names"], dtype=object)
        regressor.n_outputs_ = config["num_outputs"]
        regressor.n_inducing_ = config["num_inducing"]
        regressor._single_column = config["single_column"]
        regressor._input_scaling = Standardiser.from_dict(config["input_scaling"])
        regressor._target_scaling = Standardiser.from_dict(config["target_scaling"])
        regressor.seed_ = config["seed"]
        regressor.elbo_ = config["training"]["elbo"]
        regressor.n_iter_ = config["training"]["steps"]
        regressor.history_ = History.from_dict(history)
        model = _skeleton(config)
        model.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"The saved model does not describe a regressor: {error}") from error
    regressor.model_ = model.to(checks.resolve_device(regressor.device))
    return regressor


def _skeleton(config: dict[str, Any]) -> DeepKernelProcess:
    """A model of the right shapes, whose numbers ``load_state_dict`` replaces.

    As many inducing points are kept as there are distinct rows, so the rows here differ.
    """
    structure, rows = config["structure"], config["num_inducing"]
    X = torch.zeros(rows, config["num_features"], dtype=torch.float64)
    X[:, 0] = torch.arange(rows) - 0.5 * (rows - 1)
    y = torch.zeros(rows, config["num_outputs"], dtype=torch.float64)
    return build(
        structure["process"],
        X,
        y,
        depth=structure["depth"],
        width=structure["width"],
        num_inducing=rows,
        kernel=structure["kernel"],
        dtype=checks.DTYPES[structure["dtype"]],
        jitter=structure["jitter"],
    )


def _plain_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor parameters as JSON can hold them."""
    return {name: _plain(name, value) for name, value in parameters.items()}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Kernel):
        raise ModelFileError(
            f"A regressor with kernel={type(value).__name__}(...), an object, cannot be saved: "
            "rebuilding it would mean to run code from the file. Use a kernel's name from "
            "deepwishart.kernels.names(), or pickle the regressor."
        )
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # what it decided is in the seed
    if isinstance(value, Protocol):
        return asdict(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if value is None or isinstance(value, str):
        return value
    raise ModelFileError(f"The parameter {name}={value!r} cannot be saved as plain data.")


def _rich_parameters(plain: dict[str, Any]) -> dict[str, Any]:
    protocol = plain.get("protocol")
    if isinstance(protocol, dict):
        return {**plain, "protocol": Protocol(**protocol)}
    return dict(plain)
