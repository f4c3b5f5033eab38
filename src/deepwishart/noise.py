r"""All randomness of one pass through a model, drawn from one explicit generator.

Inducing variables get fresh noise per posterior sample. Rows get either independent noise
(training: every row's conditional is sampled by itself) or the same noise for every row of a
posterior sample (prediction: a row's answer cannot depend on its neighbours).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Noise"]


@dataclass(frozen=True)
class Noise:
    r"""Draws standard noise with a leading dimension of ``num_samples``.

    Args:
        num_samples: number of posterior samples S.
        generator: source of randomness, on ``device``; PyTorch's default generator if ``None``.
        dtype: dtype of what is returned.
        device: device of what is returned.
        shared_rows: one draw for all rows of a posterior sample.
        row_index: with ``total_rows``, the rows asked for are these rows of a larger batch of
            which all the noise is drawn. Pieces of a batch then see exactly the noise that
            the whole would (data-parallel training; tests).
        total_rows: size of that larger batch.

    >>> noise = Noise(3, generator=torch.Generator().manual_seed(0), shared_rows=True)
    >>> noise.normal(4, 2).shape, noise.row_normal(100, 2).shape
    (torch.Size([3, 4, 2]), torch.Size([3, 1, 2]))
    """

    num_samples: int
    generator: torch.Generator | None = None
    dtype: torch.dtype = torch.float64
    device: torch.device | str = "cpu"
    shared_rows: bool = False
    row_index: Tensor | slice | None = None
    total_rows: int | None = None

    def normal(self, *shape: int) -> Tensor:
        """Standard normal noise for inducing variables, ``(S, *shape)``."""
        return torch.randn(
            self.num_samples, *shape, generator=self.generator, dtype=self.dtype, device=self.device
        )

    def row_normal(self, num_rows: int, width: int) -> Tensor:
        """Standard normal noise for rows: ``(S, num_rows, width)``, or ``(S, 1, width)`` if shared.

        Drawn in single precision, whose vectorised generator is several times faster; 24 random
        bits are plenty for Monte Carlo noise.
        """
        shape = (self.num_samples, self._rows(num_rows), width)
        drawn = torch.randn(shape, generator=self.generator, device=self.device)
        return self._select(drawn).to(self.dtype)

    def row_gamma(self, concentration: Tensor, num_rows: int) -> Tensor:
        """Standard gamma noise for rows, ``(S, num_rows)`` or ``(S, 1)`` if shared.

        Differentiable in the scalar ``concentration`` (implicit reparameterisation).
        """
        shape = (self.num_samples, self._rows(num_rows))
        return self._select(self.gamma(concentration, *shape))

    def gamma(self, concentration: Tensor, *shape: int) -> Tensor:
        """Standard gamma noise ``(*shape, *concentration.shape)``, differentiable."""
        expanded = concentration.expand(*shape, *concentration.shape)
        drawn = torch._standard_gamma(expanded, generator=self.generator)
        return drawn.clamp_min(torch.finfo(drawn.dtype).tiny)

    def _rows(self, num_rows: int) -> int:
        return 1 if self.shared_rows else (self.total_rows or num_rows)

    def _select(self, drawn: Tensor) -> Tensor:
        whole = self.shared_rows or self.row_index is None
        return drawn if whole else drawn[:, self.row_index]
