"""The public interface, called with odd arguments."""

from __future__ import annotations

import inspect
import os
import random
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import deepwishart as dw
from deepwishart import metrics, training
from deepwishart.spec import OUTPUTS, PROCESSES
from stress.cases import Failed, Outcome
from stress.odd import odd_value

__all__ = ["SUITE"]

# What only Python's own errors are for.
_OBJECTS = ("model", "regressor", "history", "checkpoints", "progress", "should_stop")
_OBJECTS += ("optimiser", "processes")
_KINDS = (ValueError, TypeError, OSError, MemoryError, ArithmeticError, training.TrainingError)
_LIBRARIES = ("/sklearn/", "numpy/random/")
_PATHS = ("pathlib.py", "<frozen posixpath>", "<frozen genericpath>", "<frozen os>")
SMALL = {"n_inducing": 3, "n_samples": 1, "max_iter": 2, "n_predict_samples": 3}
SCORES = ("log_likelihood", "rmse", "crps", "interval_coverage", "calibration_curve")
Call = tuple[Callable[..., Any], dict[str, Any]]


def _call(function: Callable[..., Any], **given: Any) -> Call:
    """A function and all its arguments: those given, and the defaults of the others."""
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    return function, {**defaults, **given}


class Calls:
    """Functions with arguments that work, of which a case replaces some."""

    def __init__(self, folder: Path) -> None:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        self.X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(6, 2)
        self.y = self.X.sum(1).sin()
        self.models = [
            dw.build(process, self.X, self.y, num_inducing=3, output=output, seed=1)
            for process in PROCESSES
            for output in ("inducing", "collapsed")
        ]
        regressor = dw.DeepKernelRegressor(**SMALL, random_state=0)
        self.regressor = regressor.fit(self.X.numpy(), self.y.numpy())

    def prepare(self) -> None:
        """Everything is in memory."""

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """One call with one or two odd arguments."""
        os.chdir(folder)  # where the odd paths end up
        calls = self._calls(rng, folder)
        name = rng.choice(tuple(calls))
        function, arguments = calls[name]
        shown = []
        names = [key for key in arguments if key not in _OBJECTS]
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
        if any(np.isnan(value).any() for value in _numbers(result)):
            raise Failed(f"{what}: NaN is returned without an error")
        return Outcome(what, "accepted")

    def _calls(self, rng: random.Random, folder: Path) -> dict[str, Call]:
        """Functions by name, with arguments that work."""
        model, regressor = rng.choice(self.models).snapshot(), self.regressor
        generator = torch.Generator().manual_seed(rng.randrange(2**31))
        data = {"X": self.X, "y": self.y}
        rows = {"X": self.X.numpy(), "y": self.y.numpy()}
        X = {"X": rows["X"]}
        likewise = {"model": model, "X": self.X, "generator": generator}
        several = {"num_importance": 2, "num_replicates": 2}
        built = {"process": rng.choice(PROCESSES), "output": rng.choice(OUTPUTS), **data}
        steps = {"max_iter": 2, "learning_rate": 0.1, "final_learning_rate": 0.1, "kl_anneal": 0}
        steps |= {"schedule": "flat", "num_samples": 2, "betas": (0.9, 0.99)}
        protocol = training.Protocol(**steps)
        trained = {"seed": 0, "resume": False, "batches": None, "num_data": None}
        trained |= {"model": model.requires_grad_(), "protocol": protocol, **data}
        predicted = model.predict(self.X, 3)
        own = {**regressor.get_params(), "device": "cpu", "output": "auto", **rows}
        path = folder / "model"
        return {
            "build": _call(dw.build, **built, num_inducing=3),
            "ModelSpec": _call(dw.ModelSpec, num_features=2),
            "elbo": _call(
                dw.elbo, **likewise, y=self.y, num_data=6, num_samples=2, joint=rng.random() < 0.3
            ),
            "importance_weighted_bound": _call(
                dw.importance_weighted_bound, **likewise, y=self.y, **several
            ),
            "sample_prior": _call(dw.sample_prior, **likewise, num_samples=2),
            "train": (lambda **given: training.train(**given).elbo, trained),
            "Protocol": _call(training.Protocol, **steps, factors={"kernel": 1.0}),
            "Protocol.named": _call(training.Protocol.named, name="fast", num_rows=5),
            "CheckpointStore": _call(training.CheckpointStore, directory="x", every_steps=5),
            "Randomness": _call(dw.Randomness, num_samples=2, generator=generator),
            "kernels.make": (dw.kernels.make, {"name": "matern32", "num_features": 2}),
            "likelihoods.Gaussian": (dw.likelihoods.Gaussian, {"num_outputs": 1, "noise": 0.1}),
            "model.predict": (_predict, {"model": model, "X": self.X, "num_samples": 2}),
            "model.sample_functions": (model.sample_functions, {"X": self.X, "num_samples": 2}),
            "prediction.log_prob": (predicted.log_prob, {"y": self.y}),
            "prediction.cdf": (predicted.cdf, {"y": self.y}),
            "prediction.quantile": (predicted.quantile, {"p": 0.3}),
            "prediction.sample": _call(predicted.sample, num_samples=2),
            "regressor(...).fit": (_fit_new, own),
            "regressor.fit": (_fit_new, rows),
            "regressor.predict": (regressor.predict, {**X, "return_std": True}),
            "regressor.predict_interval": (regressor.predict_interval, {**X, "coverage": 0.9}),
            "regressor.predict_quantiles": (
                regressor.predict_quantiles,
                {**X, "quantiles": np.array([0.1, 0.9])},
            ),
            "regressor.sample_y": _call(regressor.sample_y, **X, n_samples=2),
            "regressor.log_prob": (regressor.log_prob, rows),
            "regressor.save": (regressor.save, {"path": path}),
            "regressor.load": _call(dw.DeepKernelRegressor.load, path=path),
            **{f"metrics.{name}": (_score(name), self._pair()) for name in SCORES},
        }

    def _pair(self) -> dict[str, Any]:
        return {"mean": self.y, "std": torch.ones_like(self.y), "y": self.y}


SUITE = Calls


def _predict(*, model: Any, **arguments: Any) -> Any:
    prediction = model.predict(**arguments)
    return prediction.mean, prediction.stddev, prediction.quantile(0.1)


def _fit_new(*, X: Any, y: Any, **parameters: Any) -> Any:
    regressor = dw.DeepKernelRegressor(**{**SMALL, **parameters}).fit(X, y)
    return regressor.predict(X, return_std=True)


def _score(name: str) -> Callable[..., Any]:
    return lambda mean, std, y: getattr(metrics, name)((mean, std), y)


def _check_error(error: Exception, what: str) -> None:
    """An error that somebody has written for people: raised on purpose, and of a known kind.

    What scikit-learn says of arrays and the standard library of paths is written for people, too.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = "/deepwishart/" in frame.filename and (frame.line or "").startswith("raise")
    theirs = frame.filename.endswith(_PATHS) or any(part in frame.filename for part in _LIBRARIES)
    theirs = theirs or "boolean value of NA is ambiguous" in str(error)  # pandas, of a flag
    memory = isinstance(error, MemoryError) or "allocate memory" in str(error)
    if memory or (isinstance(error, _KINDS) and (ours or theirs) and str(error)):
        return
    where = "".join(traceback.format_exception(error)[-6:])
    raise Failed(f"{what}: {type(error).__name__}: {error!s:.300}\n{where}")


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
