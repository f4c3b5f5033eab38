r"""How good a predictive distribution is: proper scores, errors and calibration.

Every function takes a ``prediction`` and the targets ``y`` that came true, ``(N,)`` or ``(N, D)``.
A prediction is

- what :meth:`deepwishart.DeepKernelProcess.predict` returns (units of the model), or what
  ``DeepKernelRegressor.predict_distribution`` returns (units of the data), or another object with
  ``components()``: chunks of means and standard deviations ``(S, n, D)``, in row order, or
- a pair ``(mean, stddev)`` of arrays: of the shape of ``y`` for one Gaussian per target, or with a
  leading dimension ``S`` more for an equal mixture of ``S`` Gaussians per target.

Probabilities of classes are arrays ``(N, C)``, for :func:`score_classes` and :func:`reliability`.

Arrays may be NumPy arrays, tensors or lists; results are floats and NumPy arrays. All arithmetic
is in double precision, and large predictions are scored chunk by chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.arguments import probabilities, tensor

__all__ = [
    "CalibrationCurve",
    "Reliability",
    "calibration_curve",
    "crps",
    "interval_coverage",
    "log_likelihood",
    "reliability",
    "rmse",
    "score_classes",
]

_DRAWS = 1000
_PAIR_ELEMENTS = 2**22  # elements of one samples x samples x rows block of the CRPS


Prediction = Any  # what the module's description says


class CalibrationCurve(NamedTuple):
    """Probability ``levels`` and the ``observed`` fraction of targets below those quantiles."""

    levels: np.ndarray
    observed: np.ndarray


def log_likelihood(prediction: Prediction, y: Any, *, per_row: bool = False) -> Any:
    r"""Log density of the targets under the mixture, averaged over rows:

    .. math:: \frac1N \sum_n \log \frac1S \sum_s \prod_d \mathcal N(y_{nd}; m_{snd}, s_{snd}^2).

    The columns of a row belong to one posterior sample together. In units of the prediction: for
    targets divided by :math:`c` the value rises by :math:`\log c`.

    With ``per_row``, the ``(N,)`` terms instead of their mean.

    >>> round(log_likelihood(([0.0, 0.0], [1.0, 1.0]), [0.0, 0.0]), 4)
    -0.9189
    """

    if _is_other(prediction):
        return _result(_array(prediction.log_prob(_targets(y))), per_row)

    def density(mean: Tensor, std: Tensor, target: Tensor) -> Tensor:
        terms = -0.5 * ((target - mean) / std).square() - std.log() - 0.5 * math.log(2 * math.pi)
        return terms.sum(-1).logsumexp(0) - math.log(mean.shape[0])

    return _result(_map(density, prediction, y), per_row)


def rmse(prediction: Prediction, y: Any) -> float:
    r"""Root mean squared error of the mixture's mean, over all rows and columns:

    .. math:: \Big(\frac1{ND} \sum_{nd} \big(y_{nd} - \tfrac1S \textstyle\sum_s m_{snd}\big)^2
              \Big)^{1/2}.

    >>> rmse(([1.0, 2.0], [1.0, 1.0]), [1.0, 4.0]) == 2**0.5
    True
    """
    if _is_other(prediction):
        errors = _array(prediction.mean).reshape(_targets(y).shape) - _array(y)
    else:
        errors = _map(lambda mean, _, target: mean.mean(0) - target, prediction, y)
    # Dividing by the largest error first keeps squares of very large or small errors finite.
    largest = float(np.abs(errors).max()) or 1.0
    return largest * float(np.sqrt(np.square(errors / largest).mean()))


def crps(prediction: Prediction, y: Any, *, per_row: bool = False) -> Any:
    r"""Continuous ranked probability score of the mixture, exactly; smaller is better:

    .. math:: \int \big(F(x) - 1[x \ge y]\big)^2 dx
              = \mathbb E|X - y| - \tfrac12 \mathbb E|X - X'|
              = \frac1S \sum_s A(y - m_s, s_s^2)
              - \frac1{2S^2} \sum_{st} A(m_s - m_t, s_s^2 + s_t^2)

    with :math:`A(\mu, \sigma^2) = 2\sigma\varphi(\mu/\sigma) + \mu(2\Phi(\mu/\sigma) - 1)`, the
    mean absolute value of a Gaussian (Grimit et al., 2006). In units of the target, averaged over
    rows and columns. Costs :math:`S^2` per target. Where components are not Gaussian, the two
    expectations are means over 1,000 draws, always the same ones.

    With ``per_row``, the score of every target, in the shape of ``y``, instead of the mean.

    >>> round(crps(([0.0], [1.0]), [0.0]), 4)  # (2**0.5 - 1) / pi**0.5
    0.2337
    """

    if _is_other(prediction):
        return _result(_crps_from_draws(prediction, _targets(y)), per_row)

    def score(mean: Tensor, std: Tensor, target: Tensor) -> Tensor:
        rows = max(1, _PAIR_ELEMENTS // (mean.shape[0] ** 2 * mean.shape[2]))
        spread = [
            _mean_absolute(m[:, None] - m, torch.hypot(s[:, None], s)).mean((0, 1))
            for m, s in zip(mean.split(rows, 1), std.split(rows, 1), strict=True)
        ]
        return _mean_absolute(target - mean, std).mean(0) - 0.5 * torch.cat(spread)

    return _result(_map(score, prediction, y).reshape(tuple(_tensor("y", y).shape)), per_row)


def interval_coverage(prediction: Prediction, y: Any, coverage: float = 0.9) -> float:
    r"""Fraction of targets inside their central interval of the given probability:

    .. math:: \frac1{ND} \sum_{nd} 1\big[|2 F_{nd}(y_{nd}) - 1| \le c\big].

    A calibrated prediction covers ``coverage``, :math:`c`, of the targets. Intervals of counts have
    whole numbers as ends, which belong to them, and so cover more.

    >>> interval_coverage(([0.0] * 4, [1.0] * 4), [-2.0, -0.5, 0.5, 1.0], coverage=0.9)
    0.75
    """
    (level,) = np.atleast_1d(probabilities("coverage", coverage))
    at, below = _reached(prediction, y)
    tail = 0.5 * (1.0 - level)
    return float(((at >= tail) & (below <= 1.0 - tail)).mean())


def calibration_curve(
    prediction: Prediction, y: Any, levels: Sequence[float] | np.ndarray | None = None
) -> CalibrationCurve:
    r"""Fraction of targets that fall below their predicted quantile, for several quantiles:

    .. math:: \hat p(\ell) = \frac1{ND} \sum_{nd} 1[F_{nd}(y_{nd}) \le \ell].

    A calibrated prediction has :math:`\hat p(\ell) = \ell`. A count stands for all of the step that
    :math:`F` makes there, and gives the share of the step that lies below :math:`\ell`,
    :math:`(\ell - F(y - 1)) / (F(y) - F(y - 1))` between 0 and 1 (Czado, Gneiting and Held, 2009).
    Without ``levels``, 0.05, 0.10, ..., 0.95.

    >>> calibration_curve(([0.0] * 4, [1.0] * 4), [-2.0, -0.5, 0.5, 1.0], [0.1, 0.5]).observed
    array([0.25, 0.5 ])
    """
    levels = np.linspace(0.05, 0.95, 19) if levels is None else levels
    chosen = np.atleast_1d(probabilities("levels", levels))
    at, below = _reached(prediction, y)
    step = np.where(at > below, at - below, 1.0)
    shares = [np.where(at <= p, 1.0, ((p - below) / step).clip(0.0)).mean() for p in chosen]
    return CalibrationCurve(chosen, np.array(shares))


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


def _is_other(prediction: Any) -> bool:
    return getattr(prediction, "gaussian", True) is False


def _reached(prediction: Prediction, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distribution function at the targets and, if they are counts, just below them."""
    if not _is_other(prediction):
        value = _map(lambda m, s, y: torch.special.ndtr((y - m) / s).mean(0), prediction, y)
        return value, value
    targets = _targets(y)
    value = _array(prediction.cdf(targets))
    return value, _array(prediction.cdf(targets - 1.0)) if prediction.discrete else value


def _crps_from_draws(prediction: Any, targets: Tensor) -> np.ndarray:
    """:math:`\\mathbb E|X - y| - \\tfrac12 \\mathbb E|X - X'|`, the latter from sorted draws."""
    drawn = _array(prediction.sample(_DRAWS, torch.Generator().manual_seed(0)))
    drawn = np.sort(drawn.reshape(_DRAWS, *targets.shape), axis=0)
    rank = 2.0 * np.arange(1, _DRAWS + 1) - _DRAWS - 1.0
    spread = np.tensordot(rank, drawn, axes=1) / (_DRAWS * (_DRAWS - 1))
    return np.asarray(np.abs(drawn - targets.numpy()).mean(0) - spread)


def _mean_absolute(mu: Tensor, sigma: Tensor) -> Tensor:
    r""":math:`\mathbb E|\mathcal N(\mu, \sigma^2)|`."""
    z = mu / sigma
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    return 2.0 * sigma * density + mu * torch.special.erf(z / math.sqrt(2.0))


def _map(
    function: Callable[[Tensor, Tensor, Tensor], Tensor], prediction: Prediction, y: Any
) -> np.ndarray:
    """``function(means, standard deviations, targets)`` of chunks ``(S, n, D)`` and ``(n, D)``."""
    targets = _targets(y)
    table = targets.unsqueeze(-1) if targets.ndim == 1 else targets
    known = hasattr(prediction, "components")
    parts, done = [], 0
    for mean, std in prediction.components() if known else [_from_pair(prediction, targets)]:
        mean, std = _tensor("mean", mean), _tensor("stddev", std)
        piece = table[done : done + mean.shape[1]].to(mean.device)
        if piece.shape != mean.shape[1:]:
            raise ValueError(
                f"y has {table.shape[0]} rows and {table.shape[1]} columns, which does not fit the "
                f"prediction: {mean.shape[2]} columns, at least {done + mean.shape[1]} rows."
            )
        parts.append(function(mean, std, piece).cpu().numpy())
        done += mean.shape[1]
    if done != table.shape[0]:
        raise ValueError(f"y has {table.shape[0]} rows, but the prediction has {done}.")
    values = np.concatenate(parts)
    if np.isnan(values).any():
        raise ValueError("The numbers are too large to be scored. Divide them by a constant first.")
    return values


def _targets(y: Any) -> Tensor:
    targets = _tensor("y", y)
    if targets.ndim not in (1, 2) or targets.numel() == 0:
        raise ValueError(
            "y must have shape (rows,) or (rows, columns), none of them 0; got "
            f"{tuple(targets.shape)}."
        )
    return targets


def _from_pair(prediction: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Components ``(S, N, D)`` from arrays; the number of dimensions says if ``S`` is there."""
    try:
        mean, std = prediction
    except (TypeError, ValueError):
        raise ValueError(
            "A prediction is an object with components(), or a pair (mean, stddev) of arrays; got "
            f"this {type(prediction).__name__}: {prediction!r}."
        ) from None
    mean, std = _tensor("mean", mean), _tensor("stddev", std)
    shape = tuple(targets.shape)
    if mean.shape != std.shape or shape not in (tuple(mean.shape), tuple(mean.shape[1:])):
        raise ValueError(
            f"For y of shape {shape}, mean and stddev must have that shape or (samples, "
            f"{', '.join(map(str, shape))}); got {tuple(mean.shape)} and {tuple(std.shape)}."
        )
    if not bool((std > 0).all()):
        raise ValueError("stddev must be positive everywhere.")
    full = (-1, len(targets), 1 if targets.ndim == 1 else targets.shape[1])
    return mean.reshape(full), std.reshape(full)


def _tensor(name: str, values: Any) -> Tensor:
    found = tensor(name, values).to(torch.float64)
    if not bool(found.isfinite().all()):
        raise ValueError(f"{name} has NaN or infinite values, which no score can make sense of.")
    return found


def _array(values: Any) -> np.ndarray:
    plain = values.detach().cpu() if isinstance(values, Tensor) else values
    return np.asarray(plain, dtype=np.float64)


def _result(values: np.ndarray, per_row: bool) -> Any:
    return values if per_row else float(values.mean())
