"""Columns of any magnitude to columns the model can work with, and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Standardiser:
    r"""Column-wise :math:`z = (x / m - c) / s` with :math:`m = \max |x|`, and mean :math:`c` and
    standard deviation :math:`s` of :math:`x / m`.

    Dividing by the largest magnitude first keeps squares finite for values from 1e-300 to 1e300.
    A constant column has :math:`s = 1` (and :math:`m = 1` if it is zero), so it becomes zeros and
    keeps its magnitude as unit. Arithmetic is in double precision throughout.

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
    def fit(cls, values: np.ndarray) -> Standardiser:
        """The standardiser of a table ``(N, D)`` of finite numbers."""
        magnitude = np.abs(values).max(0)
        magnitude = np.where(magnitude > 0, magnitude, 1.0)
        scaled = values / magnitude
        spread = scaled.std(0)
        # Below a few units in the last place a column varies by rounding only.
        constant = spread <= 8 * np.finfo(np.float64).eps
        return cls(magnitude, scaled.mean(0), np.where(constant, 1.0, spread))

    @classmethod
    def identity(cls, columns: int) -> Standardiser:
        """One that leaves its columns as they are."""
        return cls(np.ones(columns), np.zeros(columns), np.ones(columns))

    @property
    def scale(self) -> np.ndarray:
        """Size of one standardised unit in original units, ``(D,)``."""
        return self.magnitude * self.spread

    @property
    def log_scale(self) -> np.ndarray:
        """:math:`\\log` of :attr:`scale`, ``(D,)``."""
        return np.log(self.magnitude) + np.log(self.spread)

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
