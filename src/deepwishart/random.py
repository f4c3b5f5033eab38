r"""All randomness of one pass through a model, from one explicit generator.

Inducing variables get fresh noise per posterior sample, from the generator itself. Rows get theirs
from streams that are numbered by layer and by block of rows, so that a row's noise does not depend
on how rows are divided: into chunks that fit into memory, or among processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepwishart._support.arguments import check_generator, whole_number

__all__ = ["Randomness", "RowRandomness"]

BLOCK_ROWS = 1024
_LARGEST_SEED = 2**62
_default_generator = threading.Lock()
_Draw = Callable[[int, torch.Generator], Tensor]


@dataclass(frozen=True)
class Randomness:
    r"""Standard noise for inducing variables, with a leading dimension of ``num_samples``.

    Args:
        num_samples: number of posterior samples S.
        generator: source of randomness; PyTorch's default generator if ``None``.
        dtype: dtype of what is returned.
        device: device of what is returned.

    >>> random = Randomness(3, generator=torch.Generator().manual_seed(0))
    >>> random.normal(4, 2).shape, random.rows().normal(100, 2).shape
    (torch.Size([3, 4, 2]), torch.Size([3, 100, 2]))
    """

    num_samples: int
    generator: torch.Generator | None = None
    dtype: torch.dtype = torch.float64
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        vars(self).update(num_samples=whole_number("num_samples", self.num_samples))
        check_generator(self.generator)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal noise, ``(S, *shape)``."""
        full = torch.Size([self.num_samples, *shape])
        return standard_normal(full, self.dtype, self.device, self.generator)

    def rows(self, *, shared: bool = False) -> RowRandomness:
        """Noise for rows, its seed drawn from the generator.

        Args:
            shared: one draw for all rows of a posterior sample (prediction: a row's answer cannot
                depend on its neighbours), instead of one per row (training).
        """
        source = "cpu" if self.generator is None else self.generator.device
        seed = torch.randint(_LARGEST_SEED, (), generator=self.generator, device=source)
        return RowRandomness(self.num_samples, int(seed), self.dtype, self.device, shared)


@dataclass(frozen=True)
class RowRandomness:
    r"""Standard noise for rows: for all of them, or for some consecutive rows of a larger table.

    Args:
        num_samples, dtype, device: as of :class:`Randomness`.
        seed: what all streams derive from.
        shared: one draw for all rows of a posterior sample.
        layer: number of the layer that asks.
        first_row: where the rows begin in the table.
        total_rows: size of the table; the rows are all of it if ``None``.
        block_rows: rows that are drawn together. With 1, a row has the noise of its number,
            however many come after it.

    >>> whole = RowRandomness(2, seed=0)
    >>> part = whole.part(first_row=4, total_rows=10)
    >>> torch.equal(whole.normal(10, 3)[:, 4:6], part.normal(2, 3))
    True
    """

    num_samples: int
    seed: int
    dtype: torch.dtype = torch.float64
    device: torch.device | str = "cpu"
    shared: bool = False
    layer: int = 0
    first_row: int = 0
    total_rows: int | None = None
    block_rows: int = BLOCK_ROWS

    def at(self, layer: int) -> RowRandomness:
        """The noise of another layer."""
        return replace(self, layer=layer)

    def part(self, first_row: int, total_rows: int) -> RowRandomness:
        """The noise of rows from ``first_row`` on, in a table of ``total_rows``."""
        return replace(self, first_row=first_row, total_rows=total_rows)

    def normal(self, num_rows: int, width: int) -> Tensor:
        """Standard normal noise, ``(S, num_rows, width)``, or ``(S, 1, width)`` if shared.

        Drawn in single precision, whose vectorised generator is several times faster; 24 random
        bits are plenty for Monte Carlo noise.
        """

        def draw(rows: int, generator: torch.Generator) -> Tensor:
            shape = torch.Size([self.num_samples, rows, width])
            return standard_normal(shape, torch.float32, self.device, generator)

        return self._rows(num_rows, draw, stream=0).to(self.dtype)

    def gamma(self, concentration: Tensor, num_rows: int) -> Tensor:
        """Standard gamma noise, ``(S, num_rows)`` or ``(S, 1)`` if shared.

        Differentiable in the scalar ``concentration`` (implicit reparameterisation).
        """

        def draw(rows: int, generator: torch.Generator) -> Tensor:
            return standard_gamma(concentration.expand(self.num_samples, rows), generator)

        return self._rows(num_rows, draw, stream=1)

    def _rows(self, num_rows: int, draw: _Draw, stream: int) -> Tensor:
        if self.shared:
            return draw(1, self._generator(stream, block=0))
        total = num_rows if self.total_rows is None else self.total_rows
        first, last = self.first_row, self.first_row + num_rows
        pieces = []
        for block in range(first // self.block_rows, -(-last // self.block_rows)):
            start = block * self.block_rows
            whole = draw(min(self.block_rows, total - start), self._generator(stream, block))
            pieces.append(whole[:, max(first - start, 0) : last - start])
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    def generator(self) -> torch.Generator:
        """A generator of this layer's own, for what is drawn jointly over all rows."""
        return self._generator(stream=0, block=-1)

    def _generator(self, stream: int, block: int) -> torch.Generator:
        # Distances between seeds are primes, so that no two streams of a pass meet.
        offset = 1_000_003 * (2 * self.layer + stream) + 998_244_353 * block
        return torch.Generator(self.device).manual_seed((self.seed + offset) % _LARGEST_SEED)


def standard_normal(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device | str,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Standard normal noise, drawn on the generator's device, so that a CPU generator serves any
    model."""
    check_generator(generator)
    source = device if generator is None else generator.device
    return torch.randn(shape, generator=generator, dtype=dtype, device=source).to(device)


def standard_gamma(concentration: Tensor, generator: torch.Generator | None) -> Tensor:
    r"""Draws of :math:`\text{Gamma}(\alpha, 1)`, away from zero, with their implicit gradient in
    :math:`\alpha` (Figurnov et al. 2018).

    PyTorch's own draw takes no generator, so its default one is in the state of ours meanwhile.
    """
    check_generator(generator)
    if generator is None:
        return _positive_gamma(concentration)
    index = generator.device.index or 0
    cpu = generator.device.type == "cpu"
    default = torch.default_generator if cpu else torch.cuda.default_generators[index]
    with _default_generator:
        before = default.get_state()
        try:
            default.set_state(generator.get_state())
            gamma = _positive_gamma(concentration.to(generator.device))
            generator.set_state(default.get_state())
        finally:
            default.set_state(before)
    return gamma.to(concentration.device)


def _positive_gamma(concentration: Tensor) -> Tensor:
    law = torch.distributions.Gamma(concentration, 1.0, validate_args=False)
    return law.rsample().clamp_min(torch.finfo(concentration.dtype).tiny)


def factor_noise(
    batch_shape: torch.Size, num_rows: int, concentration: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    r"""The randomness of a Bartlett factor: :math:`\gamma_j \sim \text{Gamma}(\alpha_j, 1)`,
    ``(*batch_shape, m)``, with its implicit gradient, and standard normal :math:`\epsilon`,
    ``(*batch_shape, P, m)``, in single precision, which is several times faster and plenty for
    Monte Carlo noise."""
    rank = concentration.shape[-1]
    gamma = standard_gamma(concentration.expand(*batch_shape, rank), generator)
    shape = torch.Size([*batch_shape, num_rows, rank])
    normal = standard_normal(shape, torch.float32, concentration.device, generator)
    return gamma, normal.to(concentration.dtype)
