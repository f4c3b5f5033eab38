r"""What a gradient step costs, in units of the machine's own matrix product.

A time says little without the machine that it was taken on. With :math:`S` posterior samples,
:math:`P` inducing points and :math:`N` rows, steps are therefore compared with products:

.. math:: \text{ratio} = \frac{\text{time of a step}}
          {S \cdot \text{depth} \cdot (4 P^2 N + 6 P^3) \text{ flop} / \text{GEMM rate}} .

The rate is that of a 1000 by 1000 product in the same dtype and with as many threads, timed in turn
with the steps in one process, so that noise on a shared machine hits both. ``deepwishart bench
step`` prints a table of such measurements.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from timeit import timeit
from typing import Any

import torch
from torch import Tensor

import deepwishart
from deepwishart import native
from deepwishart._support import machine
from deepwishart.bound import elbo
from deepwishart.start import build

__all__ = [
    "BOSTON",
    "Measurement",
    "Shape",
    "alternate",
    "environment",
    "make_step",
    "measure",
    "necessary_flop",
]

_GEMM_SIZE = 1000
_WARM_UP = 3


@dataclass(frozen=True)
class Shape:
    """Sizes of the data and of the model, by default those of the paper's runs on boston.

    Args:
        num_rows: rows in the batch, :math:`N`.
        num_features: columns of the inputs, and width of the hidden layers.
        num_inducing: inducing points, :math:`P`; no more than rows, which they start from.
        num_samples: posterior samples, :math:`S`.

    >>> Shape(num_rows=1000).num_inducing
    100
    """

    num_rows: int = 455
    num_features: int = 13
    num_inducing: int = 100
    num_samples: int = 10

    def __post_init__(self) -> None:
        if self.num_inducing > self.num_rows:
            raise ValueError(
                f"There cannot be more inducing points ({self.num_inducing}) than rows "
                f"({self.num_rows})."
            )


BOSTON = Shape()


@dataclass(frozen=True)
class Measurement:
    """Medians of a step and of the product beside it.

    Args:
        process, dtype, depth, threads: what was measured, as in :func:`measure`.
        step_ms: time of a step in milliseconds.
        gemm_gflops: rate of the product in gigaflop per second.
        ratio: time of the step over that of its necessary operations at this rate.
        speedup: how many times as fast the step is as in the first dtype measured in turn with it.
    """

    process: str
    dtype: str
    depth: int
    threads: int
    step_ms: float
    gemm_gflops: float
    ratio: float
    speedup: float


def make_step(
    process: str, *, depth: int, dtype: torch.dtype, shape: Shape = BOSTON, **options: Any
) -> Callable[[], None]:
    """A function that takes one training step on random data: forward, backward and Adam.

    Args:
        process: name of the process, see :func:`deepwishart.build`.
        depth: number of layers, the output layer included.
        dtype: ``torch.float64`` or ``torch.float32``.
        shape: sizes of data and model.
        options: of :func:`deepwishart.build`, such as ``width``, ``output`` and ``posterior``.

    >>> step = make_step("dwp", depth=2, dtype=torch.float64, shape=Shape(20, 3, 5, 2))
    >>> step()
    """
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(shape.num_rows, shape.num_features, generator=generator, dtype=dtype)
    y = X[:, 0].sin()
    options |= {"depth": depth, "num_inducing": shape.num_inducing, "dtype": dtype}
    model = build(process, X, y, **options)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    sizes: dict[str, Any] = {"num_data": shape.num_rows, "num_samples": shape.num_samples}

    def step() -> None:
        optimiser.zero_grad()
        (-elbo(model, X, y, generator=generator, **sizes)).backward()
        optimiser.step()

    return step


def alternate(functions: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Median seconds of each function, over so many calls in turn, after a few calls to warm up.

    >>> short, long = alternate([lambda: sum(range(10)), lambda: sum(range(10_000))], repeats=5)
    >>> print(f"The second takes {long / short:.0f} times as long.")
    The second takes ... times as long.
    """
    for function in functions:
        for _ in range(_WARM_UP):
            function()
    rounds = [[timeit(function, number=1) for function in functions] for _ in range(repeats)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def necessary_flop(depth: int, shape: Shape = BOSTON) -> int:
    r"""The yardstick, :math:`S \cdot \text{depth} \cdot (4 P^2 N + 6 P^3)`.

    >>> necessary_flop(2, Shape(num_rows=10, num_inducing=5, num_samples=3))
    10500
    """
    P, N = shape.num_inducing, shape.num_rows
    return shape.num_samples * depth * (4 * P**2 * N + 6 * P**3)


def measure(
    process: str,
    *,
    depth: int,
    dtypes: Sequence[torch.dtype],
    threads: int,
    repeats: int = 25,
    shape: Shape = BOSTON,
) -> list[Measurement]:
    """Time steps of a process and products of matrices in every dtype, all in turn.

    Args:
        process, depth, shape: as in :func:`make_step`.
        dtypes: ``torch.float64`` or ``torch.float32`` or both, of steps and products.
        threads: number of threads of both; PyTorch's setting is put back afterwards.
        repeats: number of times that each is timed.

    >>> tiny = Shape(num_rows=20, num_features=3, num_inducing=5, num_samples=2)
    >>> (found,) = measure("dwp", depth=2, dtypes=[torch.float32], threads=1, repeats=1, shape=tiny)
    >>> found.process, found.dtype, found.ratio > 0
    ('dwp', 'float32', True)
    """
    with machine.threads(threads):
        steps = [make_step(process, depth=depth, dtype=dtype, shape=shape) for dtype in dtypes]
        times = alternate([*steps, *map(_make_product, dtypes)], repeats)
    found = []
    for dtype, step_time, gemm_time in zip(dtypes, times, times[len(steps) :], strict=False):
        rate = 2 * _GEMM_SIZE**3 / gemm_time
        found.append(
            Measurement(
                process=process,
                dtype=str(dtype).removeprefix("torch."),
                depth=depth,
                threads=threads,
                step_ms=1e3 * step_time,
                gemm_gflops=rate / 1e9,
                ratio=step_time / (necessary_flop(depth, shape) / rate),
                speedup=times[0] / step_time,
            )
        )
    return found


def _make_product(dtype: torch.dtype) -> Callable[[], Tensor]:
    generator = torch.Generator().manual_seed(0)
    square = torch.randn(_GEMM_SIZE, _GEMM_SIZE, generator=generator, dtype=dtype)
    return lambda: square @ square


def environment() -> dict[str, str]:
    """What a measurement depends on besides the code: versions, processor, native library.

    >>> sorted(environment())
    ['deepwishart', 'machine', 'native', 'python', 'torch']
    """
    return {
        "torch": torch.__version__,
        "deepwishart": deepwishart.__version__,
        "native": native.status(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
