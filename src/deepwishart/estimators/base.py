"""What the scikit-learn estimators share: their parameters, training, posterior samples, files."""

from __future__ import annotations

import copy
import math
import os
import sys
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from deepwishart._support.arguments import whole_number
from deepwishart._support.machine import resolve_device
from deepwishart.estimators import checks, record
from deepwishart.estimators.evaluation import estimate_elbo
from deepwishart.estimators.relevance import relevance
from deepwishart.estimators.scaled_model import ScaledModel
from deepwishart.estimators.schema import STRUCTURE
from deepwishart.estimators.search import Candidate, Fitted, inducing_points, search_model
from deepwishart.kernels import Kernel
from deepwishart.likelihoods import Gaussian, Likelihood
from deepwishart.model import DeepKernelProcess
from deepwishart.persistence import read_model, write_model
from deepwishart.predict import Predictive
from deepwishart.training import (
    History,
    Protocol,
    adjust_protocol,
    checkpoint_store,
    make_progress,
    model_options,
    run_training,
    still_rising,
)

_BELOW_NOTHING = 0.05  # per row; so much below the bound of knowing nothing is a failure


@dataclass(eq=False, repr=False)  # an __init__ that stores parameters; the rest is scikit-learn's
class DeepKernelEstimator(BaseEstimator, ABC):
    """A deep kernel process behind scikit-learn's ``fit``, with the parameters and the fitted
    attributes that :class:`~deepwishart.estimators.DeepKernelRegressor` describes.

    >>> from deepwishart.estimators import DeepKernelRegressor
    >>> issubclass(DeepKernelRegressor, DeepKernelEstimator)
    True
    """

    process: str = "dwp"
    depth: int | str = "auto"
    width: int | None = None
    n_inducing: int | str = "auto"
    kernel: str | Kernel = "squared_exponential"
    ard: bool = True
    output: str = "auto"
    posterior: str = "bartlett"
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
    early_stopping: bool = True
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

    # ---- what estimators differ in ----------------------------------------------------------

    @abstractmethod
    def predict_distribution(self, X: Any) -> Any:
        """The whole predictive distribution at ``X``."""

    @abstractmethod
    def _check_targets(self, y: Any, reset: bool) -> np.ndarray:
        """Targets as numbers, ``(N,)`` or ``(N, D)``; with ``reset``, learn what they are like."""

    def _set_apart(
        self, inputs: np.ndarray, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Inputs, and what of them is for the likelihood: ``(N, 1)``, added to latents."""
        return inputs, None

    @abstractmethod
    def _make_likelihood(self) -> Likelihood:
        """How ``n_outputs_`` targets arise. Asked for a new model and for a saved one, after what
        is known of its targets has been read."""

    def _likelihoods(self) -> list[Likelihood]:
        """Those among which the bound decides, where it decides the depth as well."""
        return [self._make_likelihood()]

    def _describe_targets(self) -> dict[str, Any]:
        """What a saved model has to know of its targets, as plain data."""
        return {}

    def _recall_targets(self, config: dict[str, Any]) -> None:
        """Take up what :meth:`_describe_targets` said; ``require`` what a stranger may have
        written."""

    # ---- training ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Standardise the data, build a model and train it; see ``warm_start`` to continue.

        Ctrl-C during training keeps the model of the last finished step and warns.

        Args:
            X: inputs ``(N, num_features)``, at least two rows.
            y: targets ``(N,)`` or ``(N, D)``.
        """
        checks.check_parameters(self.get_params(deep=False))
        self.__dict__.pop("conformity_scores_", None)  # a regressor's, about the model before
        continuing = bool(self.warm_start) and hasattr(self, "model_")
        targets = self._check_targets(y, reset=not continuing)
        inputs = self._check_inputs(X, reset=not continuing, ensure_min_samples=2)
        check_consistent_length(inputs, targets)
        inputs, extra = self._set_apart(inputs, reset=not continuing)
        table = targets.reshape(len(targets), -1)
        if continuing:
            self._check_same_structure(targets)
            checks.check_distance(self._scaled.inputs.forward(inputs), self._names())
            self.model_.to(resolve_device(self.device))
            earlier = len(self.history_)
            data = self._scaled.standardise(inputs, table, extra)
            fitted = self._train(self._scaled, data, copy.deepcopy(self.history_))
        else:
            earlier, fitted = 0, self._fit_anew(inputs, table, extra)
            self._single_column = targets.ndim == 1
        self._scaled, self.history_, self.elbo_ = *fitted[:2], fitted.bound.mean
        self.n_iter_, self.n_inducing_ = len(self.history_), self.model_.num_inducing
        asked = self.n_inducing_ if isinstance(self.n_inducing, str) else self.n_inducing
        output = "collapsed" if self.model_.output.needs_rows else "inducing"
        chosen = {"depth": self.model_.depth, "n_inducing": asked, "output": output}
        self._fitted_structure |= chosen
        self._scaled.forget()
        self._remark(earlier)
        return self

    def _fit_anew(self, inputs: np.ndarray, table: np.ndarray, extra: np.ndarray | None) -> Fitted:
        """Learn how to standardise the data, build models from them and train the one to keep."""
        if hasattr(self, "_scaled"):
            del self._scaled  # should training fail, no old model may answer for the new data
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_outputs_ = table.shape[1]
        data = inputs, table, extra
        if not isinstance(self.depth, str):
            only = self._candidate(self._make_likelihood(), *data)
            return only.fit(int(self.depth), only.shallow if self.depth == 1 else only.deep)
        return search_model([self._candidate(each, *data) for each in self._likelihoods()])

    def _candidate(
        self,
        likelihood: Likelihood,
        inputs: np.ndarray,
        table: np.ndarray,
        extra: np.ndarray | None,
    ) -> Candidate:
        """How models with a likelihood are trained, with how many inducing points."""
        rows, size, output = len(inputs), self.batch_size, self.output
        parts = not isinstance(size, str) and (size or rows) < rows
        if output == "auto" and (parts or not isinstance(likelihood, Gaussian)):
            output = "inducing"
        options = model_options(self.protocol, rows, output)
        output = options.pop("output")
        options |= {"likelihood": likelihood, "seed": self.seed_, "device": self.device}
        options["extra"] = extra
        structure = {name: getattr(self, name) for name in STRUCTURE}
        if self.posterior == "auto":
            mixed = self.process == "dwp" and self.protocol != "paper"
            structure["posterior"] = "rows_columns" if mixed else "bartlett"

        def fit(depth: int, points: int) -> Fitted:
            chosen = {"depth": depth, "n_inducing": points, "output": output}
            self._fitted_structure = {**structure, **chosen}
            scaled = record.build_model(self._fitted_structure, inputs, table, **options)
            return self._train(scaled, scaled.standardise(inputs, table, extra), History())

        def points(depth: int) -> int:
            if not isinstance(self.n_inducing, str):
                return int(self.n_inducing)
            return inducing_points(rows, depth, output == "collapsed")

        return Candidate(fit, points(1), points(2))

    def _remark(self, earlier: int) -> None:
        """Say what the user should know about the training of a model with ``earlier`` steps."""
        history, bound = self.history_, self.elbo_
        if history.stopped_by == "interrupt":
            warnings.warn(
                f"Training was interrupted after {len(history)} steps; the model is as of the last "
                "step. Call fit with warm_start=True to continue.",
                stacklevel=3,
            )
            return
        gain = still_rising(history, earlier)
        if gain is not None:
            warnings.warn(
                f"Training ended after {len(history) - earlier} steps while the bound was rising: "
                f"as many again would add about {gain:.2g} per row. Increase max_iter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        nothing = -0.5 * (math.log(2.0 * math.pi) + 1.0) * self.n_outputs_
        if isinstance(self.model_.likelihood, Gaussian) and bound < nothing - _BELOW_NOTHING:
            warnings.warn(
                f"The bound, {bound:.2f} per row, is below {nothing:.2f}, that of a model which "
                "knows no more than mean and spread of y: training has failed, or was too short. "
                "Use depth='auto' or depth=1, increase max_iter, and look for outliers in X and y.",
                stacklevel=3,
            )
        asked = self.n_inducing
        if self.verbose and not isinstance(asked, str) and self.n_inducing_ < asked:
            print(
                f"Using {self.n_inducing_} inducing points instead of "
                f"n_inducing={asked}: X has no more distinct rows.",
                file=sys.stderr,
            )

    def _train(self, scaled: ScaledModel, data: tuple[Tensor, Tensor], history: History) -> Fitted:
        """Train as the parameters say; a model that continues has annealed already."""
        model = scaled.model
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
            num_inducing=model.num_inducing,
        )
        seed, store = self.seed_ + len(history), None
        if self.checkpoint_dir is not None:
            store = checkpoint_store(self.checkpoint_dir, model, *data, protocol, seed)
        label = f"{model.process}, depth {model.depth}"
        with make_progress(int(self.verbose), protocol.max_iter, label) as progress:
            history = run_training(
                model,
                *data,
                protocol,
                seed=seed,
                history=history,
                checkpoints=store,
                early_stopping=bool(self.early_stopping),
                deterministic=isinstance(self.protocol, str),
                progress=progress,
            )
        generator = torch.Generator(model.device).manual_seed(self.seed_)
        samples = int(self.n_predict_samples)
        bound = estimate_elbo(model, *data, num_samples=samples, generator=generator)
        return Fitted(scaled, history, bound)

    # ---- prediction -------------------------------------------------------------------------

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> np.ndarray:
        """Draws of the targets, each from one posterior sample for all rows, plus noise.

        Args:
            X: inputs.
            n_samples: number of draws.
            random_state: ``None`` repeats the same draws at every call; give a seed for others.

        Returns:
            ``(N, n_samples)``, or ``(N, D, n_samples)`` for targets that came as a table.
        """
        whole_number("n_samples", n_samples)
        distribution = self.predict_distribution(X)
        seed = self.seed_
        if random_state is not None:
            seed = int(check_random_state(random_state).randint(2**31 - 1))
        # The prediction itself has used up the stream of seed_, which noise must not repeat.
        generator = torch.Generator(self.model_.device).manual_seed(seed + 1)
        return np.moveaxis(distribution.sample(int(n_samples), generator), 0, -1)

    relevance = relevance  # a method with a file of its own

    def _predict(self, X: Any) -> Predictive:
        """The predictive distribution in standardised units."""
        check_is_fitted(self, "model_")
        inputs, offset = self._set_apart(self._check_inputs(X, reset=False))
        checks.check_distance(self._scaled.inputs.forward(inputs), self._names())
        return self._scaled.standardised(inputs, int(self.n_predict_samples), self.seed_, offset)

    # ---- disk -------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a directory, see :mod:`deepwishart.persistence`."""
        check_is_fitted(self, "model_")
        write_model(path, *record.to_record(self))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, device: str | torch.device | None = None
    ) -> Self:
        """Read an estimator that :meth:`save` wrote; it predicts exactly what the saved one did.

        Args:
            path: the directory.
            device: where to put the model, instead of where the saved parameters say.
        """
        return record.from_record(cls, *read_model(path, record.check_record), device=device)

    # ---- data -------------------------------------------------------------------------------

    def _check_inputs(self, X: Any, **options: Any) -> np.ndarray:
        X = checks.check_numeric(X)
        inputs = validate_data(self, X, **checks.NUMBERS, **options)
        checks.check_finite(inputs, self._names() or checks.column_names(X))
        return inputs

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _check_same_structure(self, targets: np.ndarray) -> None:
        structure = dict(self._fitted_structure)
        if hasattr(self, "_fitted_likelihood"):  # a regressor's
            structure["likelihood"] = self._fitted_likelihood
        for name, fitted in structure.items():
            now = getattr(self, name)
            if not (isinstance(now, str) and now == "auto") and now is not fitted and now != fitted:
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
