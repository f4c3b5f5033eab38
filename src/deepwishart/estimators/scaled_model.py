"""A model together with the units of its data, and its predictions in those units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.arguments import probabilities, tensor
from deepwishart.estimators.standardise import Standardiser
from deepwishart.model import DeepKernelProcess
from deepwishart.posterior import Posterior
from deepwishart.predict import Predictive
from deepwishart.start import build


@dataclass
class ScaledModel:
    """A deep kernel process in standardised units, and how inputs and targets get there and back.

    >>> X = np.linspace(0.0, 600.0, 30)[:, None]
    >>> scaled = ScaledModel.build("dwp", X, 50 + X, num_inducing=5)
    >>> scaled.standardise(X, 50 + X)[0].std(correction=0).item(), scaled.predict(X, 5).mean.shape
    (1.0, (30, 1))
    """

    model: DeepKernelProcess
    inputs: Standardiser
    targets: Standardiser
    _drawn: dict[tuple[int, int], Posterior] = field(default_factory=dict, repr=False)

    @classmethod
    def build(
        cls,
        process: str,
        X: np.ndarray,
        y: np.ndarray,
        extra: np.ndarray | None = None,
        *,
        device: torch.device | str = "cpu",
        **options: Any,
    ) -> ScaledModel:
        """A new model of data ``(N, num_features)`` and ``(N, D)`` in any units; ``options`` are
        those of :func:`deepwishart.build`. Classes and counts stay as they are, and so does
        ``extra``, what else the likelihood has to know of every row."""
        likelihood = options.get("likelihood")
        keep = likelihood is not None and not likelihood.location_scale
        inputs = Standardiser.fit(X)
        targets = Standardiser.identity(y.shape[1]) if keep else Standardiser.fit(y)
        standard = inputs.forward(X), _beside(targets.forward(y), extra)
        data = (torch.as_tensor(values, device=device) for values in standard)
        return cls(build(process, *data, **options), inputs, targets)

    def standardise(
        self, X: np.ndarray, y: np.ndarray, extra: np.ndarray | None = None
    ) -> tuple[Tensor, Tensor]:
        """Inputs ``(N, num_features)`` and targets ``(N, D)`` as the model wants them."""
        targets = _beside(self.targets.forward(y), extra)
        return self.tensor(self.inputs.forward(X)), self.tensor(targets)

    def tensor(self, values: np.ndarray) -> Tensor:
        """An array in the model's precision, on its device."""
        return torch.as_tensor(values, dtype=self.model.dtype, device=self.model.device)

    def predict(
        self, X: np.ndarray, num_samples: int = 100, seed: int = 0, *, squeeze: bool = False
    ) -> RescaledPredictive:
        """The predictive distribution at inputs and for targets in the units of the data;
        ``squeeze`` drops the column dimension of a single target."""
        prediction = self.standardised(X, num_samples, seed)
        return RescaledPredictive(prediction, self.targets, squeeze)

    def standardised(
        self, X: np.ndarray, num_samples: int = 100, seed: int = 0, offset: np.ndarray | None = None
    ) -> Predictive:
        """The same for standardised targets, with ``offset`` ``(N, 1)`` on the latent functions.

        Posterior samples are drawn once for each number and seed, and kept until :meth:`forget`. Of
        a single layer, in which nothing is random, there is one.
        """
        num_samples = num_samples if self.model.depth > 1 else 1
        inputs = self.model.check_inputs(self.tensor(self.inputs.forward(X)))
        if (num_samples, seed) not in self._drawn:
            self.forget()
            generator = torch.Generator(self.model.device).manual_seed(seed)
            self._drawn[num_samples, seed] = self.model.posterior(num_samples, generator)
        shift = None if offset is None else self.tensor(offset)
        return self._drawn[num_samples, seed].predict(inputs, shift)

    def forget(self) -> None:
        """Let go of posterior samples; to be called when the model has changed."""
        self._drawn.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_drawn": {}}


class RescaledPredictive:
    r"""A :class:`deepwishart.Predictive` with its targets mapped back, :math:`y = \mu + c z`:
    under Gaussian noise

    .. math:: p(y) = \frac1S \sum_s \prod_d \mathcal N(y_d; \mu_d + c_d m_{sd}, c_d^2 s_{sd}^2),

    and likewise under any other; counts are as they are. Means, quantiles and samples are scaled,
    log densities lose :math:`\sum_d \log c_d`. Results are double-precision NumPy arrays
    ``(N, D)``, or ``(N,)`` when ``squeeze``.

    Args:
        predictive: prediction in standardised units.
        scaling: how the targets were standardised.
        squeeze: drop the column dimension; for targets that came as a vector.

    Attributes:
        num_samples: number of components of the mixture.
        gaussian: whether components are Gaussian, one for each posterior sample.
        discrete: whether targets are counts.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    >>> prediction = dw.build("dwp", X, X, num_inducing=4).predict(X, num_samples=5)
    >>> original = RescaledPredictive(prediction, Standardiser.fit(100 + 10 * X.numpy()), True)
    >>> original.mean.shape, bool((original.quantile(0.9) > original.quantile(0.1)).all())
    ((8,), True)
    """

    def __init__(self, predictive: Predictive, scaling: Standardiser, squeeze: bool) -> None:
        self.standardised, self.scaling, self._squeeze = predictive, scaling, squeeze
        self.num_samples = predictive.num_samples
        self.gaussian, self.discrete = predictive.gaussian, predictive.discrete

    def __len__(self) -> int:
        return len(self.standardised)

    def components(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks of component means and standard deviations, ``(S, n, D)`` each, in row order; for
        Gaussian noise."""
        for mean, std in self.standardised.components():
            yield self.scaling.inverse(_numpy(mean)), _numpy(std) * self.scaling.scale

    @property
    def mean(self) -> np.ndarray:
        """Predictive mean."""
        return self.mean_and_stddev()[0]

    @property
    def stddev(self) -> np.ndarray:
        """Predictive standard deviation, observation noise included."""
        return self.mean_and_stddev()[1]

    @property
    def variance(self) -> np.ndarray:
        """Predictive variance."""
        return np.square(self.stddev)

    def mean_and_stddev(self) -> tuple[np.ndarray, np.ndarray]:
        """Both moments from one pass over the components; ``FloatingPointError`` if they are none,
        as those of a damaged model may be."""
        mean, variance = (self._table(each) for each in self.standardised.mean_and_variance())
        mean, spread = self.scaling.inverse(mean), np.sqrt(variance) * self.scaling.scale
        good = (np.isfinite(mean) & ~np.isnan(spread)).all(1)
        if not good.all():
            raise FloatingPointError(
                f"The prediction for row {int(good.argmin())} of X is no finite number. Check the "
                "units of that row; if every row is like this, train again."
            )
        return self._shape(mean), self._shape(spread)

    def log_prob(self, y: Any, *, by_column: bool = False) -> np.ndarray:
        """Log density of each row's targets in original units, ``(N,)``, or of each column by
        itself, ``(N, D)``."""
        density = _numpy(self.standardised.log_prob(self.standardise(y), by_column=by_column))
        return density - (self.scaling.log_scale if by_column else self.scaling.log_scale.sum())

    def cdf(self, y: Any) -> np.ndarray:
        """Marginal distribution function of each column at ``y``."""
        return self._shape(self._table(self.standardised.cdf(self.standardise(y))))

    def quantile(self, p: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """Marginal quantiles; a leading dimension K for K probabilities ``p``."""
        levels = probabilities("p", p)
        values = [self._table(self.standardised.quantile(float(q))) for q in np.atleast_1d(levels)]
        result = self._shape(self.scaling.inverse(np.stack(values)))
        return result if levels.ndim else result[0]

    def sample(self, num_samples: int = 1, generator: torch.Generator | None = None) -> np.ndarray:
        """Independent draws of the targets, ``(num_samples, N, D)`` or ``(num_samples, N)``."""
        drawn = _numpy(self.standardised.sample(num_samples, generator))
        table = drawn.reshape(num_samples, len(self), self.standardised.num_outputs)
        return self._shape(self.scaling.inverse(table))

    def standardise(self, y: Any) -> Tensor:
        """Targets in standardised units, ``(N, D)``."""
        values = _numpy(tensor("y", y))
        shape = (len(self), self.standardised.num_outputs)
        if values.shape != shape and not (shape[1] == 1 and values.shape == shape[:1]):
            raise ValueError(
                f"y must have {shape[0]} rows and {shape[1]} columns, got {values.shape}."
            )
        return torch.as_tensor(self.scaling.forward(values.reshape(shape)))

    def _table(self, values: Tensor) -> np.ndarray:
        return _numpy(values).reshape(len(self), self.standardised.num_outputs)

    def _shape(self, table: np.ndarray) -> np.ndarray:
        return table[..., 0] if self._squeeze else table


def _beside(targets: np.ndarray, extra: np.ndarray | None) -> np.ndarray:
    return targets if extra is None else np.concatenate([targets, extra], axis=1)


def _numpy(values: Tensor) -> np.ndarray:
    return values.detach().to("cpu", torch.float64).numpy()
