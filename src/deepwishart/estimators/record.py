"""A fitted regressor as plain data, and back."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.machine import resolve_device
from deepwishart.estimators import checks
from deepwishart.estimators.schema import check_config, check_history
from deepwishart.kernels import Kernel
from deepwishart.persistence import ModelFileError
from deepwishart.pipeline import ScaledModel, Standardiser
from deepwishart.training import History, Protocol

if TYPE_CHECKING:
    from deepwishart.estimators.regressor import DeepKernelRegressor

    Regressor = TypeVar("Regressor", bound=DeepKernelRegressor)

__all__ = ["build_model", "current_names", "from_record", "to_record"]

Record = tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]


def build_model(
    structure: dict[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    seed: int = 0,
    device: str | torch.device = "cpu",
    **start: Any,
) -> ScaledModel:
    """A model that has the structure which a regressor's parameters ask for."""
    return ScaledModel.build(
        structure["process"],
        X,
        y,
        device=resolve_device(device),
        depth=int(structure["depth"]),
        width=None if structure["width"] is None else int(structure["width"]),
        num_inducing=int(structure["n_inducing"]),
        kernel=structure["kernel"],
        dtype=checks.DTYPES[structure["dtype"]],
        seed=seed,
        jitter=None if structure["jitter"] is None else float(structure["jitter"]),
        output=structure.get("output", "inducing"),
        **start,
    )


# What parameters were called in version 0.1, by process.
_COMMON = {
    "output.pseudo_targets": "output.pseudo.targets",
    "output.log_precision": "output.pseudo.log_precision",
    "output.precision_shape": "output.pseudo.precision_shape",
}
_WHITENED = {
    ".inducing_inputs": ".whitened.inputs",
    ".variational_mean": ".whitened.mean",
    ".root_lower": ".whitened.root_lower",
    ".log_root_diagonal": ".whitened.log_root_diagonal",
}
_LAYERS = {
    "dwp": {".loc": ".mean", ".log_scale": ".log_deviation", ".scale_root": ".learned_root"},
    "dgp": {
        ".pseudo_targets": ".pseudo.targets",
        ".log_precision": ".pseudo.log_precision",
        ".precision_shape": ".pseudo.precision_shape",
    },
    "diwp": {".scale_root": ".learned_root"},
    "dsvi": _WHITENED,
}


def current_names(tensors: dict[str, Tensor], process: str) -> dict[str, Tensor]:
    """Tensors by the names that parameters have today, from those of any earlier version."""
    old_dsvi = any(name.endswith(".variational_mean") for name in tensors)
    if process == "dsvi" and not old_dsvi:
        return tensors

    def rename(name: str) -> str:
        if name in _COMMON:
            return _COMMON[name]
        inner = name.startswith("layers.") or (process == "dsvi" and name.startswith("output."))
        for old, new in _LAYERS.get(process, {}).items() if inner else ():
            if name.endswith(old) and not name.endswith(new):
                return name.removesuffix(old) + new
        return name

    return {rename(name): value for name, value in tensors.items()}


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
        "input_scaling": regressor._scaled.inputs.to_dict(),
        "target_scaling": regressor._scaled.targets.to_dict(),
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
    structure = config.get("structure")
    process = structure.get("process") if isinstance(structure, dict) else None
    tensors = current_names(tensors, process if isinstance(process, str) else "")
    check_config(config, tensors)
    check_history(history)
    try:
        regressor = kind(**_rich_parameters(config["parameters"]))
        if device is not None:
            regressor.set_params(device=device)
        checks.check_parameters(regressor.get_params(deep=False))
        checks.check_parameters({**regressor.get_params(deep=False), **config["structure"]})
        regressor.history_ = History.from_dict(history)
        model = _skeleton(config).model
        model.load_tensors(tensors)
        model.to(resolve_device(regressor.device))
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"The saved model does not describe a regressor: {error}") from error
    inputs, targets = (
        Standardiser.from_dict(config[f"{name}_scaling"]) for name in ("input", "target")
    )
    regressor._scaled = ScaledModel(model, inputs, targets)
    regressor._fitted_structure = config["structure"]
    regressor._single_column = config["single_column"]
    regressor.n_features_in_ = config["num_features"]
    if config["feature_names"] is not None:
        regressor.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    regressor.n_outputs_, regressor.n_inducing_ = config["num_outputs"], config["num_inducing"]
    regressor.seed_ = config["seed"]
    regressor.elbo_, regressor.n_iter_ = config["training"]["elbo"], config["training"]["steps"]
    return regressor


def _skeleton(config: dict[str, Any]) -> ScaledModel:
    """A model of the right shapes, whose numbers ``load_state_dict`` replaces.

    As many inducing points are kept as there are distinct rows, so the rows here differ.
    """
    rows = config["num_inducing"]
    X = np.zeros((rows, config["num_features"]))
    X[:, 0] = np.arange(rows)
    return build_model(
        {**config["structure"], "n_inducing": rows}, X, np.zeros((rows, config["num_outputs"]))
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
    if isinstance(value, torch.device | os.PathLike):
        return str(value)
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(f"The parameter {name}={value!r} cannot be saved as plain data.")


def _rich_parameters(plain: dict[str, Any]) -> dict[str, Any]:
    protocol = plain.get("protocol")
    if isinstance(protocol, dict):
        return {**plain, "protocol": Protocol(**protocol)}
    return dict(plain)
