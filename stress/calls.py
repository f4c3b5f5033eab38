"""The public interface, called with odd arguments."""

from __future__ import annotations

import contextlib
import functools
import linecache
import random
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

import deepwishart as dw
from deepwishart import metrics, training
from stress.cases import Failed, Outcome
from stress.odd import odd_value

__all__ = ["SUITE"]

_OBJECTS = ("model", "regressor", "history", "checkpoints", "progress", "should_stop", "optimiser")
_KINDS = (ValueError, TypeError, OSError, MemoryError, ArithmeticError, training.TrainingError)
_LIBRARIES = ("/sklearn/", "numpy/random/")
_PATHS = ("pathlib.py", "<frozen posixpath>", "<frozen genericpath>", "<frozen os>")
Call = tuple[Callable[..., Any], dict[str, Any]]


class Calls:
    """Functions with arguments that work, of which a case replaces some."""

    def __init__(self, folder: Path) -> None:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        self.X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(6, 2)
        self.y = self.X.sum(1).sin()
        self.models = {
            (process, output): dw.build(
                process, self.X, self.y, num_inducing=3, output=output, seed=1
            )
            for process in ("dwp", "dgp", "dsvi", "diwp")
            for output in ("inducing", "collapsed")
        }
        self.regressor = dw.DeepKernelRegressor(
            n_inducing=3, n_samples=1, max_iter=2, n_predict_samples=3, random_state=0
        ).fit(self.X.numpy(), self.y.numpy())

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """One call with one or two odd arguments."""
        calls = {**self._functions(rng), **self._methods(rng, folder), **self._scores()}
        name = rng.choice(tuple(calls))
        function, arguments = calls[name]
        shown = []
        names = [key for key in arguments if key not in _OBJECTS]  # Python's own errors will do
        for key in rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2)))):
            text, arguments[key] = odd_value(arguments[key], rng)
            shown.append(f"{key}={text}")
        what = f"{name}({', '.join(shown)})"
        torch.manual_seed(rng.randrange(2**31))
        try:
            result = function(**arguments)
        except Exception as error:
            _check_error(error, what)
            return Outcome(what, "refused")
        _check_result(result, what)
        return Outcome(what, "accepted")

    def _functions(self, rng: random.Random) -> dict[str, Call]:
        model = self.models[rng.choice(tuple(self.models))].snapshot()
        data = {"model": model, "X": self.X, "y": self.y}
        generator = torch.Generator().manual_seed(rng.randrange(2**31))
        return {
            "build": (dw.build, self._build_arguments(rng)),
            "elbo": (
                dw.elbo,
                {
                    **data,
                    **{"num_data": 6, "num_samples": 2, "kl_weight": 1.0, "generator": generator},
                    "joint": rng.random() < 0.3,
                },
            ),
            "importance_weighted_bound": (
                dw.importance_weighted_bound,
                {**data, "num_importance": 2, "num_replicates": 2, "generator": generator},
            ),
            "sample_prior": (
                dw.sample_prior,
                {"model": model, "X": self.X, "num_samples": 2, "generator": generator},
            ),
            "train": (
                _train,
                {
                    **{**data, "model": model.requires_grad_()},
                    **{"protocol": training.Protocol(2, 0.01, 0.01, "constant", 0, 2), "seed": 0},
                    **{"history": None, "checkpoints": None, "resume": False, "progress": None},
                    **{"should_stop": None, "batches": None, "num_data": None, "optimiser": None},
                },
            ),
            "Protocol": (
                training.Protocol,
                {
                    **{"max_iter": 2, "learning_rate": 0.1, "final_learning_rate": 0.1},
                    **{"schedule": "flat", "kl_anneal": 0, "num_samples": 2, "batch_size": None},
                    **{"clip_norm": None, "factors": {"kernel": 1.0}, "betas": (0.9, 0.99)},
                },
            ),
            "Protocol.named": (training.Protocol.named, {"name": "fast", "num_rows": 5}),
            "CheckpointStore": (
                training.CheckpointStore,
                {"directory": "x", "every_steps": 5, "keep": 2},
            ),
            "Randomness": (
                dw.Randomness,
                {"num_samples": 2, "generator": generator, "dtype": torch.float64, "device": "cpu"},
            ),
            "kernels.make": (
                dw.kernels.make,
                {"name": "matern32", "num_features": 2},
            ),
            "likelihoods.Gaussian": (dw.likelihoods.Gaussian, {"num_outputs": 1, "noise": 0.1}),
        }

    def _build_arguments(self, rng: random.Random) -> dict[str, Any]:
        return {
            **{"process": rng.choice(("dwp", "dgp", "dsvi", "diwp")), "X": self.X, "y": self.y},
            **{"depth": 2, "width": None, "num_inducing": 3, "inducing_inputs": None, "seed": 0},
            **{"kernel": "squared_exponential", "likelihood": None, "dtype": torch.float64},
            **{"output": rng.choice(("inducing", "collapsed")), "noise": 0.1, "precision": 9.0},
            **{"mixing": 1e-3, "posterior": "bartlett", "jitter": None, "linear_mean": False},
        }

    def _methods(self, rng: random.Random, folder: Path) -> dict[str, Call]:
        model = self.models[rng.choice(tuple(self.models))]
        predicted = model.predict(self.X, 3)
        X, y = self.X.numpy(), self.y.numpy()
        regressor = self.regressor
        own = {**regressor.get_params(), "device": "cpu", "output": "auto"}
        fit = {"X": X, "y": y}
        return {
            "model.predict": (_predict, {"model": model, "X": self.X, "num_samples": 2}),
            "model.sample_functions": (model.sample_functions, {"X": self.X, "num_samples": 2}),
            "prediction.log_prob": (predicted.log_prob, {"y": self.y}),
            "prediction.cdf": (predicted.cdf, {"y": self.y}),
            "prediction.quantile": (predicted.quantile, {"p": 0.3}),
            "prediction.sample": (predicted.sample, {"num_samples": 2, "generator": None}),
            "regressor(...).fit": (_fit_new, {**own, **fit}),
            "regressor.fit": (_fit_new, fit),
            "regressor.predict": (regressor.predict, {"X": X, "return_std": True}),
            "regressor.predict_interval": (regressor.predict_interval, {"X": X, "coverage": 0.9}),
            "regressor.predict_quantiles": (
                regressor.predict_quantiles,
                {"X": X, "quantiles": np.array([0.1, 0.9])},
            ),
            "regressor.sample_y": (
                regressor.sample_y,
                {"X": X, "n_samples": 2, "random_state": None},
            ),
            "regressor.log_prob": (regressor.log_prob, fit),
            "regressor.save": (
                functools.partial(_save, folder=folder),
                {"regressor": regressor, "path": folder / "model"},
            ),
            "regressor.load": (
                dw.DeepKernelRegressor.load,
                {"path": folder / "model", "device": None},
            ),
        }

    def _scores(self) -> dict[str, Call]:
        pair = {"mean": self.y, "std": torch.ones_like(self.y), "y": self.y}
        scores = ("log_likelihood", "rmse", "crps", "interval_coverage", "calibration_curve")
        return {f"metrics.{name}": (_score(getattr(metrics, name)), dict(pair)) for name in scores}


SUITE = Calls


def _train(*, model: Any, **arguments: Any) -> Any:
    history = training.train(model, arguments.pop("X"), arguments.pop("y"), **arguments)
    return history.elbo


def _predict(*, model: Any, **arguments: Any) -> Any:
    prediction = model.predict(**arguments)
    return prediction.mean, prediction.stddev, prediction.quantile(0.1)


def _fit_new(*, X: Any, y: Any, **parameters: Any) -> Any:
    defaults = {"n_inducing": 3, "n_samples": 1, "max_iter": 2, "n_predict_samples": 3}
    regressor = dw.DeepKernelRegressor(**{**defaults, **parameters}).fit(X, y)
    return regressor.predict(X, return_std=True)


def _save(*, regressor: Any, path: Any, folder: Path) -> None:
    with contextlib.chdir(folder):
        regressor.save(path)


def _score(score: Callable[..., Any]) -> Callable[..., Any]:
    def call(*, mean: Any, std: Any, y: Any) -> Any:
        return score((mean, std), y)

    return call


def _check_error(error: Exception, what: str) -> None:
    """An error that somebody has written for people: raised on purpose, and of a known kind.

    What scikit-learn says of arrays and the standard library of paths is written for people, too.
    """
    frame = _innermost(error.__traceback__)
    file, line = frame.tb_frame.f_code.co_filename, frame.tb_lineno
    purpose = linecache.getline(file, line).lstrip().startswith("raise")
    ours = "/deepwishart/" in file and purpose
    theirs = file.endswith(_PATHS) or any(part in file for part in _LIBRARIES)
    memory = isinstance(error, MemoryError) or "allocate memory" in str(error)
    if memory or (isinstance(error, _KINDS) and (ours or theirs) and str(error)):
        return
    where = "".join(traceback.format_exception(error)[-6:])
    raise Failed(f"{what}: {type(error).__name__}: {error!s:.300}\n{where}")


def _innermost(trace: TracebackType | None) -> TracebackType:
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _check_result(result: Any, what: str) -> None:
    for value in _numbers(result):
        if np.isnan(value).any():
            raise Failed(f"{what}: NaN is returned without an error")


def _numbers(result: Any) -> Iterable[np.ndarray]:
    """All numbers in what a call returned."""
    if isinstance(result, torch.Tensor):
        yield result.detach().numpy()
    elif isinstance(result, float | np.ndarray | np.floating):
        yield np.asarray(result)
    elif isinstance(result, Mapping):
        yield from _numbers(list(result.values()))
    elif isinstance(result, list | tuple):
        for each in result:
            yield from _numbers(each)
