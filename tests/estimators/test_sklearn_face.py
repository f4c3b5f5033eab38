"""What users of scikit-learn expect beyond its checks: names of columns, pipelines that hand data
frames on, metadata routing, a page of HTML, and fitted attributes that are documented."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deepwishart.estimators import DeepKernelRegressor


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


def test_arrays_have_no_names(make, data):
    assert not hasattr(make(max_iter=1).fit(*data), "feature_names_in_")


def test_metadata_is_routed(make, data):
    X, y = data
    with sklearn.config_context(enable_metadata_routing=True):
        asking = make(max_iter=2).set_predict_request(return_std=True)
        mean, std = make_pipeline(StandardScaler(), asking).fit(X, y).predict(X, return_std=True)
        assert mean.shape == std.shape == y.shape
        scoring = make(max_iter=2).set_score_request(sample_weight=True)
        weights = np.linspace(0.1, 1.0, 60)
        found = cross_validate(scoring, X, y, cv=3, params={"sample_weight": weights})
        plain = cross_validate(make(max_iter=2), X, y, cv=3)
        assert (found["test_score"] != plain["test_score"]).all()
        model = make(max_iter=2).fit(X[20:], y[20:])
        assert found["test_score"][0] == model.score(X[:20], y[:20], sample_weight=weights[:20])


def test_works_inside_other_estimators(make, data):
    X, y = data
    outer = TransformedTargetRegressor(make(max_iter=20), func=np.log, inverse_func=np.exp)
    assert outer.fit(X, y).predict(X).shape == y.shape


def test_html_shows_parameters_and_whether_it_is_fitted(make, data):
    regressor = make(max_iter=2, depth=3)
    page = regressor._repr_html_()
    assert "DeepKernelRegressor" in page and "Not fitted" in page
    assert re.search(r"depth.*?3", page, re.DOTALL) and "n_inducing" in page
    assert "Fitted" in regressor.fit(*data)._repr_html_()


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
