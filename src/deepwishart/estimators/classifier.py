"""Deep kernel processes as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from deepwishart.estimators.base import DeepKernelEstimator
from deepwishart.estimators.class_predictive import ClassPredictive, number_classes
from deepwishart.likelihoods import Likelihood
from deepwishart.persistence import ModelFileError


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
    ard: bool = False
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

    def predict_distribution(self, X: Any) -> ClassPredictive:
        """The whole predictive distribution: ``probs``, ``log_probs``, ``mode``, ``log_prob``,
        ``sample``."""
        return ClassPredictive(self._predict(X), self.classes_)

    def log_prob(self, X: Any, y: Any) -> np.ndarray:
        """Log predictive probability of each row's label, ``(N,)``."""
        return self.predict_distribution(X).log_prob(column_or_1d(y))

    # ---- labels -----------------------------------------------------------------------------

    def _check_targets(self, y: Any, reset: bool) -> np.ndarray:
        """Numbers of classes, ``(N,)``."""
        if y is None:
            raise ValueError(
                "A fit requires y to be passed, but the target y is None: call fit(X, y)."
            )
        labels = column_or_1d(y, warn=True)
        classes = _distinct(labels)
        check_classification_targets(labels)
        if reset:
            self._weights = _class_weights(self.class_weight, classes, labels).tolist()
            self.classes_ = classes
        return number_classes(labels, self.classes_).astype(np.float64)

    def _likelihoods(self) -> list[str | Likelihood]:
        return ["bernoulli" if len(self.classes_) == 2 else "categorical"]

    def _likelihood_options(self) -> dict[str, Any]:
        count = len(self.classes_)
        options = {"class_weights": self._weights}
        return options if count == 2 else {"num_classes": count, **options}

    def _describe_targets(self) -> dict[str, Any]:
        if self.classes_.dtype.kind not in "OUbiuf":
            raise ModelFileError(
                f"Labels of the type {self.classes_.dtype} cannot be saved as plain data; turn "
                "them into text or numbers before fit, or pickle the classifier."
            )
        return {"classes": self.classes_.tolist()}

    def _recall_targets(self, config: dict[str, Any]) -> None:
        self.classes_ = np.array(config["classes"])
        pairs: Any = self.class_weight
        if isinstance(pairs, list):  # JSON has no keys but text
            self.class_weight = dict(pairs)


def _distinct(labels: np.ndarray) -> np.ndarray:
    """The labels without repetition, sorted."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(
            "Input y contains NaN or infinity, which are no labels. Drop those rows first."
        )
    try:
        return np.unique(labels)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(
            f"y mixes labels of the types {', '.join(kinds)}, which have no order. Drop rows with "
            "missing labels, and make the others all numbers or all text."
        ) from None


def _class_weights(
    class_weight: Mapping[Any, float] | str | None, classes: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    if not len(classes):
        raise ValueError("Found array y with 0 sample(s); a classifier needs rows to learn from.")
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only, {classes.tolist()[0]!r}: a classifier needs at least two to "
            "tell apart."
        )
    if not isinstance(class_weight, Mapping | None) and class_weight != "balanced":
        raise ValueError(
            "class_weight must be None, 'balanced' or a dictionary from labels to weights, got "
            f"{class_weight!r}."
        )
    weights = compute_class_weight(class_weight, classes=classes, y=labels)
    if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise ValueError(f"class_weight must be finite and not negative, got {class_weight!r}.")
    return weights
