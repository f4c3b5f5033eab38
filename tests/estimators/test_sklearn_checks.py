"""scikit-learn's own checks, all of them, for every process: no exceptions, no lenient tags."""

import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from deepwishart.estimators import DeepKernelRegressor
from deepwishart.spec import PROCESSES

pytestmark = pytest.mark.slow


def small(process):
    """The first chooses its depth and its inducing points; trained for a moment only."""
    choices = {} if process == "dwp" else {"depth": 2, "n_inducing": 12}
    settings = {"n_samples": 2, "n_predict_samples": 10, "max_iter": 10, "learning_rate": 0.05}
    return DeepKernelRegressor(process, **settings, **choices)


@pytest.fixture
def array_api(monkeypatch):
    """Without this variable scikit-learn leaves out one of its checks."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@parametrize_with_checks([small(process) for process in PROCESSES])
def test_scikit_learn_check(estimator, check, array_api):
    check(estimator)


def test_no_check_is_relaxed_by_a_tag():
    tags = get_tags(DeepKernelRegressor())
    assert not tags.non_deterministic
    assert not tags._skip_test
    assert not tags.regressor_tags.poor_score
    assert not tags.no_validation
