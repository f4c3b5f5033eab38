"""Deep kernel processes you can use: deep Wishart processes, and the deep GPs they equal."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = [
    "DeepKernelClassifier",
    "DeepKernelProcess",
    "DeepKernelRegressor",
    "ModelSpec",
    "Predictive",
    "Randomness",
    "build",
    "datasets",
    "distributions",
    "elbo",
    "estimators",
    "importance_weighted_bound",
    "kernels",
    "layers",
    "likelihoods",
    "load",
    "metrics",
    "numerics",
    "plots",
    "sample_prior",
    "start",
    "training",
]

if TYPE_CHECKING:
    from deepwishart import (
        datasets,
        distributions,
        estimators,
        kernels,
        layers,
        likelihoods,
        metrics,
        numerics,
        plots,
        start,
        training,
    )
    from deepwishart.bound import elbo, importance_weighted_bound
    from deepwishart.estimators import DeepKernelClassifier, DeepKernelRegressor
    from deepwishart.estimators.table_model import load
    from deepwishart.predict import Predictive
    from deepwishart.random import Randomness
    from deepwishart.start import build
else:
    # Importing torch takes seconds, and `deepwishart --help` has no use for it: names are looked
    # up on first use (PEP 562).
    _HOMES = {
        "DeepKernelClassifier": "estimators",
        "DeepKernelProcess": "model",
        "DeepKernelRegressor": "estimators",
        "ModelSpec": "spec",
        "Predictive": "predict",
        "Randomness": "random",
        "build": "start",
        "elbo": "bound",
        "importance_weighted_bound": "bound",
        "load": "estimators.table_model",
        "sample_prior": "prior",
    }

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        elif name in __all__:
            value = importlib.import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
