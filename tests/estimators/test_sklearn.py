"""scikit-learn's own checks, all of them: no exceptions, no lenient tags. And what its users expect
besides: pipelines, searches, names of columns, metadata, and fitted attributes in the docs."""

import re

import pandas as pd
import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from deepwishart.estimators import DeepKernelClassifier, DeepKernelRegressor
from deepwishart.spec import PROCESSES

pytestmark = pytest.mark.slow


def small(process):
    """The first chooses its depth and its inducing points; trained for a moment only."""
    choices = {} if process == "dwp" else {"depth": 2, "n_inducing": 12}
    settings = {"n_samples": 2, "n_predict_samples": 10, "max_iter": 10, "learning_rate": 0.05}
    return DeepKernelRegressor(process, **settings, **choices)


def classifier(**parameters):
    settings = {"n_samples": 1, "n_predict_samples": 10, "learning_rate": 0.1, "random_state": 0}
    settings |= {"n_inducing": 8, "max_iter": 20, "depth": 1}
    return DeepKernelClassifier(**{**settings, **parameters})


@pytest.fixture
def array_api(monkeypatch):
    """Without this variable scikit-learn leaves out one of its checks."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


# One layer for classes: one of the checks trains for a thousand steps.
@parametrize_with_checks([*(small(process) for process in PROCESSES), classifier()])
def test_scikit_learn_check(estimator, check, array_api):
    check(estimator)


def test_no_check_is_relaxed_by_a_tag():
    for tags in (get_tags(DeepKernelRegressor()), get_tags(DeepKernelClassifier())):
        assert not (tags.non_deterministic or tags._skip_test or tags.no_validation)
        assert not getattr(tags.regressor_tags or tags.classifier_tags, "poor_score", False)


def test_fitted_attributes_are_documented(make, data):
    X, y = data
    regressor = make(max_iter=2).fit(pd.DataFrame({"a": X[:, 0], "b": X[:, 1]}), y)
    regressor.calibrate(pd.DataFrame({"a": X[:9, 0], "b": X[:9, 1]}), y[:9])
    fitted = {name for name in vars(regressor) if name.endswith("_") and not name.startswith("_")}
    text = DeepKernelRegressor.__doc__.partition("Attributes:")[2].partition(">>>")[0]
    documented = {
        name for line in re.findall(r"(?m)^ +((?:\w+_,? ?)+):", text) for name in line.split(", ")
    }
    assert documented == {*fitted, "model_"}
