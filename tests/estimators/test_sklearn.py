"""scikit-learn's own checks, all of them: no exceptions, no lenient tags. And what its users expect
besides: pipelines, searches, names of columns, metadata, and fitted attributes in the docs."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
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


def test_pipelines_searches_and_calibration(make, data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), make())
    assert (cross_val_score(pipeline, X, y, cv=2) > 0.5).all()
    grid = {"depth": [1, 2], "kernel": ["squared_exponential", "linear"]}
    search = GridSearchCV(make(), grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.5 and search.best_estimator_.predict(X).shape == (60,)
    labels = np.where(X[:, 0] > 0, "right", "left")
    search = GridSearchCV(classifier(), {"depth": [1, 2]}, cv=2, scoring="neg_log_loss")
    assert search.fit(X, labels).best_score_ > -0.5
    calibrated = CalibratedClassifierCV(classifier(), cv=2).fit(X, labels)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1.0)
    assert calibrated.score(X, labels) > 0.8


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_hands_names_on(make, data, library):
    X, y = data
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]({"a": X[:, 0], "b": X[:, 1]})
    pipeline = make_pipeline(StandardScaler(), make(max_iter=2)).set_output(transform=library)
    pipeline.fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b"]
    assert pipeline[-1].n_features_in_ == 2
    np.testing.assert_array_equal(
        pipeline.predict(frame), pipeline[-1].predict(pipeline[0].transform(frame))
    )
    renamed = frame.rename(
        **{"columns": {"a": "c"}} if library == "pandas" else {"mapping": {"a": "c"}}
    )
    with pytest.raises(ValueError, match="feature names should match"):
        pipeline[-1].predict(renamed)


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
