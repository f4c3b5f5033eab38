"""Protocols, warm starts, checkpoints, interruption and early stopping of the regressor."""

import contextlib
import os
import signal

import numpy as np
import pytest

from deepwishart.training import Protocol, adjust_protocol

OWN = Protocol(50, 0.1, 0.01, "constant", kl_anneal=5, batch_size=20)


@pytest.mark.parametrize(
    ("protocol", "rows", "given", "expected"),
    [
        ("fast", 100, {}, {}),
        ("paper", 100, {"max_iter": 200}, {"max_iter": 200, "kl_anneal": 10}),  # in proportion
        ("paper", 9, {"learning_rate": 1.0}, {"learning_rate": 1.0, "final_learning_rate": 0.1}),
        ("fast", 100, {"kl_anneal": 7, "batch_size": 16, "num_samples": 3}, None),
        (OWN, 100, {"num_samples": 2}, None),
        ("fast", 5000, {"batch_size": "auto"}, {"batch_size": 1000}),
        ("fast", 5000, {"batch_size": None}, None),
        ("fast", 100, {"batch_size": 200}, {"batch_size": None}),
    ],
)
def test_given_parameters_take_precedence_over_the_protocol(protocol, rows, given, expected):
    base = Protocol.named(protocol, rows) if isinstance(protocol, str) else protocol
    wanted = base.replace(**(given if expected is None else expected))
    assert adjust_protocol(protocol, rows, **given) == wanted


# ---- warm start ---------------------------------------------------------------------------------


def test_warm_start_goes_on_from_the_present_model(make, data):
    X, y = data
    regressor = make(warm_start=True, max_iter=30, learning_rate=0.01).fit(X, y)
    first, first_history = regressor.elbo_, regressor.history_
    regressor.fit(X, y)
    assert regressor.n_iter_ == 60
    assert regressor.history_.elbo[:30] == first_history.elbo
    assert regressor.history_.kl_weight[30:] == [1.0] * 30
    assert regressor.elbo_ > first
    assert len(first_history) == 30
    scale = regressor._scaled.targets.scale.copy()
    regressor.fit(X[:30], 2 * y[:30])  # the first units stay
    np.testing.assert_array_equal(regressor._scaled.targets.scale, scale)


@pytest.mark.parametrize(
    ("name", "value"), [("depth", 3), ("process", "dgp"), ("n_inducing", 5), ("kernel", "linear")]
)
def test_warm_start_cannot_change_the_model(name, value, make, data):
    regressor = make(warm_start=True).fit(*data).set_params(**{name: value})
    with pytest.raises(ValueError, match=f"warm_start=True .* whose {name} is"):
        regressor.fit(*data)


def test_warm_start_cannot_change_the_columns(make, data):
    X, y = data
    regressor = make(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"targets of shape \(60,\), got \(60, 2\)"):
        regressor.fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="expecting 2 features"):
        regressor.fit(X[:, :1], y)


# ---- interruption and checkpoints ---------------------------------------------------------------


@pytest.fixture
def interrupt_at(monkeypatch):
    """A function that makes Ctrl-C arrive at a given step, or never."""

    def arrange(step):
        def on_step(event):
            if event.step == step:
                os.kill(os.getpid(), signal.SIGINT)

        @contextlib.contextmanager
        def no_bar():
            yield on_step

        monkeypatch.setattr("deepwishart.estimators.base.nullcontext", no_bar)

    return arrange


def test_an_interrupted_fit_is_a_model_and_resumes(make, data, interrupt_at, capsys, tmp_path):
    X, y = data
    uninterrupted = make(verbose=2).fit(X, y)
    assert capsys.readouterr() == ("", "")  # it is no terminal
    interrupt_at(4)
    with pytest.warns(UserWarning, match="interrupted after 5 steps"):
        half = make(checkpoint_dir=tmp_path).fit(X, y)
    assert half.n_iter_ == 5 and half.history_.stopped_by == "interrupt"
    assert np.isfinite(half.predict(X)).all()
    interrupt_at(None)
    resumed = make(checkpoint_dir=tmp_path).fit(X, y)
    assert resumed.history_.seconds[:5] == half.history_.seconds
    assert resumed.n_iter_ == 10
    np.testing.assert_array_equal(resumed.predict(X), uninterrupted.predict(X))


@pytest.mark.parametrize("change", ["seed", "parameters", "data"])
def test_another_fit_does_not_take_up_foreign_checkpoints(change, make, data, tmp_path):
    X, y = data
    make(checkpoint_dir=tmp_path).fit(X, y)
    changed = {"seed": {"random_state": 1}, "parameters": {"depth": 3}, "data": {}}[change]
    y = y + X[:, 0] if change == "data" else y
    beside, alone = make(checkpoint_dir=tmp_path, **changed), make(**changed)
    np.testing.assert_array_equal(beside.fit(X, y).predict(X), alone.fit(X, y).predict(X))
    assert len(list(tmp_path.iterdir())) == 2
