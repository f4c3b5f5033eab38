"""Deep kernel processes as a scikit-learn regressor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from deepwishart._support.arguments import number
from deepwishart.estimators import checks
from deepwishart.estimators.base import DeepKernelEstimator
from deepwishart.estimators.evaluation import conformal_quantile
from deepwishart.estimators.scaled_model import RescaledPredictive
from deepwishart.kernels import Kernel
from deepwishart.likelihoods import Gaussian, Likelihood
from deepwishart.likelihoods.counts import CountLikelihood

_ROUNDING = 1e-9  # relative, of what a prediction says when asked again, in other company


@dataclass(eq=False, repr=False)
class DeepKernelRegressor(MultiOutputMixin, RegressorMixin, DeepKernelEstimator):
    r"""Regression with a deep kernel process, :math:`X \to K \to G_1 \to K \to \dots \to f \to y`,
    and a predictive distribution for every row.

    Inputs and targets of any magnitude are standardised inside; everything comes back in the units
    of the data. ``X`` is an array or a data frame (pandas, polars) of numbers, ``y`` one or several
    columns. After ``fit``, every answer is repeatable, and the answer for a row does not depend on
    the rows asked for with it. ``fit`` warns with scikit-learn's ``ConvergenceWarning`` where
    training ends while the bound still rises, and where the bound is below that of knowing nothing.

    Args:
        process: ``"dwp"`` (deep Wishart process), ``"dgp"`` (deep Gaussian process with the same
            prior), ``"dsvi"`` (doubly stochastic deep Gaussian process) or ``"diwp"`` (deep inverse
            Wishart process).
        depth: number of layers, the output layer included; 1 is a Gaussian process. ``"auto"``: one
            first, then more while the bound rises by more than its standard error, up to three; the
            best is kept (:func:`deepwishart.estimators.search_model`).
        width: degrees of freedom of the hidden layers; ``None``: the number of features.
        n_inducing: number of inducing points; at most as many as distinct rows are used.
            ``"auto"``: as many as pay (:func:`deepwishart.training.inducing_points`); a single
            layer has all rows up to 1,500.
        kernel: a name from :func:`deepwishart.kernels.names`, or a kernel to copy for every layer.
            ``"auto"``: of the squared exponential, Matérn 5/2 and 3/2 and the rational quadratic,
            the one with which a single layer has the highest evidence, on at most 1,000 rows where
            there are more than 1,500; the squared exponential where the output layer of such a
            layer is not integrated out, and with ``protocol="paper"``.
        ard: whether the first layer has a lengthscale for each input, or one for all. ``"auto"``:
            one for all where there are no more rows than columns, or fewer than ten; up to ten rows
            per column whichever gives a single collapsed layer the higher evidence; else one each.
        output: ``"collapsed"`` integrates the output layer out, which converges in a tenth of the
            steps and visits all rows at every step; ``"inducing"`` learns it, for minibatches;
            ``"exact"`` is the Gaussian process itself, for a single layer with all distinct rows as
            inducing points. ``"auto"``: exact where it can be, else collapsed up to 20,000 rows.
        posterior: family of a Wishart layer's posterior: ``"bartlett"`` (the paper's), ``"rows"``,
            ``"columns"`` or ``"rows_columns"`` (with a mixed Bartlett factor), or ``"anchored"``
            (features stay where they were observed); ``"auto"``: ``"anchored"`` with a collapsed
            output, ``"rows_columns"`` with another. Other processes have no such layers.
        n_samples: posterior samples per training step; ``None``: the protocol's.
        n_predict_samples: posterior samples behind a prediction and behind ``elbo_``.
        max_iter: training steps; ``None``: the protocol's. A single collapsed layer is trained by
            L-BFGS in 500 steps or fewer, unless ``protocol`` is an object.
        learning_rate: initial step size of Adam; ``None``: the protocol's.
        batch_size: rows per step; ``"auto"``: the protocol's choice; ``None``: all.
        kl_anneal: steps over which the Kullback--Leibler term fades in; ``None``: the protocol's.
        protocol: ``"fast"``, ``"paper"`` or a :class:`deepwishart.training.Protocol`; the
            parameters above take precedence.
        dtype: ``"float64"`` or ``"float32"``.
        device: ``"auto"`` (a GPU if there is one), or the name of a PyTorch device.
        random_state: seed of initialisation, training and predictions.
        early_stopping: let the learning rate fall, and training end, once the bound has stopped
            rising (:func:`deepwishart.training.train`).
        warm_start: let ``fit`` continue to train the present model, for ``max_iter`` more steps
            without annealing, on data of the same columns. The first fit's standardisation stays;
            the learning rate schedule starts again.
        checkpoint_dir: where to keep checkpoints; the same fit (data, parameters, integer
            ``random_state``) started again then resumes where it was cut off.
        verbose: 0 is silent; from 1 on, progress and remarks go to the terminal.
        jitter: relative jitter on kernel matrices; ``None``: the dtype's default.
        start: where the hidden layers of ``dwp`` and ``dgp`` start: at their ``"inputs"``, or close
            to the ``"prior"`` (:func:`deepwishart.build`).
        inputs: which layers see the inputs: the ``"first"``, as in the paper, or ``"all"``, beside
            the layer below them, which is another prior (:ref:`joined-inputs`); ``"auto"``: all,
            with a collapsed output, of ``dwp`` and ``dgp`` with stationary kernels by name and
            a lengthscale for each input.
        bound: ``"titsias2009"``, the paper's, or ``"tight"``, which is never below it for the same
            parameters (:ref:`collapsed-output`); ``"auto"``: tight, with a collapsed output. With
            ``protocol="paper"``, ``"auto"`` is the paper's choice of posterior, inputs and bound.
        likelihood: how targets scatter: ``"gaussian"`` (the same noise everywhere),
            ``"heteroscedastic"`` (noise that depends on the inputs), ``"student_t"`` (heavy tails),
            ``"heteroscedastic_t"`` (both), ``"poisson"`` or ``"negative_binomial"`` (counts, which
            are not standardised), or a :class:`deepwishart.likelihoods.Likelihood` to copy. All but
            the first need ``output="inducing"``, which ``"auto"`` chooses. ``"auto"``: with
            ``depth="auto"``, ``"gaussian"`` or ``"heteroscedastic_t"``, whichever gives a single
            layer the higher bound; ``"gaussian"`` with a given depth, with ``output="collapsed"``
            and with ``protocol="paper"``.
        exposure: for counts, the column of ``X`` (its name or number) with the time, area or
            population that was counted over; counts are proportional to it, and it is no input.

    Attributes:
        model_: the trained :class:`deepwishart.DeepKernelProcess`, in standardised units.
        spec_: what was made, a :class:`deepwishart.spec.ModelSpec`; its ``num_inducing`` is what
            was asked for, and ``n_inducing_`` what there is.
        elbo_: evidence lower bound per data point of the trained model, in standardised units.
        history_: the course of training, a :class:`deepwishart.training.History`; its ``tried`` has
            the models that were compared.
        n_iter_: steps taken in all.
        n_inducing_: inducing points used.
        n_features_in_, feature_names_in_: columns of ``X``.
        n_outputs_: columns of ``y``.
        seed_: seed derived from ``random_state``.
        conformity_scores_: after :meth:`calibrate`, :math:`|y - m| / s` of its rows, ``(n, D)``.

    >>> X = np.linspace(-3, 3, 40).reshape(-1, 1)
    >>> y = 50 + 10 * np.sin(X).ravel()
    >>> regressor = DeepKernelRegressor(max_iter=100, n_inducing=20, random_state=0).fit(X, y)
    >>> mean, std = regressor.predict(X, return_std=True)
    >>> bool(regressor.score(X, y) > 0.9), mean.shape, std.shape
    (True, (40,), (40,))
    """

    kernel: str | Kernel = "auto"
    posterior: str = "auto"
    inputs: str = "auto"
    bound: str = "auto"
    likelihood: str | Likelihood = "auto"
    exposure: str | int | None = None
    _exposure_column: int | None = field(init=False)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean, and with ``return_std`` the standard deviation, noise included.

        Returns:
            ``(N,)``, or ``(N, D)`` for targets that came as a table; a pair with ``return_std``.
        """
        mean, std = self.predict_distribution(X).mean_and_stddev()
        return (mean, std) if return_std else mean

    def predict_distribution(self, X: Any, *, prior: bool = False) -> RescaledPredictive:
        """The whole predictive distribution: ``mean``, ``stddev``, ``quantile``, ``cdf``,
        ``log_prob``, ``sample``, ``components``; :mod:`deepwishart.metrics` scores it. With
        ``prior``, what the model expects of rows before it has learned from any."""
        found = self._predict(X, prior)
        return RescaledPredictive(found, self._scaled.targets, 0 if self._single_column else None)

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, conformal: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Lower and upper end of an interval of probability ``coverage``.

        The model's own interval is the central one of its predictive distribution, and right as far
        as the model is. With ``conformal``, it is :math:`m \pm q s`, predictive mean and standard
        deviation with the factor :math:`q` that would have covered the rows given to
        :meth:`calibrate`. If those and the rows of ``X`` are exchangeable, the interval covers a
        new target with probability ``coverage`` or more, on average over rows, whatever the model
        is worth. Intervals of counts have whole numbers as ends, which belong to them.

        Args:
            X: inputs.
            coverage: the probability, for each column of the target.
            conformal: use the calibration rows.
        """
        coverage = number("coverage", coverage, high=1.0)
        distribution = self.predict_distribution(X)
        if conformal:
            check_is_fitted(
                self,
                "conformity_scores_",
                msg="Conformal intervals need rows that the model was not trained on: call "
                "calibrate(X, y) after fit.",
            )
            mean, std = distribution.mean_and_stddev()
            reach = conformal_quantile(self.conformity_scores_, coverage) * std
            reach += _ROUNDING * (np.abs(mean) + reach)  # the row that set it is at the very end
            lower, upper = mean - reach, mean + reach
            if distribution.discrete:
                lower, upper = np.ceil(lower).clip(min=0.0), np.floor(upper)
        else:
            tail = 0.5 * (1.0 - coverage)
            lower, upper = distribution.quantile([tail, 1.0 - tail])
        return lower, upper

    def calibrate(self, X: Any, y: Any) -> Self:
        r"""Keep how far rows that were *not* trained on are from their predictions, for
        ``predict_interval(..., conformal=True)``; a new ``fit`` forgets it.

        Args:
            X: inputs, a few hundred rows or more: with n rows, the coverage of the intervals
                varies around what was asked for by about :math:`\sqrt{c (1 - c) / n}`.
            y: their targets.
        """
        distribution = self.predict_distribution(X)
        targets = self._check_targets(y, reset=False)
        mean, std = distribution.mean_and_stddev()
        if targets.shape != mean.shape:
            raise ValueError(f"y must have shape {mean.shape}, got {targets.shape}.")
        self.conformity_scores_ = (np.abs(targets - mean) / std).reshape(len(mean), -1)
        return self

    def predict_quantiles(self, X: Any, quantiles: float | Sequence[float]) -> np.ndarray:
        """Quantiles of every target.

        Returns:
            In the shape of ``predict``, with a last dimension K added for K ``quantiles``.
        """
        found = self.predict_distribution(X).quantile(quantiles)
        return np.moveaxis(found, 0, -1) if np.ndim(quantiles) else found

    def log_prob(self, X: Any, y: Any) -> np.ndarray:
        """Log predictive density of each row's targets, in units of ``y``, ``(N,)``; the log
        probability of counts."""
        return self.predict_distribution(X).log_prob(self._check_targets(y, reset=False))

    # ---- targets ----------------------------------------------------------------------------

    def _check_targets(self, y: Any, reset: bool) -> np.ndarray:
        targets = checks.check_targets(y)
        if reset:
            checks.check_spread(targets, checks.column_names(y))
        if _counts(self.likelihood if reset else self.spec_.likelihood):
            checks.check_counts(targets, checks.column_names(y))
        return targets

    def _likelihoods(self) -> list[str | Likelihood]:
        given = self.likelihood
        if isinstance(given, Likelihood) and given.num_outputs != self.n_outputs_:
            raise ValueError(
                f"y has {self.n_outputs_} columns, but {type(given).__name__} is for "
                f"{given.num_outputs}: set its num_outputs."
            )
        if given != "auto":
            return [given]
        fixed = self.output in ("collapsed", "exact") or self.protocol == "paper"
        return ["gaussian"] if fixed else ["gaussian", "heteroscedastic_t"]

    def _likelihood_options(self) -> dict[str, Any]:
        return {} if self._exposure_column is None else {"exposure": True}

    def _separate_exposures(
        self, inputs: np.ndarray, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if reset:
            self._exposure_column = self._find_exposure()
        column = self._exposure_column
        if column is None:
            return inputs, None
        exposures = inputs[:, [column]]
        if not (exposures > 0).all():
            row = int((exposures <= 0).argmax())
            raise ValueError(
                f"Exposures must be positive, but row {row} has {exposures[row, 0]:g}. Drop rows "
                "over which nothing was counted."
            )
        inputs = inputs.copy()
        inputs[:, column] = 0.0  # a constant, of which the model makes nothing
        return inputs, np.log(exposures)

    def _find_exposure(self) -> int | None:
        """The number of the exposure's column."""
        # An object says whether it takes exposures; counts by name do.
        takes = getattr(self.likelihood, "exposure", _counts(self.likelihood))
        place, names = self.exposure, self._names() or []
        if place is None and takes and not isinstance(self.likelihood, str):
            raise ValueError("The likelihood has exposure=True: say in which column it is.")
        if place is None:
            return None
        if not takes:
            raise ValueError(
                f"exposure={place!r} is for counts: use it with likelihood='poisson' or "
                "'negative_binomial', or with one of these objects that has exposure=True."
            )
        place = names.index(place) if isinstance(place, str) and place in names else place
        if isinstance(place, str) or not 0 <= place < self.n_features_in_:
            raise ValueError(
                f"exposure={place!r} is no column of X, which has {self.n_features_in_}"
                f"{': ' + ', '.join(names[:10]) if names else ' without names'}."
            )
        return int(place)


def _counts(likelihood: str | Likelihood) -> bool:
    """Whether targets are counts; where the likelihood is yet to be chosen, they are not."""
    if isinstance(likelihood, str):
        return issubclass(checks.LIKELIHOODS.get(likelihood, Gaussian), CountLikelihood)
    return isinstance(likelihood, CountLikelihood)
