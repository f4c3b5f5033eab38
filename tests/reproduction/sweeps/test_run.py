"""One run: its record, its failures, and its resumption."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from deepwishart.estimators import ScaledModel
from deepwishart.reproduction.sweeps import Execution, RunSpec, Settings
from deepwishart.reproduction.sweeps import run as run_module
from deepwishart.reproduction.sweeps.run import run, structure
from deepwishart.start import build
from deepwishart.training import CheckpointStore, History, Protocol, TrainingError

SPEC = RunSpec("yacht", 0, "dwp", 2, protocol="fast")
SETTINGS = Settings({"num_inducing": 6}, max_iter=30, elbo_samples=50, test_samples=10)
RESULTS = ("elbo", "elbo_se", "test_log_likelihood", "rmse", "crps", "coverage90")


def results(record):
    return [record[name] for name in RESULTS]


def same(record):
    """Equal but for rounding, which may depend on where in memory matrices are."""
    return pytest.approx(results(record), rel=1e-7)


@pytest.mark.parametrize("process", ["dwp", "dgp"])
def test_a_record_has_everything(dataset, tmp_path, process):
    spec = RunSpec("yacht", 1, process, 3, seed=5, protocol="fast")
    record, curve = run(spec, SETTINGS, dataset, tmp_path)
    assert RunSpec.from_dict(record) == spec
    assert record["status"] == "ok" and all(np.isfinite(results(record)))
    assert record["steps"] == 30 and record["num_train"] == 34 and record["num_test"] == 5
    assert 0 < record["seconds_per_step"] < record["seconds"]
    assert record["seconds_per_epoch"] == record["seconds_per_step"]
    assert record["settings"]["model"] == {"num_inducing": 6, "output": "collapsed"}
    assert record["settings"]["protocol"]["max_iter"] == 30
    assert record["versions"].keys() >= {"deepwishart", "torch", "numpy"}
    assert json.loads(json.dumps([record, curve], allow_nan=False)) == [record, curve]
    assert curve["step"] == list(range(30))
    assert curve["seconds"] == sorted(curve["seconds"])


def test_a_run_builds_what_build_does(dataset):
    """One way from settings to a model, that of everybody else."""
    X, y = dataset.split(0).X_train, dataset.split(0).y_train[:, None]
    spec = structure(RunSpec("yacht", 0, "dwp", 3), Settings({"num_inducing": 6}), *X.shape)
    assert (spec.mixing, spec.output) == (0.018, "inducing")  # the paper's
    made = ScaledModel.build(spec, X, y, seed=4)
    options = {"depth": 3, "num_inducing": 6, "mixing": 0.018, "seed": 4}
    state = build("dwp", *made.standardise(X, y), **options).state_dict()
    for name, value in made.model.state_dict().items():
        torch.testing.assert_close(value, state[name])


class PulledPlug(BaseException):
    """Ends a run the hard way."""


def test_an_interrupted_run_resumes_to_the_same_numbers(dataset, tmp_path, monkeypatch):
    whole, steps = run(SPEC, SETTINGS, dataset, tmp_path / "whole")[0], []

    def pull_at_20(event):
        steps.append(event.step)
        if steps.count(20) == 1 and event.step == 20:
            raise PulledPlug

    train = partial(run_module.run_training, progress=pull_at_20)
    monkeypatch.setattr(run_module, "run_training", train)
    often = Execution(checkpoint_every=8)
    with pytest.raises(PulledPlug):
        run(SPEC, SETTINGS, dataset, tmp_path / "cut", execution=often)
    del steps[:-1]
    record, curve = run(SPEC, SETTINGS, dataset, tmp_path / "cut", execution=often)
    assert steps[1:] == list(range(16, 30))
    assert curve["step"] == list(range(30))
    assert results(record) == same(whole)


def test_checkpoints_of_another_run_are_replaced(dataset, tmp_path):
    often = Execution(checkpoint_every=8)
    other = Settings({"num_inducing": 5}, max_iter=16, elbo_samples=50, test_samples=10)
    run(SPEC, other, dataset, tmp_path, execution=often)
    assert CheckpointStore(tmp_path).paths()
    fresh = run(SPEC, SETTINGS, dataset, tmp_path / "fresh")[0]
    record = run(SPEC, SETTINGS, dataset, tmp_path, execution=often)[0]
    assert results(record) == same(fresh)


def test_a_run_that_cannot_be_trained_is_recorded_as_failed(dataset, tmp_path, monkeypatch):
    def fail(model, X, y, protocol, *, history, **rest):
        history.append(0, -1.0, 1.0, 0.1, 0.1, 0.5)
        raise TrainingError("the gradient is NaN.", step=1, layer="layer 1", last_good=None)

    monkeypatch.setattr(run_module, "run_training", fail)
    record, curve = run(SPEC, SETTINGS, dataset, tmp_path)
    assert record["status"] == "failed"
    assert record["reason"] == "TrainingError: the gradient is NaN."
    assert record["steps"] == 1 and "elbo" not in record
    assert curve == {"step": [0], "elbo": [-1.0], "seconds": [0.5]}


def test_epochs_of_minibatches():
    protocol, history = Protocol.named("paper", 4500), History()
    assert protocol.batch_size == 1000
    for step in range(11):  # in the last one the machine slept
        history.append(step, 0.0, 1.0, 0.01, 0.1, 1000.0 if step == 10 else 0.2 * (step + 1))
    timings = run_module._timings(history, protocol, 4500)
    assert timings["seconds_per_step"] == pytest.approx(0.2)
    assert timings["seconds_per_epoch"] == pytest.approx(1.0)
    assert timings["seconds"] == 1000.0
