"""skpro's own checks of an estimator, and that nothing is lost on the way."""

import numpy as np
import pandas as pd
import pytest
from skpro.utils import check_estimator

from deepwishart import DeepKernelRegressor
from deepwishart.skpro import DeepKernelProbaRegressor

pytestmark = pytest.mark.slow


# The checks fill frames of their own in ways that pandas and NumPy are about to give up.
@pytest.mark.filterwarnings("ignore")
def test_passes_skpros_checks():
    results = check_estimator(DeepKernelProbaRegressor, raise_exceptions=False, verbose=False)
    assert len(results) > 50
    failed = {name: result for name, result in results.items() if result != "PASSED"}
    assert not failed


def test_the_distribution_is_the_regressors():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(25, 2)), columns=[0, 1], index=range(5, 30))
    y = pd.DataFrame({"a": X[0] + 100, "b": 10 * X[1]}) + 0.1 * random.normal(size=(25, 2))
    regressor = DeepKernelRegressor(max_iter=5, n_inducing=6, n_predict_samples=7, random_state=0)
    fitted = DeepKernelProbaRegressor(regressor).fit(X, y)
    assert not hasattr(regressor, "model_")
    named = X.set_axis(["0", "1"], axis=1)
    own = fitted.regressor_.predict_distribution(named)
    found = fitted.predict_proba(X)
    np.testing.assert_allclose(found.mean(), own.mean, rtol=1e-10)
    np.testing.assert_allclose(np.sqrt(found.var()), own.stddev, rtol=1e-6)
    np.testing.assert_allclose(found.cdf(y), own.cdf(y.to_numpy()), rtol=1e-6)
    np.testing.assert_allclose(
        fitted.predict_quantiles(X, [0.1])["b", 0.1], own.quantile(0.1)[:, 1], rtol=1e-6
    )


def test_noise_is_gaussian():
    """Also where the regressor by itself would find that it depends on the inputs."""
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": np.linspace(-1, 1, 80)})
    y = pd.DataFrame({"y": np.where(X["x"] > 0, 5.0, 0.1) * random.standard_normal(80)})
    quick = DeepKernelRegressor(max_iter=60, n_inducing=8, random_state=0)
    assert DeepKernelProbaRegressor(quick).fit(X, y).predict_proba(X).mean().shape == (80, 1)
    with pytest.raises(ValueError, match="no mixture of Gaussians for skpro"):
        DeepKernelProbaRegressor(quick.set_params(likelihood="student_t")).fit(X, y)
