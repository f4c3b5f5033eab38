"""Deep kernel processes you can use: deep Wishart processes, and the deep GPs they equal."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = [
    "DeepKernelClassifier",
    "DeepKernelProcess",
    "DeepKernelRegressor",
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
    "linalg",
    "metrics",
    "plots",
    "sample_prior",
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
        linalg,
        metrics,
        plots,
        training,
    )
    from deepwishart.estimators import DeepKernelClassifier, DeepKernelRegressor
    from deepwishart.models import DeepKernelProcess, sample_prior
    from deepwishart.models.build import build
    from deepwishart.objectives import elbo, importance_weighted_bound
    from deepwishart.predict import Predictive
    from deepwishart.randomness import Randomness
else:
    # Importing torch takes seconds, and `deepwishart --help` has no use for it: names are looked
    # up on first use (PEP 562).
    _HOMES = {
        "DeepKernelClassifier": "estimators",
        "DeepKernelProcess": "models",
        "DeepKernelRegressor": "estimators",
        "Predictive": "predict",
        "Randomness": "randomness",
        "build": "models",
        "elbo": "objectives",
        "importance_weighted_bound": "objectives",
        "sample_prior": "models",
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
