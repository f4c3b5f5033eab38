"""The numbers that are reported for predicted classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


def score_classes(log_probs: np.ndarray, y: np.ndarray) -> dict[str, float]:
    r"""Log loss, accuracy and Brier score of predicted classes:

    .. math:: -\frac1N \sum_n \log p_{n y_n}, \qquad \frac1N \sum_n [\arg\max_c p_{nc} = y_n],
              \qquad \frac{1}{2N} \sum_{nc} (p_{nc} - [y_n = c])^2.

    The Brier score is between 0 and 1; for two classes it is the mean of :math:`(p - y)^2`.

    Args:
        log_probs: log probability of every class, ``(N, C)``.
        y: numbers of the true classes, ``(N,)``.

    >>> scores = score_classes(np.log([[0.8, 0.2], [0.6, 0.4]]), np.array([0, 1]))
    >>> {name: round(value, 3) for name, value in scores.items()}
    {'log_loss': 0.57, 'accuracy': 0.5, 'brier': 0.2}
    """
    y = np.asarray(y, dtype=int)
    truth = np.eye(log_probs.shape[1])[y]
    return {
        "log_loss": float(-log_probs[np.arange(len(y)), y].mean()),
        "accuracy": float((log_probs.argmax(1) == y).mean()),
        "brier": float(0.5 * np.square(np.exp(log_probs) - truth).sum(1).mean()),
    }


class Reliability(NamedTuple):
    """In each bin of probabilities that were said: their mean, how often the class was the true
    one, and how many there are; ``(B,)`` each, empty bins left out."""

    said: np.ndarray
    happened: np.ndarray
    number: np.ndarray


def reliability(probs: np.ndarray, y: np.ndarray, bins: int = 10) -> Reliability:
    """How often what was said to have some probability came true.

    Of two classes the second is looked at, of more every one.

    Args:
        probs: probability of every class, ``(N, C)``.
        y: numbers of the true classes, ``(N,)``.
        bins: number of bins, of equal width.

    >>> curve = reliability(np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]), np.array([0, 1, 1]), 2)
    >>> curve.said.round(2).tolist(), curve.happened.tolist(), curve.number.tolist()
    ([0.15, 0.9], [0.5, 1.0], [2, 1])
    """
    truth = np.eye(probs.shape[1])[np.asarray(y, dtype=int)]
    first = 1 if probs.shape[1] == 2 else 0
    said, happened = probs[:, first:].ravel(), truth[:, first:].ravel()
    place = np.minimum((said * bins).astype(int), bins - 1)
    number = np.bincount(place, minlength=bins)
    sums = (np.bincount(place, weights=values, minlength=bins) for values in (said, happened))
    kept = number > 0
    means = [(total / np.maximum(number, 1))[kept] for total in sums]
    return Reliability(means[0], means[1], number[kept])
