"""Deep kernel processes behind skpro's interface for probabilistic regression.

Needs skpro: ``pip install 'deepwishart[skpro]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone

from deepwishart.estimators import DeepKernelRegressor
from deepwishart.likelihoods import Gaussian

try:
    from skpro.distributions import NormalMixture
    from skpro.regression.base import BaseProbaRegressor
except ImportError as error:
    raise ImportError(
        f"deepwishart.skpro needs skpro ({error}): pip install 'deepwishart[skpro]'."
    ) from error

if TYPE_CHECKING:
    import pandas

__all__ = ["DeepKernelProbaRegressor"]


class DeepKernelProbaRegressor(BaseProbaRegressor):
    """A :class:`~deepwishart.DeepKernelRegressor` for skpro: data frames in, and a distribution
    with their index and columns out, for its metrics, tuning and pipelines.

    Args:
        regressor: the regressor to clone and fit; ``None``: one with its defaults. Distributions
            are mixtures of Gaussians, so that noise is Gaussian: ``likelihood="auto"`` means
            ``"gaussian"``, and other likelihoods are refused.

    Attributes:
        regressor_: the fitted clone.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from deepwishart import DeepKernelRegressor
    >>> from deepwishart.skpro import DeepKernelProbaRegressor
    >>> X = pd.DataFrame({"x": np.linspace(-2, 2, 20)}, index=range(100, 120))
    >>> y = pd.DataFrame({"height": np.sin(X["x"])})
    >>> quick = DeepKernelRegressor(max_iter=20, n_inducing=8, random_state=0)
    >>> fitted = DeepKernelProbaRegressor(quick).fit(X, y)
    >>> fitted.predict_proba(X).mean().shape, list(fitted.predict_interval(X, [0.9]).columns)
    ((20, 1), [('height', 0.9, 'lower'), ('height', 0.9, 'upper')])
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["The deepwishart authors"],
        "capability:multioutput": True,
        "capability:missing": False,
        "X_inner_mtype": "pd_DataFrame_Table",
        "y_inner_mtype": "pd_DataFrame_Table",
    }

    def __init__(self, regressor: DeepKernelRegressor | None = None) -> None:
        self.regressor = regressor
        super().__init__()

    def _fit(self, X: pandas.DataFrame, y: pandas.DataFrame) -> DeepKernelProbaRegressor:
        regressor = clone(self.regressor or DeepKernelRegressor())
        if regressor.likelihood == "auto":
            regressor.set_params(likelihood="gaussian")
        if not (isinstance(regressor.likelihood, Gaussian) or regressor.likelihood == "gaussian"):
            raise ValueError(
                f"likelihood={regressor.likelihood!r} has no mixture of Gaussians for skpro; use "
                "likelihood='gaussian'."
            )
        self.regressor_ = regressor.fit(_named(X), _named(y))
        self._targets = y.columns
        return self

    def _predict_proba(self, X: pandas.DataFrame) -> NormalMixture:
        parts = list(self.regressor_.predict_distribution(_named(X)).components())
        mean, std = (
            np.concatenate(chunks, axis=1).swapaxes(0, 1) for chunks in zip(*parts, strict=True)
        )
        weights = np.full(mean.shape[:2], 1.0 / mean.shape[1])
        return NormalMixture(weights, mean, std, index=X.index, columns=self._targets)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Parameters with which skpro's checks are quick."""
        quick: dict[str, Any] = {"n_inducing": 8, "max_iter": 3, "n_predict_samples": 4}
        quick["random_state"] = 0
        return [
            {"regressor": DeepKernelRegressor(**quick)},
            {"regressor": DeepKernelRegressor("dgp", depth=1, **quick)},
        ]


def _named(table: pandas.DataFrame) -> pandas.DataFrame:
    """With names that are text, which is what scikit-learn's estimators take."""
    return table.set_axis([str(name) for name in table.columns], axis=1)
