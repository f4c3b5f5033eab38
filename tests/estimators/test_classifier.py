"""The classifier: labels, probabilities, weights, files, and life among scikit-learn's tools."""

import numpy as np
import polars as pl
import pytest

from deepwishart.estimators import DeepKernelClassifier, DeepKernelRegressor
from deepwishart.estimators.record import from_record, to_record
from deepwishart.likelihoods import Bernoulli, Categorical
from deepwishart.persistence import ModelFileError
from deepwishart.spec import PROCESSES

NAMES = np.array(["left", "middle", "right"])


def small(process="dwp", **parameters):
    """A classifier that trains in a tenth of a second."""
    settings = {
        "n_inducing": 10,
        "n_samples": 1,
        "n_predict_samples": 10,
        "max_iter": 30,
        "learning_rate": 0.1,
        "random_state": 0,
    }
    return DeepKernelClassifier(process, **{**settings, **parameters})


@pytest.fixture(scope="module")
def table():
    """Two inputs, and three classes by the first of them: X (60, 2) and labels (60,)."""
    random = np.random.RandomState(0)
    X = random.uniform(-2, 2, size=(60, 2))
    return X, NAMES[np.digitize(X[:, 0] + 0.1 * random.normal(size=60), [-0.7, 0.8])]


@pytest.fixture(scope="module")
def fitted(table):
    return small().fit(*table)


# ---- answers ------------------------------------------------------------------------------------


def test_text_labels_and_probabilities(table, fitted):
    X, y = table
    assert list(fitted.classes_) == list(NAMES)
    assert fitted.score(X, y) > 0.9
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.log(probabilities), fitted.predict_log_proba(X), atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), NAMES[probabilities.argmax(1)])
    numbers = np.searchsorted(NAMES, y)
    expected = fitted.predict_log_proba(X)[np.arange(60), numbers]
    np.testing.assert_array_equal(fitted.log_prob(X, y), expected)
    assert isinstance(fitted.model_.likelihood, Categorical)
    assert set(fitted.sample_y(X, 3).ravel()) <= set(NAMES)
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    named = small().fit(frame, pl.Series(y))
    np.testing.assert_array_equal(named.predict_proba(frame), probabilities)


@pytest.mark.parametrize("labels", [[False, True], [0, 1], [-1.0, 1.0], ["no", "yes"]])
def test_two_classes(labels, table):
    X, y = table
    kind = np.array(labels)
    classifier = small().fit(X, kind[(y == "right").astype(int)])
    assert isinstance(classifier.model_.likelihood, Bernoulli)
    assert classifier.predict(X).dtype == kind.dtype
    assert classifier.predict_proba(X).shape == (60, 2)
    odds = classifier.decision_function(X)
    np.testing.assert_array_equal(kind[(odds > 0).astype(int)], classifier.predict(X))
    reference = small().fit(X, (y == "right").astype(int)).predict_proba(X)
    np.testing.assert_array_equal(classifier.predict_proba(X), reference)


def test_far_from_the_data_classes_are_as_frequent_as_they_were(table):
    """Sixty rows of which six are special; with equal weights all of them count the same."""
    X, _ = table
    y = np.arange(60) < 6
    far = np.array([[1e6, -1e6]])
    plain, balanced = small(depth=1), small(depth=1, class_weight="balanced")
    assert plain.fit(X, y).predict_proba(far)[0, 1] < 0.25
    assert 0.3 < balanced.fit(X, y).predict_proba(far)[0, 1] < 0.7


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_process_learns_in_minibatches(process, classes, table):
    X, y = table
    y = y if classes == 3 else y == "left"
    dtype = "float64" if classes == 3 else "float32"
    classifier = small(process, batch_size=25, max_iter=80, dtype=dtype).fit(X, y)
    assert classifier.score(X, y) > 0.85 and classifier.predict_proba(X).dtype == np.float64
    np.testing.assert_allclose(classifier.predict_proba(X).sum(1), 1.0, rtol=1e-12)
    assert classifier.model_.output.needs_rows is False


# ---- going on -----------------------------------------------------------------------------------


def test_warm_start_keeps_the_classes(table):
    X, y = table
    classifier = small(warm_start=True, max_iter=10).fit(X, y)
    first = classifier.elbo_
    classifier.fit(X[y != "middle"], y[y != "middle"])
    assert classifier.n_iter_ == 20 and list(classifier.classes_) == list(NAMES)
    assert classifier.elbo_ != first
    with pytest.raises(ValueError, match="y holds 'up', which is none of the 3 classes"):
        classifier.fit(X, np.where(y == "left", "up", y))


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [NAMES, np.arange(3), np.array([0.0, 1.0, 2.0]), None])
def test_save_and_load(labels, table, fitted, tmp_path):
    X, y = table
    numbers = np.searchsorted(NAMES, y)
    y = numbers > 0 if labels is None else labels[numbers]
    weights = None if labels is None else {labels[0].item(): 2.0}
    classifier = small(class_weight=weights, max_iter=5).fit(X, y)
    classifier.save(tmp_path / "model")
    loaded = DeepKernelClassifier.load(tmp_path / "model")
    assert loaded.get_params() == classifier.get_params()
    np.testing.assert_array_equal(loaded.classes_, classifier.classes_)
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), classifier.predict(X))


def test_the_other_estimators_model(fitted, tmp_path):
    fitted.save(tmp_path / "classes")
    with pytest.raises(ModelFileError, match=r"saved by DeepKernelClassifier, .*Classifier\.load"):
        DeepKernelRegressor.load(tmp_path / "classes")


STRANGE = [
    *({"classes": each} for each in ([], ["a"], "abc", None, ["a", "b"], ["b", "a", "c"])),
    *({"classes": each} for each in (["a", "a", "b"], ["a", 1, "b"], [*map(str, range(10**5))])),
    *({"spec": {"likelihood": each}} for each in ("bernoulli", "gaussian")),
    {"spec": {"num_outputs": 3}},
    *({"spec": {"likelihood_options": {"num_classes": each}}} for each in (3, 2**30)),
    {"spec": {"likelihood_options": {"num_classes": 3, "class_weights": [1.0, 1.0]}}},
    {"spec": {"likelihood_options": {"num_classes": 3, "class_weights": [1.0, -1.0, 1.0]}}},
    {"estimator": ["x"]},
    {"estimator": "DeepKernelRegressor"},
]


@pytest.mark.parametrize("change", STRANGE)
def test_files_from_a_stranger(change, fitted):
    tensors, config, history = to_record(fitted)
    for name, value in change.items():
        config[name] = {**config[name], **value} if isinstance(value, dict) else value
    with pytest.raises(ModelFileError, match=r"class|likelihood|num_outputs|_scaling|saved by"):
        from_record(DeepKernelClassifier, tensors, config, history)


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "the target y is None"),
        (["one"] * 60, "two classes to tell apart; y has one class only, 'one'"),
        (["a", None, 3] * 20, "y mixes labels of the types NoneType, int, str"),
        (np.array([0.0, np.nan, 1.0] * 20), "NaN"),
    ],
)
def test_labels_that_are_refused(y, message, table):
    with pytest.raises(ValueError, match=message):
        small().fit(table[0], y)


@pytest.mark.parametrize(
    "weights", ["equal", 3, {"left": -1.0}, {"left": float("nan")}, {"elsewhere": 2.0}]
)
def test_weights_that_are_refused(weights, table):
    with pytest.raises(ValueError, match="class_weight"):
        small(class_weight=weights).fit(*table)
