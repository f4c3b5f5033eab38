"""Protocols, warm starts, checkpoints, interruption and early stopping of the regressor."""

import contextlib
import os
import signal

import numpy as np
import pytest

from deepwishart.training import Protocol, adjust_protocol


def protocol_of(regressor, num_rows=100):
    names = ("max_iter", "learning_rate", "batch_size", "kl_anneal")
    changes = {name: getattr(regressor, name) for name in names}
    return adjust_protocol(regressor.protocol, num_rows, num_samples=regressor.n_samples, **changes)


# ---- protocol -----------------------------------------------------------------------------------


def test_by_default_the_protocol_decides(make):
    regressor = make(max_iter=None, learning_rate=None, n_samples=10)
    assert protocol_of(regressor) == Protocol.named("fast", 100)
    assert protocol_of(regressor.set_params(protocol="paper")) == Protocol.named("paper", 100)


def test_a_shorter_run_keeps_proportions(make):
    base = Protocol.named("paper", 100)
    shorter = protocol_of(make(protocol="paper", max_iter=200, learning_rate=0.1))
    assert shorter.max_iter == 200
    assert shorter.kl_anneal / 200 == base.kl_anneal / base.max_iter
    ratio = base.final_learning_rate / base.learning_rate
    assert shorter.final_learning_rate / 0.1 == pytest.approx(ratio, rel=1e-12)


def test_given_parameters_take_precedence(make):
    given = protocol_of(make(kl_anneal=7, batch_size=16, n_samples=3))
    assert (given.kl_anneal, given.batch_size, given.num_samples) == (7, 16, 3)
    own = Protocol(50, 0.1, 0.01, "constant", kl_anneal=5, batch_size=20, clip_norm=3.0)
    used = protocol_of(make(protocol=own, max_iter=None, learning_rate=None))
    assert used == own.replace(num_samples=2)


@pytest.mark.parametrize(
    ("batch_size", "num_rows", "expected"),
    [
        ("auto", 100, None),
        ("auto", 5000, 1000),
        (None, 5000, None),
        (32, 100, 32),
        (200, 100, None),
    ],
)
def test_batch_size(batch_size, num_rows, expected, make):
    assert protocol_of(make(batch_size=batch_size), num_rows).batch_size == expected


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


def test_warm_start_on_more_data_keeps_the_first_units(make, data):
    X, y = data
    regressor = make(warm_start=True).fit(X[:30], y[:30])
    scale = regressor._scaled.targets.scale.copy()
    regressor.fit(X, y)
    np.testing.assert_array_equal(regressor._scaled.targets.scale, scale)
    assert regressor.score(X, y) > 0.5


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
        def make_progress(verbose, total, label):
            yield on_step

        monkeypatch.setattr("deepwishart.estimators.base.make_progress", make_progress)

    return arrange


def test_an_interrupted_fit_is_a_fitted_model(make, data, interrupt_at):
    interrupt_at(4)
    with pytest.warns(UserWarning, match="interrupted after 5 steps"):
        regressor = make().fit(*data)
    assert regressor.n_iter_ == 5 and regressor.history_.stopped_by == "interrupt"
    assert np.isfinite(regressor.predict(data[0])).all()


def test_the_same_fit_resumes_from_its_checkpoint(make, data, interrupt_at, tmp_path):
    X, y = data
    uninterrupted = make().fit(X, y)
    interrupt_at(4)
    with pytest.warns(UserWarning, match="interrupted"):
        half = make(checkpoint_dir=tmp_path).fit(X, y)
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


# ---- what is said -----------------------------------------------------------------------------


def test_verbose_is_silent_off_a_terminal(make, data, capsys):
    make(verbose=2).fit(*data)
    make(verbose=True).fit(*data)
    assert capsys.readouterr() == ("", "")
