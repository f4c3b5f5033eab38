"""Deep kernel processes as a scikit-learn regressor."""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from deepwishart._support.machine import resolve_device
from deepwishart.estimators import checks, record
from deepwishart.estimators.schema import STRUCTURE
from deepwishart.kernels import Kernel
from deepwishart.models import DeepKernelProcess
from deepwishart.persistence import read_model, write_model
from deepwishart.pipeline import (
    RescaledPredictive,
    ScaledModel,
    adjust_protocol,
    checkpoint_store,
    estimate_elbo,
    model_options,
    run_training,
)
from deepwishart.training import History, Protocol, make_progress

__all__ = ["DeepKernelRegressor"]


@dataclass(
    eq=False, repr=False
)  # an __init__ that stores its parameters; the rest is scikit-learn's
class DeepKernelRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Regression with a deep kernel process, :math:`X \to K \to G_1 \to K \to \dots \to f \to y`,
    and a predictive distribution for every row.

    Inputs and targets of any magnitude are standardised inside; everything comes back in the units
    of the data. ``X`` is an array or a data frame (pandas, polars) of numbers, ``y`` one or several
    columns. After ``fit``, every answer is repeatable, and the answer for a row does not depend on
    the rows asked for with it.

    Args:
        process: ``"dwp"`` (deep Wishart process), ``"dgp"`` (deep Gaussian process with the same
            prior), ``"dsvi"`` (doubly stochastic deep Gaussian process) or ``"diwp"`` (deep inverse
            Wishart process).
        depth: number of layers, the output layer included; 1 is a sparse Gaussian process.
        width: degrees of freedom of the hidden layers; ``None``: the number of features.
        n_inducing: number of inducing points; at most as many as distinct rows are used.
        kernel: a name from :func:`deepwishart.kernels.names`, or a kernel to copy for every layer.
        output: ``"collapsed"`` integrates the output layer out, which converges in a tenth of the
            steps and visits all rows at every step; ``"inducing"`` learns it, for minibatches;
            ``"auto"``: collapsed up to 10,000 rows.
        n_samples: posterior samples per training step; ``None``: the protocol's.
        n_predict_samples: posterior samples behind a prediction and behind ``elbo_``.
        max_iter: training steps; ``None``: the protocol's.
        learning_rate: initial step size of Adam; ``None``: the protocol's.
        batch_size: rows per step; ``"auto"``: the protocol's choice; ``None``: all.
        kl_anneal: steps over which the Kullback--Leibler term fades in; ``None``: the protocol's.
        protocol: ``"fast"``, ``"paper"`` or a :class:`deepwishart.training.Protocol`; the
            parameters above take precedence.
        dtype: ``"float64"`` or ``"float32"``.
        device: ``"auto"`` (a GPU if there is one), or the name of a PyTorch device.
        random_state: seed of initialisation, training and predictions.
        early_stopping: stop when the smoothed training ELBO has stopped rising.
        warm_start: let ``fit`` continue to train the present model, for ``max_iter`` more steps
            without annealing, on data of the same columns. The first fit's standardisation stays;
            the learning rate schedule starts again.
        checkpoint_dir: where to keep checkpoints; the same fit (data, parameters, integer
            ``random_state``) started again then resumes where it was cut off.
        verbose: 0 is silent; from 1 on, progress and remarks go to the terminal.
        jitter: relative jitter on kernel matrices; ``None``: the dtype's default.

    Attributes:
        model_: the trained :class:`deepwishart.DeepKernelProcess`, in standardised units.
        elbo_: evidence lower bound per data point of the trained model, in standardised units.
        history_: the course of training, a :class:`deepwishart.training.History`.
        n_iter_: steps taken in all.
        n_inducing_: inducing points used.
        n_features_in_, feature_names_in_: columns of ``X``.
        n_outputs_: columns of ``y``.
        seed_: seed derived from ``random_state``.

    >>> X = np.linspace(-3, 3, 40).reshape(-1, 1)
    >>> y = 50 + 10 * np.sin(X).ravel()
    >>> regressor = DeepKernelRegressor(max_iter=100, n_inducing=20, random_state=0).fit(X, y)
    >>> mean, std = regressor.predict(X, return_std=True)
    >>> bool(regressor.score(X, y) > 0.9), mean.shape, std.shape
    (True, (40,), (40,))
    """

    process: str = "dwp"
    depth: int = 2
    width: int | None = None
    n_inducing: int = 100
    kernel: str | Kernel = "squared_exponential"
    output: str = "auto"
    n_samples: int | None = None
    n_predict_samples: int = 100
    max_iter: int | None = None
    learning_rate: float | None = None
    batch_size: int | str | None = "auto"
    kl_anneal: int | None = None
    protocol: str | Protocol = "fast"
    dtype: str = "float64"
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None
    early_stopping: bool = False
    warm_start: bool = False
    checkpoint_dir: str | os.PathLike[str] | None = None
    verbose: int = 0
    jitter: float | None = None
    history_: History = field(init=False)
    seed_: int = field(init=False)
    _scaled: ScaledModel = field(init=False)

    @property
    def model_(self) -> DeepKernelProcess:
        """The trained model, in standardised units."""
        return self._scaled.model

    # ---- training ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> DeepKernelRegressor:
        """Standardise the data, build a model and train it; see ``warm_start`` to continue.

        Ctrl-C during training keeps the model of the last finished step and warns.

        Args:
            X: inputs ``(N, num_features)``, at least two rows.
            y: targets ``(N,)`` or ``(N, D)``.
        """
        checks.check_parameters(self.get_params(deep=False))
        continuing = bool(self.warm_start) and hasattr(self, "model_")
        inputs, targets = self._check_training_data(X, y, reset=not continuing)
        table = targets.reshape(len(targets), -1)
        if continuing:
            self._check_same_structure(targets)
            checks.check_distance(self._scaled.inputs.forward(inputs), self._names())
            self.model_.to(resolve_device(self.device))
            earlier, scaled = self.history_, self._scaled
        else:
            earlier, scaled = History(), self._start(inputs, table)
            self._single_column = targets.ndim == 1
        model, data = scaled.model, scaled.standardise(inputs, table)
        history = self._train(model, data, copy.deepcopy(earlier))
        self._scaled, self.history_, self.n_iter_ = scaled, history, len(history)
        if history.stopped_by == "interrupt":
            warnings.warn(
                f"Training was interrupted after {len(history)} steps; the model is as of the last "
                "step. Call fit with warm_start=True to continue.",
                stacklevel=2,
            )
        scaled.forget()
        generator = torch.Generator(model.device).manual_seed(self.seed_)
        samples = int(self.n_predict_samples)
        self.elbo_ = estimate_elbo(model, *data, num_samples=samples, generator=generator).mean
        return self

    def _start(self, inputs: np.ndarray, table: np.ndarray) -> ScaledModel:
        """Learn how to standardise the data, and build a new model from them."""
        if hasattr(self, "_scaled"):
            del self._scaled  # should training fail, no old model may answer for the new data
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows, size, output = len(inputs), self.batch_size, self.output
        if output == "auto" and not isinstance(size, str) and (size or rows) < rows:
            output = "inducing"
        options = model_options(self.protocol, rows, output)
        structure = {name: getattr(self, name) for name in STRUCTURE}
        self._fitted_structure = {**structure, "output": options.pop("output")}
        scaled = record.build_model(
            self._fitted_structure, inputs, table, self.seed_, self.device, **options
        )
        self.n_outputs_, self.n_inducing_ = table.shape[1], scaled.model.num_inducing
        if self.verbose and self.n_inducing_ < self.n_inducing:
            print(
                f"Using {self.n_inducing_} inducing points instead of "
                f"n_inducing={self.n_inducing}: X has no more distinct rows.",
                file=sys.stderr,
            )
        return scaled

    def _train(
        self, model: DeepKernelProcess, data: tuple[Tensor, Tensor], history: History
    ) -> History:
        """Train as the parameters say; a model that continues has annealed already."""
        kl_anneal = self.kl_anneal if self.kl_anneal is not None or not len(history) else 0
        protocol = adjust_protocol(
            self.protocol,
            len(data[0]),
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            kl_anneal=kl_anneal,
            num_samples=self.n_samples,
            output=self._fitted_structure["output"],
        )
        seed, store = self.seed_ + len(history), None
        if self.checkpoint_dir is not None:
            store = checkpoint_store(self.checkpoint_dir, model, *data, protocol, seed)
        with make_progress(int(self.verbose), protocol.max_iter, model.process) as progress:
            return run_training(
                model,
                *data,
                protocol,
                seed=seed,
                history=history,
                checkpoints=store,
                early_stopping=bool(self.early_stopping),
                progress=progress,
            )

    # ---- prediction -------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean, and with ``return_std`` the standard deviation, noise included.

        Returns:
            ``(N,)``, or ``(N, D)`` for targets that came as a table; a pair with ``return_std``.
        """
        mean, std = self.predict_distribution(X).mean_and_stddev()
        return (mean, std) if return_std else mean

    def predict_distribution(self, X: Any) -> RescaledPredictive:
        """The whole predictive distribution: ``mean``, ``stddev``, ``quantile``, ``cdf``,
        ``log_prob``, ``sample``, ``components``; :mod:`deepwishart.metrics` scores it."""
        check_is_fitted(self, "model_")
        checks.check_numeric(X)
        inputs = validate_data(self, X, **checks.NUMBERS, reset=False)
        checks.check_finite(inputs, self._names())
        checks.check_distance(self._scaled.inputs.forward(inputs), self._names())
        samples = int(self.n_predict_samples)
        return self._scaled.predict(inputs, samples, self.seed_, squeeze=self._single_column)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central interval of probability ``coverage``."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage!r}.")
        tail = 0.5 * (1.0 - coverage)
        lower, upper = self.predict_distribution(X).quantile([tail, 1.0 - tail])
        return lower, upper

    def predict_quantiles(self, X: Any, quantiles: float | Sequence[float]) -> np.ndarray:
        """Quantiles of every target.

        Returns:
            In the shape of ``predict``, with a last dimension K added for K ``quantiles``.
        """
        found = self.predict_distribution(X).quantile(quantiles)
        return np.moveaxis(found, 0, -1) if np.ndim(quantiles) else found

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
    ) -> np.ndarray:
        """Draws of the targets, each from one posterior sample for all rows, plus noise.

        Args:
            X: inputs.
            n_samples: number of draws.
            random_state: ``None`` repeats the same draws at every call; give a seed for others.

        Returns:
            ``(N, n_samples)``, or ``(N, D, n_samples)`` for targets that came as a table.
        """
        checks.check_count("n_samples", n_samples)
        distribution = self.predict_distribution(X)
        seed = self.seed_
        if random_state is not None:
            seed = int(check_random_state(random_state).randint(2**31 - 1))
        # The prediction itself has used up the stream of seed_, which noise must not repeat.
        generator = torch.Generator(self.model_.device).manual_seed(seed + 1)
        return np.moveaxis(distribution.sample(int(n_samples), generator), 0, -1)

    def log_prob(self, X: Any, y: Any) -> np.ndarray:
        """Log predictive density of each row's targets, in units of ``y``, ``(N,)``."""
        distribution = self.predict_distribution(X)
        return distribution.log_prob(checks.check_targets(y))

    # ---- disk -------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted regressor to a directory, see :mod:`deepwishart.persistence`."""
        check_is_fitted(self, "model_")
        write_model(path, *record.to_record(self))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, device: str | torch.device | None = None
    ) -> DeepKernelRegressor:
        """Read a regressor that :meth:`save` wrote; it predicts exactly what the saved one did.

        Args:
            path: the directory.
            device: where to put the model, instead of where the saved parameters say.
        """
        return record.from_record(cls, *read_model(path), device=device)

    # ---- data -------------------------------------------------------------------------------

    def _check_training_data(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        targets = checks.check_targets(y)
        checks.check_numeric(X)
        inputs = validate_data(self, X, **checks.NUMBERS, ensure_min_samples=2, reset=reset)
        checks.check_finite(inputs, checks.column_names(X))
        check_consistent_length(inputs, targets)
        return inputs, targets

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _check_same_structure(self, targets: np.ndarray) -> None:
        for name, fitted in self._fitted_structure.items():
            if name == "output" and self.output == "auto":
                continue
            if (now := getattr(self, name)) is not fitted and now != fitted:
                raise ValueError(
                    f"warm_start=True continues the present model, whose {name} is {fitted!r}; it "
                    f"cannot become {now!r}. Set warm_start=False to start a new model."
                )
        shape = (len(targets),) if self._single_column else (len(targets), self.n_outputs_)
        if targets.shape != shape:
            raise ValueError(
                f"warm_start=True continues a model of targets of shape {shape}, got "
                f"{targets.shape}. Set warm_start=False to start a new model."
            )
