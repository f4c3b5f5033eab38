"""What the scikit-learn estimators share: parameters, the model they ask for, training, files."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import os
import warnings
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from deepwishart._support.arguments import resolve_device
from deepwishart.estimators import checks, few_rows, record
from deepwishart.estimators.evaluation import estimate_elbo
from deepwishart.estimators.relevance import relevance
from deepwishart.estimators.scaled_model import ScaledModel
from deepwishart.estimators.search import DEEPEST, KERNELS, Fitted, search_model, start_near
from deepwishart.kernels import Kernel, Stationary
from deepwishart.kernels import make as make_kernel
from deepwishart.layers import ExactOutputLayer
from deepwishart.likelihoods import Gaussian, Likelihood
from deepwishart.model import DeepKernelProcess
from deepwishart.persistence import read_model, write_model
from deepwishart.predict import Predictive
from deepwishart.spec import ModelSpec
from deepwishart.start import hold_rows
from deepwishart.training import (
    ALL_ROWS,
    History,
    Protocol,
    adjust_protocol,
    checkpoint_store,
    inducing_points,
    make_progress,
    model_options,
    run_training,
    still_rising,
)

_BELOW_NOTHING = 0.05  # per row; so much below the bound of knowing nothing is a failure
_FAR = 100.0  # in standard deviations
_FEW = 10  # rows say next to nothing about lengthscales and noise if they are fewer
_KERNEL_ROWS = 1_000  # of more rows, so many choose the kernel
_ROWS_PER_LENGTHSCALE = 10  # of fewer, one lengthscale may say more than many
# Inputs (N, num_features), targets (N, D), and log exposures (N, 1) of counts.
Data = tuple[np.ndarray, np.ndarray, np.ndarray | None]


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
    ard: bool | str = "auto"
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
    start: str = "inputs"
    inputs: str = "first"
    bound: str = "titsias2009"
    spec_: ModelSpec = field(init=False)
    history_: History = field(init=False)
    seed_: int = field(init=False)
    _scaled: ScaledModel = field(init=False)

    @property
    def model_(self) -> DeepKernelProcess:
        """The trained model, in standardised units."""
        return self._scaled.model

    # ---- what estimators differ in ----------------------------------------------------------

    @abstractmethod
    def predict_distribution(self, X: Any, *, prior: bool = False) -> Any:
        """The whole predictive distribution at ``X``; with ``prior``, what the model expects of
        rows before it has learned from any."""

    @abstractmethod
    def _check_targets(self, y: Any, reset: bool) -> np.ndarray:
        """Targets as numbers, ``(N,)`` or ``(N, D)``; with ``reset``, learn what they are like."""

    @abstractmethod
    def _likelihoods(self) -> list[str | Likelihood]:
        """How ``n_outputs_`` targets may scatter: where the bound decides the depth, it decides
        among these as well; otherwise the first is it."""

    def _likelihood_options(self) -> dict[str, Any]:
        """Arguments of a likelihood by name."""
        return {}

    def _separate_exposures(
        self, inputs: np.ndarray, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Inputs, and the log exposures of counts, ``(N, 1)``, if a column of the inputs has
        them; with ``reset``, learn which."""
        return inputs, None

    # ---- training ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Standardise the data, build a model and train it; see ``warm_start`` to continue.

        Ctrl-C during training keeps the model of the last finished step and warns.

        Args:
            X: inputs ``(N, num_features)``, at least two rows.
            y: targets ``(N,)`` or ``(N, D)``.
        """
        checks.check_parameters(self.get_params(deep=False))
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None.")
        self.__dict__.pop("conformity_scores_", None)  # a regressor's, about the model before
        continuing = bool(self.warm_start) and hasattr(self, "model_")
        targets = self._check_targets(y, reset=not continuing)
        inputs = self._check_inputs(X, reset=not continuing, ensure_min_samples=2)
        check_consistent_length(inputs, targets)
        inputs, log_exposures = self._separate_exposures(inputs, reset=not continuing)
        data = inputs, targets.reshape(len(targets), -1), log_exposures
        earlier = len(self.history_) if continuing else 0
        if continuing:
            self._check_same_model(targets)
            checks.check_distance(self._scaled.inputs.forward(inputs), self._names())
            self.model_.to(resolve_device(self.device))
            fitted = self._train(self._scaled, data, copy.deepcopy(self.history_))
        else:
            fitted = self._fit_anew(data)
            self._single_column = targets.ndim == 1
        self._scaled, self.history_, self.elbo_ = *fitted[:2], fitted.bound.mean
        self.n_iter_, self.n_inducing_ = len(self.history_), self.model_.num_inducing
        asked = self.n_inducing_ if isinstance(self.n_inducing, str) else int(self.n_inducing)
        self.spec_ = cast(ModelSpec, self.model_.spec).replace(num_inducing=asked)
        self._scaled.forget()
        if not continuing:
            self._warn_about_few_rows(len(inputs))
            self._warn_about_outliers(data[1])
        self._warn_about_training(earlier)
        return self

    def _fit_anew(self, data: Data) -> Fitted:
        """Train a new model of the depth that was given, or the best of several depths."""
        if hasattr(self, "_scaled"):
            del self._scaled  # should training fail, no old model may answer for the new data
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_outputs_ = data[1].shape[1]
        rows = len(data[0])
        likelihoods, deepest = self._likelihoods(), DEEPEST if isinstance(self.depth, str) else 1
        if deepest == 1 or _few(rows, self.n_features_in_):
            likelihoods, deepest = likelihoods[:1], 1
        choices = {**self._single_choices(rows, likelihoods[0]), "likelihood": likelihoods}
        if not isinstance(self.depth, str) and max(map(len, choices.values())) == 1:
            only = {name: options[0] for name, options in choices.items()}
            return self._train_new(data, self._make_spec(rows, self.depth, **only))
        tried: list[dict[str, Any]] = []
        if len(choices["kernel"]) > 1 and rows > ALL_ROWS:
            chosen = np.random.RandomState(self.seed_).permutation(rows)[:_KERNEL_ROWS]
            some = tuple(None if each is None else each[chosen] for each in data)
            found = self._search(cast(Data, some), {**choices, "likelihood": likelihoods[:1]}, 1)
            tried, spec = found.history.tried, cast(ModelSpec, found.scaled.model.spec)
            choices |= {"ard": [spec.ard], "kernel": [spec.kernel]}
        best = self._search(data, choices, deepest)
        best.history.tried[:0] = tried
        return best

    def _single_choices(self, rows: int, likelihood: str | Likelihood) -> dict[str, list[Any]]:
        """Lengthscales and kernels for a single layer: several where L-BFGS finds the evidence of
        each. As many lengthscales as columns are fitted to many more rows only."""
        ards, kernels, columns = [self.ard], [self.kernel], self.n_features_in_
        search = isinstance(self.protocol, str) and self.protocol != "paper"
        search = search and (isinstance(self.depth, str) or self.depth == 1)
        if search:
            spec = self._make_spec(rows, 1, KERNELS[0], likelihood, ard=True)
            search = spec.output != "inducing"
        if self.ard == "auto":
            alone = _few(rows, columns) and self.protocol != "paper"
            both = search and rows < _ROWS_PER_LENGTHSCALE * columns
            ards = [False] if alone else [False, True] if both else [True]
            ards = ards if columns > 1 else [True]
        if self.kernel == "auto":
            kernels = list(KERNELS if search and rows >= _FEW else KERNELS[:1])
        return {"ard": ards, "kernel": kernels}

    def _search(self, data: Data, choices: dict[str, list[Any]], deepest: int) -> Fitted:
        make = functools.partial(self._make_spec, len(data[0]))
        train = functools.partial(self._train_new, data)
        return search_model(make, train, choices, len(data[0]), deepest)

    def _make_spec(
        self, rows: int, depth: int, kernel: str | Kernel, likelihood: str | Likelihood, ard: bool
    ) -> ModelSpec:
        """The model that the parameters ask for, of data with so many rows; a kernel that was
        chosen by single layers is theirs."""
        size, output, paper = self.batch_size, self.output, self.protocol == "paper"
        minibatches = not isinstance(size, str) and (size or rows) < rows
        gaussian = likelihood == "gaussian" or isinstance(likelihood, Gaussian)
        if output == "auto" and (minibatches or not gaussian):
            output = "inducing"
        chosen = model_options(self.protocol, rows, output)
        points = self.n_inducing
        if isinstance(points, str):
            points = inducing_points(rows, depth, chosen["output"] != "inducing")
        if depth > 1 and self.kernel == "auto":
            kernel = KERNELS[0]
        dwp, collapsed = self.process == "dwp", chosen["output"] != "inducing"
        if self.output == "auto" and collapsed and not paper and depth == 1 and points >= rows:
            chosen["output"] = "collapsed" if self.process == "dsvi" else "exact"
        auto = {"posterior": "bartlett", "inputs": "first", "bound": "titsias2009"}
        if dwp and depth > 1 and not paper:
            auto["posterior"] = "anchored" if collapsed else "rows_columns"
        if collapsed and not paper:
            auto["bound"] = "tight"
            joins = isinstance(kernel, str) and isinstance(make_kernel(kernel), Stationary)
            if joins and depth > 1 and ard and self.process in ("dwp", "dgp"):
                auto["inputs"] = "all"
        chosen |= {name: each for name, each in auto.items() if getattr(self, name) == "auto"}
        chosen |= {"depth": depth, "num_inducing": points}
        chosen |= {"kernel": kernel, "likelihood": likelihood, "ard": bool(ard)}
        if isinstance(likelihood, str):
            chosen["likelihood_options"] = self._likelihood_options()
        fields = {each.name for each in dataclasses.fields(ModelSpec)}
        given = {k: v for k, v in self.get_params(deep=False).items() if k in fields}
        sizes = {"num_features": self.n_features_in_, "num_outputs": self.n_outputs_}
        return ModelSpec(**{**given, **chosen, **sizes})

    def _train_new(self, data: Data, spec: ModelSpec, near: Fitted | None = None) -> Fitted:
        options: dict[str, Any] = {"seed": self.seed_, "start": self.start}
        scaled = ScaledModel.build(spec, *data, device=resolve_device(self.device), **options)
        if near is not None:
            start_near(scaled.model, near.scaled.model, *scaled.standardise(*data))
        return self._train(scaled, data)

    def _train(self, scaled: ScaledModel, data: Data, history: History | None = None) -> Fitted:
        """Train as the parameters say; a model that continues, with a history, has annealed."""
        model, rows = scaled.model, scaled.standardise(*data)
        if history is not None and isinstance(model.output, ExactOutputLayer):
            hold_rows(model, rows[0])
        earlier = 0 if history is None else len(history)
        protocol = adjust_protocol(
            self.protocol,
            len(rows[0]),
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            kl_anneal=0 if self.kl_anneal is None and earlier else self.kl_anneal,
            num_samples=self.n_samples,
            output="collapsed" if model.output.needs_rows else "inducing",
            num_inducing=model.num_inducing,
        )
        seed, store = self.seed_ + earlier, None
        if self.checkpoint_dir is not None:
            store = checkpoint_store(self.checkpoint_dir, model, *rows, protocol, seed)
        label = f"{model.process}, depth {model.depth}"
        few = model.depth == 1 and _few(*rows[0].shape) and few_rows.applies(model)
        bar = make_progress(int(self.verbose), protocol.max_iter, label) if self.verbose else None
        with bar or nullcontext() as progress:
            history = run_training(
                model,
                *rows,
                protocol,
                seed=seed,
                history=history,
                checkpoints=store,
                early_stopping=bool(self.early_stopping),
                deterministic=isinstance(self.protocol, str),
                progress=progress,
                log_prior=few_rows.log_prior if few else None,
            )
        if few:
            few_rows.widen(model, len(rows[0]))
        generator = torch.Generator(model.device).manual_seed(self.seed_)
        samples = int(self.n_predict_samples)
        bound = estimate_elbo(model, *rows, num_samples=samples, generator=generator)
        return Fitted(scaled, history, bound)

    def _warn_about_few_rows(self, rows: int) -> None:
        if rows < _FEW and self.model_.likelihood.location_scale:
            warnings.warn(
                f"{rows} rows cannot tell how fast the function varies, nor how much of y is "
                "noise: predictions say more about what was assumed than about the data. Intervals "
                f"of a single layer are widened for it. Add rows: from {_FEW} on both are "
                "learned from the data alone.",
                stacklevel=3,
            )

    def _warn_about_outliers(self, targets: np.ndarray) -> None:
        """Name the rows whose targets are far from all others."""
        rows = np.flatnonzero((np.abs(self._scaled.targets.forward(targets)) > _FAR).any(1))
        if len(rows) and self.model_.likelihood.location_scale:
            shown = ", ".join(str(row) for row in rows[:5]) + (", ..." if len(rows) > 5 else "")
            warnings.warn(
                f"y is more than {_FAR:g} times the usual spread away from the other rows in "
                f"{len(rows)} of {len(targets)} rows (counted from 0: {shown}). Correct or drop "
                "them if they are mistakes. Constant Gaussian noise cannot explain such rows and "
                "bends all predictions; likelihood='heteroscedastic_t' and 'student_t' can.",
                stacklevel=3,
            )

    def _warn_about_training(self, earlier: int) -> None:
        """Say what the user should know of training that went on from ``earlier`` steps."""
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
        distribution = self.predict_distribution(X)
        seed = self.seed_
        if random_state is not None:
            seed = int(check_random_state(random_state).randint(2**31 - 1))
        # The prediction itself has used up the stream of seed_, which noise must not repeat.
        generator = torch.Generator(self.model_.device).manual_seed(seed + 1)
        return np.moveaxis(distribution.sample(n_samples, generator), 0, -1)

    relevance = relevance  # a method with a file of its own

    def _predict(self, X: Any, prior: bool) -> Predictive:
        """The predictive distribution in standardised units."""
        check_is_fitted(self, "model_")
        inputs, offset = self._separate_exposures(self._check_inputs(X, reset=False))
        checks.check_distance(self._scaled.inputs.forward(inputs), self._names())
        samples = int(self.n_predict_samples)
        return self._scaled.standardised(inputs, samples, self.seed_, offset, prior)

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

    def _check_same_model(self, targets: np.ndarray) -> None:
        for each in dataclasses.fields(ModelSpec):
            name = "n_inducing" if each.name == "num_inducing" else each.name
            now, fitted = getattr(self, name, "auto"), getattr(self.spec_, each.name)
            free = isinstance(now, str) and now == "auto"  # or no parameter
            if not free and now is not fitted and now != fitted:
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


def _few(rows: int, columns: int) -> bool:
    """Whether rows are too few to choose by their evidence alone."""
    return rows < _FEW or rows <= columns
