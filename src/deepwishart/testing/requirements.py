"""What all contracts share: a subject, and sentences about what is wrong with it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Requirements"]


class Requirements:
    """Requirements on ``subject``, whose class every complaint names.

    Args:
        subject: the module under test, a copy of the caller's.
        dtype: floating point type of the check.
        seed: of the random inputs.
    """

    def __init__(self, subject: nn.Module, dtype: torch.dtype, seed: int) -> None:
        self.subject, self.dtype, self.seed = subject, dtype, seed
        self.generator = torch.Generator().manual_seed(seed)
        parameter = next(subject.parameters(), None)
        self.device = torch.device("cpu") if parameter is None else parameter.device
        self.eps = torch.finfo(dtype).eps
        self.tolerance = 1e3 * self.eps

    def normal(self, *shape: int) -> Tensor:
        """Standard normal inputs, the same numbers for every dtype and device."""
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return drawn.to(dtype=self.dtype, device=self.device)

    def require(self, condition: bool | Tensor, violation: str) -> None:
        """Raise an :class:`AssertionError` that says ``violation``, unless ``condition``."""
        if not bool(condition):
            raise AssertionError(f"{type(self.subject).__name__}: {violation}.")

    def require_close(
        self, actual: Tensor, expected: Tensor, violation: str, tolerance: float | None = None
    ) -> None:
        """Require equality up to ``tolerance``, relative where values exceed one."""
        self.require(
            actual.shape == expected.shape,
            f"{violation} (shapes {tuple(actual.shape)} and {tuple(expected.shape)})",
        )
        tolerance = self.tolerance if tolerance is None else tolerance
        actual, expected = actual.detach(), expected.detach()
        error = float((actual - expected).abs().max() / expected.abs().max().clamp(min=1.0))
        self.require(error <= tolerance, f"{violation} (they differ by {error:.1e})")

    def require_same(self, first: Tensor, second: Tensor, violation: str) -> None:
        """As :meth:`require_close`, where one may lack the dimension for samples."""
        first, second = torch.broadcast_tensors(first, second)
        self.require_close(first, second, violation)

    def require_zero_mean(self, values: Tensor, violation: str, allowance: float = 0.0) -> None:
        """Require that the mean over the first dimension is zero up to sampling noise, or within
        the ``allowance``."""
        values = values.detach().double().reshape(len(values), -1)
        error = values.std(0) / len(values) ** 0.5
        # What is constant up to rounding has no sampling noise to be measured by.
        error = error + 1e3 * self.eps * values.abs().amax(0).clamp(min=1.0) + allowance
        z = float((values.mean(0) / error).abs().max())
        self.require(z < 6.0, f"{violation} (by {z:.0f} standard errors)")
