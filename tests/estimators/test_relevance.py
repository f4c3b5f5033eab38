"""Which inputs matter."""

import math

import numpy as np
import pytest

from deepwishart.estimators import DeepKernelRegressor


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * random.normal(size=120)
    model = DeepKernelRegressor(depth=1, n_inducing=30, random_state=0).fit(X[:80], y[:80])
    return model, X[80:], y[80:]


def test_what_matters_is_told_from_what_does_not(fitted):
    model, X, y = fitted
    first, second, third = model.relevance(X, y)
    assert first.name == "x1"
    assert first.importance > second.importance > third.importance
    assert first.importance > 5 * first.standard_error
    assert abs(third.importance) < 3 * third.standard_error + 0.02
    assert first.lengthscale < second.lengthscale < third.lengthscale


def test_importance_is_the_loss_of_log_score(fitted):
    model, X, y = fitted
    found = model.relevance(X, y, n_repeats=1, random_state=3)[0]
    shuffled = X.copy()
    shuffled[:, 0] = X[np.random.default_rng(3).permutation(40), 0]
    lost = model.log_prob(X, y) - model.log_prob(shuffled, y)
    assert found.importance == pytest.approx(lost.mean(), rel=1e-12)
    assert found.standard_error == pytest.approx(lost.std(ddof=1) / math.sqrt(40), rel=1e-12)


def test_lengthscales_are_in_standard_deviations(fitted):
    model, *_ = fitted
    found = [each.lengthscale for each in model.relevance()]
    raw = model.model_.output.kernel.lengthscale.detach().numpy()
    np.testing.assert_allclose(found, raw * math.sqrt(3), rtol=1e-12)
    (both,) = model.relevance(groups={"both": [0, 1]})
    assert both.lengthscale == pytest.approx((found[0] ** -2 + found[1] ** -2) ** -0.5)
    assert both.importance is None and both.lost() == ""


@pytest.mark.filterwarnings("ignore:The bound")  # two steps
def test_a_kernel_without_lengthscales(fitted):
    _, X, y = fitted
    model = DeepKernelRegressor(
        depth=1, kernel="arc_cosine1", n_inducing=5, max_iter=2, random_state=0
    ).fit(X, y)
    found = model.relevance(X, y, n_repeats=1)
    assert [each.lengthscale for each in found] == [None] * 3
    with pytest.raises(ValueError, match="both X and y"):
        model.relevance(X)
