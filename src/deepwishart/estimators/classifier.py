"""Deep kernel processes as a scikit-learn classifier, and its predictions of labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from deepwishart.estimators.base import DeepKernelEstimator
from deepwishart.likelihoods import Likelihood
from deepwishart.predict import Predictive


class ClassPredictive:
    r"""A :class:`deepwishart.Predictive` over classes, with their labels:

    .. math:: p(y = c) = \frac1S \sum_s \int p(c \mid f)\, \mathcal N(f; m_s, v_s)\, df.

    Args:
        predictive: prediction of numbers of classes.
        classes: labels in the order of those numbers, ``(C,)``.

    Attributes:
        log_probs: log probability of every class, ``(N, C)``.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    >>> likelihood = dw.likelihoods.Bernoulli()
    >>> model = dw.build("dwp", X, (X > 0).double(), num_inducing=4, likelihood=likelihood)
    >>> prediction = ClassPredictive(model.predict(X, num_samples=5), np.array(["no", "yes"]))
    >>> prediction.probs.shape, str(prediction.mode[-1]), prediction.sample(3).shape
    ((8, 2), 'yes', (3, 8))
    """

    def __init__(self, predictive: Predictive, classes: np.ndarray) -> None:
        self.numbered, self.classes = predictive, classes
        log_probs = predictive.log_probs.cpu().numpy().astype(np.float64)
        # Rounding, in single precision above all, leaves sums that are not quite one.
        self.log_probs = log_probs - np.logaddexp.reduce(log_probs, axis=1, keepdims=True)

    @property
    def probs(self) -> np.ndarray:
        """Probability of every class, ``(N, C)``."""
        return np.exp(self.log_probs)

    @property
    def mode(self) -> np.ndarray:
        """The most probable label of every row, ``(N,)``."""
        return self.classes[self.log_probs.argmax(1)]

    def log_prob(self, y: Any) -> np.ndarray:
        """Log probability of each row's label, ``(N,)``."""
        labels = np.asarray(y)
        rows = len(self.log_probs)
        if labels.shape != (rows,):
            raise ValueError(f"y must be {rows} labels, got shape {labels.shape}.")
        return self.log_probs[np.arange(rows), number_classes(labels, self.classes)]

    def sample(self, num_samples: int = 1, generator: torch.Generator | None = None) -> np.ndarray:
        """Draws of the labels, ``(num_samples, N)``; each picks one posterior sample for all
        rows."""
        return self.classes[self.numbered.sample(num_samples, generator).long().cpu().numpy()]


def number_classes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """For each label its place in ``classes``, which are sorted; others are refused.

    >>> number_classes(np.array(["yes", "no", "yes"]), np.array(["no", "yes"]))
    array([1, 0, 1])
    """
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    other = classes[places] != labels
    if other.any():
        raise ValueError(
            f"y holds {labels[other].tolist()[0]!r}, which is none of the {len(classes)} classes: "
            f"{', '.join(map(repr, classes[:5].tolist()))}{', ...' if len(classes) > 5 else ''}."
        )
    return places


@dataclass(eq=False, repr=False)
class DeepKernelClassifier(ClassifierMixin, DeepKernelEstimator):
    r"""Classification with a deep kernel process, :math:`X \to K \to G_1 \to K \to \dots \to f \to
    y`, and a probability for every class.

    Two classes have one latent function and the probit link
    (:class:`deepwishart.likelihoods.Bernoulli`), more have one for each and the softmax
    (:class:`deepwishart.likelihoods.Categorical`). Labels are numbers, truth values or text.

    Args:
        class_weight: how much rows of each class count in training: ``None`` (all the same), a
            dictionary from labels to weights, or ``"balanced"`` (every class as a whole the same).

    The other parameters and attributes are those of
    :class:`~deepwishart.estimators.DeepKernelRegressor`, and besides

    Attributes:
        classes_: the labels, sorted.

    >>> X = np.linspace(-3, 3, 40).reshape(-1, 1)
    >>> y = np.where(np.abs(X).ravel() < 1, "inside", "outside")
    >>> classifier = DeepKernelClassifier(max_iter=100, n_inducing=20, random_state=0).fit(X, y)
    >>> [str(label) for label in classifier.predict([[0.0], [2.5]])]
    ['inside', 'outside']
    >>> classifier.predict_proba(X).shape
    (40, 2)
    """

    depth: int | str = 2
    ard: bool | str = False
    n_samples: int | None = 3
    max_iter: int | None = 500
    class_weight: Mapping[Any, float] | str | None = None
    classes_: np.ndarray = field(init=False)
    _weights: list[float] = field(init=False)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every row, ``(N,)``."""
        return self.predict_distribution(X).mode

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of every class in the order of ``classes_``, ``(N, C)``."""
        return self.predict_distribution(X).probs

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log probability of every class, ``(N, C)``; finite where a probability rounds to 0."""
        return self.predict_distribution(X).log_probs

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of the second of two classes, ``(N,)``; log probabilities of several,
        ``(N, C)``."""
        log_probs = self.predict_distribution(X).log_probs
        return log_probs[:, 1] - log_probs[:, 0] if len(self.classes_) == 2 else log_probs

    def predict_distribution(self, X: Any, *, prior: bool = False) -> ClassPredictive:
        """The whole predictive distribution: ``probs``, ``log_probs``, ``mode``, ``log_prob``,
        ``sample``. With ``prior``, what the model expects of rows before it has learned any."""
        return ClassPredictive(self._predict(X, prior), self.classes_)

    def log_prob(self, X: Any, y: Any) -> np.ndarray:
        """Log predictive probability of each row's label, ``(N,)``."""
        return self.predict_distribution(X).log_prob(column_or_1d(y))

    # ---- labels -----------------------------------------------------------------------------

    def _check_targets(self, y: Any, reset: bool) -> np.ndarray:
        """Numbers of classes, ``(N,)``."""
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        try:
            classes = np.unique(labels)
        except TypeError:
            kinds = sorted({type(label).__name__ for label in labels})
            raise ValueError(
                f"y mixes labels of the types {', '.join(kinds)}, which have no order. Drop rows "
                "with missing labels, and make the others all numbers or all text."
            ) from None
        check_classification_targets(labels)
        if reset:
            if len(classes) < 2:
                found = f"one class only, {classes.tolist()[0]!r}" if len(classes) else "no rows"
                raise ValueError(f"A classifier needs two classes to tell apart; y has {found}.")
            weights = compute_class_weight(self.class_weight, classes=classes, y=labels)
            self._weights, self.classes_ = weights.tolist(), classes
        return number_classes(labels, self.classes_).astype(np.float64)

    def _likelihoods(self) -> list[str | Likelihood]:
        return ["bernoulli" if len(self.classes_) == 2 else "categorical"]

    def _likelihood_options(self) -> dict[str, Any]:
        count = len(self.classes_)
        options = {"class_weights": self._weights}
        return options if count == 2 else {"num_classes": count, **options}
