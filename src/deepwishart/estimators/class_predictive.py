"""Predictions of classes under the names that their users gave them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from deepwishart.predict import Predictive


class ClassPredictive:
    r"""A :class:`deepwishart.Predictive` over classes, with their labels:

    .. math:: p(y = c) = \frac1S \sum_s \int p(c \mid f)\, \mathcal N(f; m_s, v_s)\, df.

    Args:
        predictive: prediction of numbers of classes.
        classes: labels in the order of those numbers, ``(C,)``.

    Attributes:
        log_probs: log probability of every class, ``(N, C)``.
        num_samples: number of posterior samples in the mixture.

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
        self.num_samples = predictive.num_samples
        log_probs = predictive.log_probs.cpu().numpy().astype(np.float64)
        # Rounding, in single precision above all, leaves sums that are not quite one.
        self.log_probs = log_probs - np.logaddexp.reduce(log_probs, axis=1, keepdims=True)

    def __len__(self) -> int:
        return len(self.numbered)

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
        if labels.shape != (len(self),):
            raise ValueError(f"y must be {len(self)} labels, got shape {labels.shape}.")
        return self.log_probs[np.arange(len(self)), number_classes(labels, self.classes)]

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
