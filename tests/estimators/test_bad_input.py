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


# ---- missing and infinite values ----------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_in_an_array(value, make, data, fitted):
    X, y = data
    X = X.copy()
    X[7, 1] = value
    kind = r"NaN \(a missing value\)" if np.isnan(value) else "an infinite value"
    message = rf"Column 1 of X has {kind} in row 7, one of 1 values"
    with pytest.raises(ValueError, match=message):
        make().fit(X, y)
    with pytest.raises(ValueError, match=message):
        fitted.predict(X)


@pytest.mark.parametrize("frame", FRAMES)
def test_not_finite_in_a_frame(frame, make, table, data):
    broken = {**table, "age": np.where(np.arange(60) == 3, np.nan, table["age"])}
    with pytest.raises(ValueError, match=r"Column 'age' of X has NaN .* in row 3"):
        make().fit(frame(broken), data[1])
    regressor = make().fit(frame(table), data[1])
    with pytest.raises(ValueError, match=r"Column 'age' of X has NaN .* in row 3"):
        regressor.predict(frame(broken))


@pytest.mark.parametrize("frame", FRAMES)
def test_missing_integers_and_booleans(frame, make, data):
    rooms = [1, 2, None] * 20
    with pytest.raises(ValueError, match=r"Column 'rooms' of X has NaN .* one of 20 values"):
        make().fit(frame({"size": data[0][:, 0], "rooms": rooms}), data[1])
    garden = [True, None, False] * 20
    with pytest.raises(ValueError, match=r"Column 'garden' of X has NaN"):
        make().fit(frame({"garden": garden}), data[1])


def test_pandas_extension_types(make, data):
    frame = pd.DataFrame({"rooms": pd.array([1, 2, 3] * 20, dtype="Int64"), "x": data[0][:, 0]})
    assert make().fit(frame, data[1]).predict(frame).shape == (60,)
    frame.loc[4, "rooms"] = pd.NA
    with pytest.raises(ValueError, match=r"Column 'rooms' of X has NaN .* in row 4"):
        make().fit(frame, data[1])


def test_not_finite_targets(make, data):
    X, y = data
    y = y.copy()
    y[5] = np.nan
    with pytest.raises(ValueError, match=r"Column 0 of y has NaN .* in row 5"):
        make().fit(X, y)
    with pytest.raises(ValueError, match=r"Column 'price' of y has NaN .* in row 5"):
        make().fit(X, pd.Series(y, name="price"))
    with pytest.raises(ValueError, match=r"Column 'b' of y has NaN .* in row 5"):
        make().fit(X, pl.DataFrame({"a": data[1], "b": y}))


# ---- things that are no numbers -----------------------------------------------------------------


@pytest.mark.parametrize("frame", FRAMES)
def test_text_in_a_frame(frame, make, table, data):
    with pytest.raises(ValueError, match=r"Column 'town' of X holds text, for example 'Bath'"):
        make().fit(frame({**table, "town": ["Bath"] * 60}), data[1])


def test_text_in_arrays_and_lists(make, data):
    X, y = data
    mixed = X.astype(object)
    mixed[:, 1] = "12"
    for inputs in (mixed, mixed.tolist()):
        with pytest.raises(ValueError, match=r"Column 1 of X holds text, for example '12'"):
            make().fit(inputs, y)
    with pytest.raises(ValueError, match=r"Column 0 of X holds text"):
        make().fit(X.astype(str), y)
    with pytest.raises(ValueError, match=r"Column 0 of y holds text, for example 'low'"):
        make().fit(X, ["low"] * 60)


def test_text_when_predicting(make, table, data):
    regressor = make().fit(pd.DataFrame(table), data[1])
    with pytest.raises(ValueError, match=r"Column 'size' of X holds text"):
        regressor.predict(pd.DataFrame({**table, "size": ["big"] * 60}))


@pytest.mark.parametrize("frame", FRAMES)
def test_dates(frame, make, table, data):
    days = [datetime.date(2021, 1, 1) + datetime.timedelta(days=day) for day in range(60)]
    days = pd.to_datetime(days) if frame is pd.DataFrame else days
    with pytest.raises(ValueError, match=r"Column 'sold' of X holds dates"):
        make().fit(frame({**table, "sold": days}), data[1])


def test_objects_that_are_no_numbers(make, data):
    X, y = data
    X = X.astype(object)
    X[3, 0] = {"a": 1}
    with pytest.raises(TypeError, match=r"Column 0 of X holds \{'a': 1\}, which is no number"):
        make().fit(X, y)


def test_objects_that_are_numbers(make, data):
    X, y = data
    expected = make().fit(X, y).predict(X)
    np.testing.assert_array_equal(make().fit(X.astype(object), y).predict(X), expected)


def test_lazy_frame(make, table, data):
    with pytest.raises(TypeError, match=r"X is a lazy frame; call \.collect\(\)"):
        make().fit(pl.DataFrame(table).lazy(), data[1])


def test_integer_and_boolean_arrays(make):
    X = np.arange(40).reshape(-1, 1)
    regressor = make(max_iter=40).fit(X, X[:, 0] > 19)
    assert regressor.score(X, X[:, 0] > 19) > 0.5
    np.testing.assert_array_equal(regressor.predict(X), regressor.predict(X.astype(float)))
    flags = X % 2 == 0
    assert make().fit(flags, 5 * flags[:, 0]).score(flags, 5 * flags[:, 0]) > 0.9


# ---- shapes -------------------------------------------------------------------------------------


def test_empty(make, data, fitted):
    X, y = data
    with pytest.raises(ValueError, match="0 sample"):
        make().fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="0 feature"):
        make().fit(X[:, :0], y)
    with pytest.raises(ValueError, match="0 sample"):
        fitted.predict(X[:0])


def test_one_row(make, data):
    X, y = data
    with pytest.raises(ValueError, match=r"1 sample.* minimum of 2 is required"):
        make().fit(X[:1], y[:1])


def test_two_rows(make, data):
    X, y = data
    regressor = make(max_iter=50).fit(X[:2], y[:2])
    assert regressor.n_inducing_ == 2
    middle = regressor.predict(X[:2].mean(0)[None])[0]
    assert y[:2].min() < middle < y[:2].max()


def test_one_feature(make, data):
    X, y = data
    assert make(max_iter=40).fit(X[:, :1], y).score(X[:, :1], y) > 0.4
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        make().fit(X[:, 0], y)


def test_rows_of_x_and_y_differ(make, data):
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[60, 59\]"):
        make().fit(data[0], data[1][:-1])


def test_targets_of_three_dimensions(make, data):
    with pytest.raises(ValueError, match=r"y must have shape .* got \(60, 1, 1\)"):
        make().fit(data[0], data[1].reshape(60, 1, 1))


def test_no_targets(make, data):
    with pytest.raises(ValueError, match="the target y is None"):
        make().fit(data[0], None)
    with pytest.raises(ValueError, match=r"at least one column, got \(60, 0\)"):
        make().fit(data[0], data[1].reshape(60, 1)[:, :0])


def test_wrong_number_of_features(data, fitted):
    with pytest.raises(ValueError, match=r"X has 1 features, but .* is expecting 2 features"):
        fitted.predict(data[0][:, :1])


@pytest.mark.parametrize("frame", FRAMES)
def test_wrong_names_or_order(frame, make, table, data):
    regressor = make().fit(frame(table), data[1])
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- height\n.*missing:\n- size"):
        regressor.predict(frame({"height": table["size"], "age": table["age"]}))
    with pytest.raises(ValueError, match="same order as they were in fit"):
        regressor.predict(frame({"age": table["age"], "size": table["size"]}))
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- extra"):
        regressor.predict(frame({**table, "extra": table["age"]}))


def test_wrong_shape_of_y_in_log_prob(data, fitted):
    X, y = data
    with pytest.raises(ValueError, match=r"y must have 60 rows and 1 columns, got \(3,\)"):
        fitted.log_prob(X, y[:3])


# ---- degenerate data ----------------------------------------------------------------------------


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
    mean, std = regressor.predict(X, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all() and np.isfinite(std).all()
    expected = -np.log(targets)
    assert abs(regressor.log_prob(X, y).mean() - expected) < 10
    lower, upper = regressor.predict_interval(X)
    assert (lower < mean).all() and (mean < upper).all()


def test_columns_of_very_different_magnitude(make, data):
    X, y = data[0] * np.array([1e30, 1e-30]), data[1]
    assert make(max_iter=40).fit(X, y).score(X, y) > 0.9


def test_inputs_far_from_the_training_data(data, fitted):
    X, _ = data
    far = np.array([[1e6, -1e6]])
    mean, std = fitted.predict(far, return_std=True)
    assert np.isfinite(mean).all() and (std > 0.5 * data[1].std()).all()
    with pytest.raises(ValueError, match=r"Column 1 of X in row 2 is more than 1e.15 training"):
        fitted.predict(np.where(np.arange(60)[:, None] == 2, [[0.0, 1e300]], X))


# ---- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None])
@pytest.mark.parametrize("name", ["depth", "n_inducing", "n_predict_samples"])
def test_counts(name, value, make, data):
    also = "" if name == "n_predict_samples" else "'auto' or "
    message = f"{name} must be {also}an integer of at least 1, got {value!r}"
    with pytest.raises(ValueError, match=message):
        make(**{name: value}).fit(*data)


@pytest.mark.parametrize("value", [0, -1, 1.5, "2"])
@pytest.mark.parametrize("name", ["width", "n_samples", "max_iter"])
def test_optional_counts(name, value, make, data):
    with pytest.raises(ValueError, match=f"{name} must be None or an integer of at least 1"):
        make(**{name: value}).fit(*data)


@pytest.mark.parametrize("value", [0, -0.1, float("nan"), float("inf"), "fast", True])
@pytest.mark.parametrize("name", ["learning_rate", "jitter"])
def test_positive_numbers(name, value, make, data):
    with pytest.raises(ValueError, match=f"{name} must be None or a positive number, got"):
        make(**{name: value}).fit(*data)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kl_anneal", -1, "kl_anneal must be None or an integer of at least 0"),
        ("verbose", -1, "verbose must be an integer of at least 0"),
        ("batch_size", 0, r"batch_size must be 'auto', None \(all rows\) or an integer"),
        ("batch_size", "all", r"batch_size must be 'auto', None \(all rows\) or an integer"),
        ("early_stopping", "yes", "early_stopping must be True or False, got 'yes'"),
        ("warm_start", 1, "warm_start must be True or False, got 1"),
        ("process", "dwb", "Unknown process 'dwb'; .*Did you mean 'dwp'?"),
        ("process", "DWP", "Did you mean 'dwp'?"),
        ("kernel", "matern_52", "Unknown kernel 'matern_52'; .*Did you mean 'matern52'?"),
        ("kernel", 3, "Unknown kernel 3"),
        ("dtype", "float46", "Unknown dtype 'float46'; .*Did you mean 'float64'?"),
        ("dtype", torch.float32, "Did you mean 'float32'?"),
        ("protocol", "papre", "Unknown protocol 'papre'.*Did you mean 'paper'?"),
        ("protocol", ["fast"], "Unknown protocol"),
        ("device", "gpu0", "device must be 'auto', 'cpu' or a device .* got 'gpu0'"),
        ("device", "cuda:99", "device must be 'auto', 'cpu' or a device .* got 'cuda:99'"),
        ("random_state", "seed", "'seed' cannot be used to seed"),
    ],
)
def test_other_parameters(name, value, message, make, data):
    with pytest.raises(ValueError, match=message):
        make(**{name: value}).fit(*data)


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


# ---- tensors ------------------------------------------------------------------------------------


def test_tensors_as_data(make, data):
    X, y = (torch.as_tensor(values) for values in data)
    expected = make().fit(*data).predict(data[0])
    regressor = make().fit(X.clone().requires_grad_(), y)
    np.testing.assert_array_equal(regressor.predict(torch.nn.Parameter(X)), expected)
    assert make().fit(X.bfloat16(), y.half()).predict(X.bfloat16()).shape == (60,)


@pytest.mark.parametrize("change", ["to_sparse", "cfloat", "meta"])
def test_tensors_without_ordinary_numbers(change, make, data, fitted):
    X, y = (torch.as_tensor(values) for values in data)
    odd = X.to("meta") if change == "meta" else getattr(X, change)()
    for call in (lambda: make().fit(odd, y), lambda: fitted.predict(odd)):
        with pytest.raises(ValueError, match="X must be an ordinary tensor of real numbers"):
            call()


@pytest.mark.parametrize("name", ["depth", "max_iter", "learning_rate", "jitter"])
def test_integers_of_hundreds_of_digits(name, make, data):
    with pytest.raises(ValueError, match=rf"^{name} must be .{{9,140}}$"):
        make(**{name: 10**400}).fit(*data)
    with pytest.raises(TypeError, match=r"Column 0 of X holds 1000.*which is no number"):
        make().fit([[10**400], [1]], [1.0, 2.0])
