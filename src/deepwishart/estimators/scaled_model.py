"""A model together with the units of its data, and its predictions in those units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.arguments import probabilities, tensor
from deepwishart.model import DeepKernelProcess
from deepwishart.posterior import Posterior
from deepwishart.predict import Predictive
from deepwishart.prior import Prior
from deepwishart.spec import ModelSpec
from deepwishart.start import make_model

_GAUSSIAN_QUARTILES = 1.349  # distance between those of a standard normal distribution
_FEW_FAR = 10.0  # so much spread beyond that of the quartiles is of few values


@dataclass(frozen=True)
class Standardiser:
    r"""Column-wise :math:`z = (x / m - c) / s` with :math:`m = \max |x|`, and mean :math:`c` and
    standard deviation :math:`s` of :math:`x / m`.

    Dividing by the largest magnitude first keeps squares finite for values from 1e-300 to 1e300.
    A constant column has :math:`s = 1` (and :math:`m = 1` if it is zero), so it becomes zeros and
    keeps its magnitude as unit. Arithmetic is in double precision throughout.

    A robust one has median and :math:`(q_{0.75} - q_{0.25}) / 1.349` of :math:`x / m`, which a
    Gaussian column has for mean and standard deviation, wherever :math:`s` is more than ten times
    as large: a few far values do not set the scale of the rest.

    Args:
        magnitude: :math:`m`, ``(D,)``.
        location: :math:`c`, ``(D,)``.
        spread: :math:`s`, ``(D,)``.

    >>> scaling = Standardiser.fit(np.array([[1e30], [3e30]]))
    >>> scaling.forward(np.array([[1e30], [3e30]])).ravel()
    array([-1.,  1.])
    >>> scaling.inverse(np.array([[0.0]])).item()
    2e+30
    """

    magnitude: np.ndarray
    location: np.ndarray
    spread: np.ndarray

    @classmethod
    def fit(cls, values: np.ndarray, robust: bool = False) -> Standardiser:
        """The standardiser of a table ``(N, D)`` of finite numbers."""
        magnitude = np.abs(values).max(0)
        magnitude = np.where(magnitude > 0, magnitude, 1.0)
        scaled = values / magnitude
        spread = scaled.std(0)
        # Below a few units in the last place a column varies by rounding only.
        constant = spread <= 8 * np.finfo(np.float64).eps
        location, spread = scaled.mean(0), np.where(constant, 1.0, spread)
        if robust:
            low, median, high = np.quantile(scaled, [0.25, 0.5, 0.75], axis=0)
            inner = (high - low) / _GAUSSIAN_QUARTILES
            far = (inner > 0) & (spread > _FEW_FAR * inner)
            location, spread = np.where(far, median, location), np.where(far, inner, spread)
        return cls(magnitude, location, spread)

    @property
    def scale(self) -> np.ndarray:
        """Size of one standardised unit in original units, ``(D,)``."""
        return self.magnitude * self.spread

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Original units to standardised ones, ``(..., D)``."""
        with np.errstate(over="ignore"):  # whoever calls checks how far away values are
            return (values / self.magnitude - self.location) / self.spread

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Standardised units to original ones, ``(..., D)``."""
        return (values * self.spread + self.location) * self.magnitude

    def to_dict(self) -> dict[str, list[float]]:
        """Plain lists, exact in JSON."""
        return {name: value.tolist() for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Standardiser:
        """What :meth:`to_dict` gave."""
        return cls(*(np.asarray(plain[name], dtype=np.float64) for name in cls.__annotations__))


@dataclass
class ScaledModel:
    """A deep kernel process in standardised units, and how inputs and targets get there and back.

    >>> X = np.linspace(0.0, 600.0, 30)[:, None]
    >>> scaled = ScaledModel.build(ModelSpec(1, num_inducing=5), X, 50 + X)
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
        spec: ModelSpec,
        X: np.ndarray,
        y: np.ndarray,
        log_exposures: np.ndarray | None = None,
        *,
        device: torch.device | str = "cpu",
        **options: Any,
    ) -> ScaledModel:
        """A new model of data ``(N, num_features)`` and ``(N, D)`` in any units; classes and counts
        stay as they are.

        Args:
            spec: what the model is.
            X: inputs.
            y: targets.
            log_exposures: of counts, ``(N, 1)``.
            device: where to put the model.
            **options: how it starts, such as ``seed``: see :func:`deepwishart.start.make_model`.
        """
        moves = spec.make_likelihood().location_scale
        one = np.ones(y.shape[1])
        targets = Standardiser.fit(y, robust=True) if moves else Standardiser(one, 0 * one, one)
        inputs, dtype = Standardiser.fit(X), spec.torch_dtype
        rows = torch.as_tensor(inputs.forward(X), dtype=dtype)
        values = torch.as_tensor(_beside(targets.forward(y), log_exposures), dtype=dtype)
        return cls(make_model(spec, rows, values, **options).to(device), inputs, targets)

    def standardise(
        self, X: np.ndarray, y: np.ndarray, log_exposures: np.ndarray | None = None
    ) -> tuple[Tensor, Tensor]:
        """Inputs ``(N, num_features)`` and targets ``(N, D)`` as the model wants them."""
        targets = _beside(self.targets.forward(y), log_exposures)
        return self.tensor(self.inputs.forward(X)), self.tensor(targets)

    def tensor(self, values: np.ndarray) -> Tensor:
        """An array in the model's precision, on its device."""
        return torch.as_tensor(values, dtype=self.model.dtype, device=self.model.device)

    def predict(self, X: np.ndarray, num_samples: int = 100, seed: int = 0) -> RescaledPredictive:
        """The predictive distribution at inputs and for targets in the units of the data."""
        return RescaledPredictive(self.standardised(X, num_samples, seed), self.targets)

    def standardised(
        self,
        X: np.ndarray,
        num_samples: int = 100,
        seed: int = 0,
        offset: np.ndarray | None = None,
        prior: bool = False,
    ) -> Predictive:
        """The predictive distribution of standardised targets, with ``offset`` ``(N, 1)`` on the
        latent functions; with ``prior``, before anything was learned of the function.

        Posterior samples are drawn once for each number and seed, and kept until :meth:`forget`. Of
        a single layer, in which nothing is random, there is one.
        """
        num_samples = num_samples if self.model.depth > 1 else 1
        inputs = self.model.check_inputs(self.tensor(self.inputs.forward(X)))
        shift = None if offset is None else self.tensor(offset)
        if prior:
            unlearned = Prior(self.model, num_samples, seed)
            return Predictive(unlearned, inputs, chunk_rows=len(inputs), offset=shift)
        if (num_samples, seed) not in self._drawn:
            self.forget()
            generator = torch.Generator(self.model.device).manual_seed(seed)
            self._drawn[num_samples, seed] = self.model.posterior(num_samples, generator)
        return self._drawn[num_samples, seed].predict(inputs, shift)

    def forget(self) -> None:
        """Let go of posterior samples; to be called when the model has changed."""
        self._drawn.clear()

    def __getstate__(self) -> dict[str, Any]:  # files are for what was learned
        return {**self.__dict__, "_drawn": {}}


class RescaledPredictive:
    r"""A :class:`deepwishart.Predictive` with its targets mapped back, :math:`y = \mu + c z`:
    under Gaussian noise

    .. math:: p(y) = \frac1S \sum_s \prod_d \mathcal N(y_d; \mu_d + c_d m_{sd}, c_d^2 s_{sd}^2),

    and likewise under any other; counts are as they are. Means, quantiles and samples are scaled,
    log densities lose :math:`\sum_d \log c_d`. Results are double-precision NumPy arrays
    ``(N, D)``, or ``(N,)`` for one ``column``.

    Args:
        predictive: prediction in standardised units.
        scaling: how the targets were standardised.
        column: the marginal distribution of one target, as a vector; ``None``: all of them.

    Attributes:
        gaussian: whether components are Gaussian, one for each posterior sample.
        discrete: whether targets are counts.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    >>> prediction = dw.build("dwp", X, X, num_inducing=4).predict(X, num_samples=5)
    >>> original = RescaledPredictive(prediction, Standardiser.fit(100 + 10 * X.numpy()), column=0)
    >>> original.mean.shape, bool((original.quantile(0.9) > original.quantile(0.1)).all())
    ((8,), True)
    """

    def __init__(
        self, predictive: Predictive, scaling: Standardiser, column: int | None = None
    ) -> None:
        self.standardised, self.scaling = predictive, scaling
        self.gaussian, self.discrete = predictive.gaussian, predictive.discrete
        self._single = column is not None
        self._columns = slice(None) if column is None else slice(column, column + 1)

    def __len__(self) -> int:
        return len(self.standardised)

    def column(self, index: int) -> RescaledPredictive:
        """The marginal distribution of one target, which :mod:`deepwishart.metrics` scores."""
        return RescaledPredictive(self.standardised, self.scaling, index)

    def components(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks of component means and standard deviations, ``(S, n, D)`` each, in row order; for
        Gaussian noise."""
        for mean, std in self.standardised.components():
            parts = self.scaling.inverse(_numpy(mean)), _numpy(std) * self.scaling.scale
            yield parts[0][..., self._columns], parts[1][..., self._columns]

    @property
    def mean(self) -> np.ndarray:
        """Predictive mean."""
        return self.mean_and_stddev()[0]

    @property
    def stddev(self) -> np.ndarray:
        """Predictive standard deviation, observation noise included."""
        return self.mean_and_stddev()[1]

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

    def log_prob(self, y: Any) -> np.ndarray:
        """Log density of each row's targets in original units, ``(N,)``."""
        z, log_scale = self.standardise(y), np.log(self.scaling.scale)
        if not self._single:
            return _numpy(self.standardised.log_prob(z)) - log_scale.sum()
        return self._shape(_numpy(self.standardised.log_prob(z, by_column=True)) - log_scale)

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
        drawn = self._table(self.standardised.sample(num_samples, generator))
        return self._shape(self.scaling.inverse(drawn))

    def standardise(self, y: Any) -> Tensor:
        """Targets in standardised units, ``(N, D)``, zero where they are not looked at."""
        values, (rows, scaling) = _numpy(tensor("y", y)), (len(self), self.scaling)
        every = np.tile(scaling.inverse(np.zeros(len(scaling.scale))), (rows, 1))
        table = every[:, self._columns]
        if values.shape != table.shape and not (table.shape[1] == 1 and values.shape == (rows,)):
            raise ValueError(
                f"y must have {rows} rows and {table.shape[1]} columns, got {values.shape}."
            )
        table[:] = values.reshape(table.shape)
        return torch.as_tensor(scaling.forward(every))

    def _table(self, values: Tensor) -> np.ndarray:
        """With the last dimension, which :class:`deepwishart.Predictive` drops if it is 1."""
        found = _numpy(values)
        return found[..., None] if self.standardised.num_outputs == 1 else found

    def _shape(self, table: np.ndarray) -> np.ndarray:
        return table[..., self._columns][..., 0] if self._single else table


def _beside(targets: np.ndarray, log_exposures: np.ndarray | None) -> np.ndarray:
    """What the model gets for targets: log exposures, if there are any, are columns more."""
    return targets if log_exposures is None else np.concatenate([targets, log_exposures], axis=1)


def _numpy(values: Tensor) -> np.ndarray:
    return values.detach().to("cpu", torch.float64).numpy()
