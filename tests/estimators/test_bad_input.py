"""Unusual data and parameters, one by one: a good result, or a sentence that says what is wrong."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

FRAMES = [pd.DataFrame, pl.DataFrame]


@pytest.fixture(scope="module")
def fitted(make, data):
    return make().fit(*data)


@pytest.fixture(scope="module")
def table(data):
    """Columns by name, to make frames of."""
    X, _ = data
    return {"size": X[:, 0], "age": X[:, 1]}


# ---- tables that are refused --------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(value, make, data, fitted):
    X, y = data
    odd, targets = X.copy(), y.copy()
    odd[7, 1] = targets[5] = value
    kind = r"NaN \(a missing value\)" if np.isnan(value) else "an infinite value"
    for ask in (lambda: make().fit(odd, y), lambda: fitted.predict(odd)):
        with pytest.raises(ValueError, match=f"Column 1 of X has {kind} in row 7, one of 1 values"):
            ask()
    for given, column in ((targets, "0"), (pd.Series(targets, name="price"), "'price'")):
        with pytest.raises(ValueError, match=f"Column {column} of y has {kind} in row 5"):
            make().fit(X, given)


DAYS = [datetime.date(2021, 1, 1) + datetime.timedelta(days=day) for day in range(60)]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.where(np.arange(60) == 3, np.nan, 0.5), "has NaN .* in row 3"),
        ([1, 2, None] * 20, "has NaN .* one of 20 values"),
        ([True, None, False] * 20, "has NaN"),
        (["Bath"] * 60, "holds text, for example 'Bath'"),
        (np.array(DAYS, dtype="datetime64[ns]"), "holds dates"),
    ],
    ids=["NaN", "missing integers", "missing truth values", "text", "dates"],
)
def test_columns_of_a_frame(frame, column, message, make, table, data):
    odd = frame({**table, "odd": column})
    with pytest.raises(ValueError, match=f"Column 'odd' of X {message}"):
        make().fit(odd, data[1])
    regressor = make(max_iter=1).fit(frame({**table, "odd": table["age"]}), data[1])
    with pytest.raises(ValueError, match=f"Column 'odd' of X {message}"):
        regressor.predict(odd)


def test_pandas_extension_types(make, data):
    frame = pd.DataFrame({"rooms": pd.array([1, 2, 3] * 20, dtype="Int64"), "x": data[0][:, 0]})
    assert make().fit(frame, data[1]).predict(frame).shape == (60,)
    frame.loc[4, "rooms"] = pd.NA
    with pytest.raises(ValueError, match=r"Column 'rooms' of X has NaN .* in row 4"):
        make().fit(frame, data[1])


def with_object(value):
    def change(X, y):
        X = X.astype(object)
        X[:, 1] = value
        return X, y

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_object("12"), r"Column 1 of X holds text, for example '12'"),
        (lambda X, y: (with_object("12")(X, y)[0].tolist(), y), r"Column 1 of X holds text"),
        (lambda X, y: (X.astype(str), y), r"Column 0 of X holds text"),
        (lambda X, y: (X, ["low"] * 60), r"Column 0 of y holds text, for example 'low'"),
        (with_object({"a": 1}), r"Column 1 of X holds \{'a': 1\}, which is no number"),
        (with_object(10**400), r"Column 1 of X holds 1000.*which is no number"),
        (lambda X, y: (pl.DataFrame(X).lazy(), y), r"X is a lazy frame; call \.collect\(\)"),
        (lambda X, y: (torch.as_tensor(X).to_sparse(), y), "X must be an ordinary tensor of real"),
        (lambda X, y: (torch.as_tensor(X).cfloat(), y), "X must be an ordinary tensor of real"),
        (lambda X, y: (torch.as_tensor(X).to("meta"), y), "X must be an ordinary tensor of real"),
        (lambda X, y: (X, y[:-1]), r"inconsistent numbers of samples: \[60, 59\]"),
        (lambda X, y: (X, y.reshape(60, 1, 1)), r"y must have shape .* got \(60, 1, 1\)"),
        (lambda X, y: (X, y.reshape(60, 1)[:, :0]), r"at least one column, got \(60, 0\)"),
        (lambda X, y: (X, None), "the target y is None"),
        (lambda X, y: (X[:1], y[:1]), r"1 sample.* minimum of 2 is required"),
    ],
)
def test_what_is_no_table_of_numbers(change, message, make, data):
    with pytest.raises((ValueError, TypeError), match=message):
        make().fit(*change(*data))


def test_wrong_shape_of_y_in_log_prob(data, fitted):
    with pytest.raises(ValueError, match=r"y must have 60 rows and 1 columns, got \(3,\)"):
        fitted.log_prob(data[0], data[1][:3])


# ---- tables that are unusual --------------------------------------------------------------------


def test_other_kinds_of_arrays(make, data):
    X, y = data
    expected = make().fit(X, y).predict(X)
    rows, values = torch.as_tensor(X), torch.as_tensor(y)
    regressor = make().fit(rows.clone().requires_grad_(), values)
    np.testing.assert_array_equal(regressor.predict(torch.nn.Parameter(rows)), expected)
    np.testing.assert_array_equal(make().fit(X.astype(object), y.tolist()).predict(X), expected)
    assert make().fit(rows.bfloat16(), values.half()).predict(rows.bfloat16()).shape == (60,)


def test_integer_and_boolean_arrays(make):
    X = np.arange(40).reshape(-1, 1)
    regressor = make(max_iter=40).fit(X, X[:, 0] > 19)
    assert regressor.score(X, X[:, 0] > 19) > 0.5
    np.testing.assert_array_equal(regressor.predict(X), regressor.predict(X.astype(float)))
    flags = X % 2 == 0
    assert make().fit(flags, 5 * flags[:, 0]).score(flags, 5 * flags[:, 0]) > 0.9


def test_two_rows(make, data):
    X, y = data
    regressor = make(max_iter=50).fit(X[:2], y[:2])
    assert regressor.n_inducing_ == 2
    middle = regressor.predict(X[:2].mean(0)[None])[0]
    assert y[:2].min() < middle < y[:2].max()


def test_constant_column(make, data):
    X, y = data
    padded = np.column_stack([X[:, 0], np.full(60, 1e6), X[:, 1]])
    regressor = make(max_iter=40).fit(padded, y)
    assert regressor.score(padded, y) > 0.9
    padded[:, 1] = 1e6 + 1  # close to the training value, in its own units
    assert regressor.score(padded, y) > 0.9


def test_only_constant_columns(make, data):
    X, y = np.ones((60, 2)), data[1]
    regressor = make(max_iter=40).fit(X, y)
    assert regressor.n_inducing_ == 1
    np.testing.assert_allclose(regressor.predict(X), y.mean(), atol=0.3 * y.std())


@pytest.mark.parametrize("constant", [0.0, 5.0, -1e30, 1e-30])
def test_constant_target(constant, make, data):
    X, _ = data
    regressor = make(max_iter=40).fit(X, np.full(60, constant))
    mean, std = regressor.predict(X, return_std=True)
    unit = abs(constant) or 1.0
    assert (np.abs(mean - constant) < 0.2 * unit).all()
    assert (std > 0).all() and (std < unit).all()


def test_duplicate_rows(make, data):
    X, y = data
    regressor = make(n_inducing=40, max_iter=40).fit(np.repeat(X[:20], 3, 0), np.repeat(y[:20], 3))
    assert regressor.n_inducing_ == 20
    assert regressor.score(X[:20], y[:20]) > 0.9


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("inputs", [1e-30, 1e30])
@pytest.mark.parametrize("targets", [1e-30, 1e30])
def test_very_large_and_very_small_values(inputs, targets, dtype, make, data):
    X, y = data[0] * inputs, data[1] * targets
    regressor = make(dtype=dtype, max_iter=40).fit(X, y)
    assert regressor.score(X, y) > 0.9
    assert regressor.model_.dtype == getattr(torch, dtype)
    mean, std = regressor.predict(X, return_std=True)
    assert mean.dtype == std.dtype == np.float64
    assert np.isfinite(mean).all() and (std > 0).all() and np.isfinite(std).all()
    expected = -np.log(targets)
    assert abs(regressor.log_prob(X, y).mean() - expected) < 10
    lower, upper = regressor.predict_interval(X)
    assert (lower < mean).all() and (mean < upper).all()


def test_inputs_far_from_the_training_data(data, fitted):
    X, _ = data
    far = np.array([[1e6, -1e6]])
    mean, std = fitted.predict(far, return_std=True)
    assert np.isfinite(mean).all() and (std > 0.5 * data[1].std()).all()
    with pytest.raises(ValueError, match=r"Column 1 of X in row 2 is more than 1e.15 training"):
        fitted.predict(np.where(np.arange(60)[:, None] == 2, [[0.0, 1e300]], X))


# ---- parameters ---------------------------------------------------------------------------------

ODD_COUNTS = (0, -1, 1.5, "2")
REFUSED = {
    "must be 'auto' or an integer of at least 1": [
        (name, value) for name in ("depth", "n_inducing") for value in (*ODD_COUNTS, True, None)
    ],
    "must be an integer of at least 1": [
        ("n_predict_samples", value) for value in (*ODD_COUNTS, True, None)
    ],
    "must be None or an integer of at least 1": [
        (name, value) for name in ("width", "n_samples", "max_iter") for value in ODD_COUNTS
    ],
    "must be None or a positive number, got": [
        (name, value)
        for name in ("learning_rate", "jitter")
        for value in (0, -0.1, float("nan"), float("inf"), "fast", True)
    ],
    "must be None or an integer of at least 0": [("kl_anneal", -1)],
    "must be an integer of at least 0": [("verbose", -1)],
    r"must be 'auto', None \(all rows\) or an integer": [("batch_size", 0), ("batch_size", "all")],
    "must be True or False, got": [("early_stopping", "yes"), ("warm_start", 1), ("ard", None)],
    r"must be 'auto', 'cpu' or a device .* got": [("device", "gpu0"), ("device", "cuda:99")],
    "'seed' cannot be used to seed": [("random_state", "seed")],
    "must be None or a path": [("checkpoint_dir", 3)],
    "is for the processes 'dwp' and 'dgp'": [("start", "prior")],
    # Not more than a line, whatever the value.
    ".{9,140}$": [
        (name, 10**400) for name in ("depth", "max_iter", "learning_rate", "jitter", "width")
    ],
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [(*case, message) for message, cases in REFUSED.items() for case in cases],
)
def test_parameters_that_are_refused(name, value, message, make, data):
    message = message if message.startswith("'") else rf"^{name}\S* {message}"
    with pytest.raises(ValueError, match=message):
        make("dsvi", **{name: value}).fit(*data)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("process", "dwb", "dwp"),
        ("process", "DWP", "dwp"),
        ("kernel", "matern_52", "matern52"),
        ("kernel", 3, None),
        ("dtype", "float46", "float64"),
        ("dtype", torch.float32, "float32"),
        ("output", "colapsed", "collapsed"),
        ("posterior", "row", "rows"),
        ("start", "input", "inputs"),
        ("likelihood", "poison", "poisson"),
        ("likelihood", None, None),
        ("protocol", "papre", "paper"),
        ("protocol", ["fast"], None),
    ],
)
def test_names_that_are_not_known(name, value, hint, make, data):
    with pytest.raises(ValueError, match=f"Unknown {name} ") as caught:
        make(**{name: value}).fit(*data)
    assert hint is None or f"Did you mean '{hint}'?" in str(caught.value)


def test_checkpoint_dir_is_a_file(make, data, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises((ValueError, OSError), match="file"):
        make(checkpoint_dir=tmp_path / "file").fit(*data)


def test_numpy_parameters(make, data):
    """A grid search gives NumPy numbers."""
    regressor = make(depth=np.int64(1), learning_rate=np.float32(0.05), warm_start=np.bool_(False))
    assert regressor.fit(*data).predict(data[0]).shape == (60,)


def test_a_failed_fit_leaves_no_old_model_behind(monkeypatch, make, data):
    """Units of new data and an old model do not go together."""
    regressor = make().fit(*data)

    def fail(*arguments, **keywords):
        raise RuntimeError("training failed")

    monkeypatch.setattr("deepwishart.estimators.base.run_training", fail)
    with pytest.raises(RuntimeError, match="training failed"):
        regressor.fit(data[0] * 100, data[1])
    with pytest.raises(ValueError, match="not fitted"):
        regressor.predict(data[0])
