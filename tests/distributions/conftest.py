"""Shared ingredients: random scale matrices, random parameters, Monte Carlo comparisons."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor


def _random_scale(dimension: int, *batch: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (*batch, dimension, dimension + 2)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    return noise @ noise.mT / (dimension + 2) + 0.3 * torch.eye(dimension, dtype=torch.float64)


def _random_bartlett(dimension: int, rank: int, *batch: int, seed: int = 0) -> dict[str, Tensor]:
    """Parameters of a generalised singular Wishart that are nothing like those of a Wishart."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*batch, *shape, generator=generator, dtype=torch.float64)

    return {
        "concentration": 0.7 + 3.0 * uniform(rank),
        "rate": 0.5 + uniform(rank),
        "loc": 2.0 * uniform(dimension, rank) - 1.0,
        "scale": 0.2 + uniform(dimension, rank),
    }


def _random_mixing(dimension: int, rank: int, *batch: int, seed: int = 0) -> dict[str, Tensor]:
    """Lower-triangular R and C, well away from the identity."""
    generator = torch.Generator().manual_seed(seed)

    def lower(size: int) -> Tensor:
        drawn = torch.randn(*batch, size, size, generator=generator, dtype=torch.float64)
        diagonal = 0.6 + torch.rand(*batch, size, generator=generator, dtype=torch.float64)
        return 0.7 * drawn.tril(-1) + diagonal.diag_embed()

    return {"row_mixing": lower(dimension), "column_mixing": lower(rank)}


def _assert_mean(draws: Tensor, expected: Tensor, *, deviations: float = 4.5) -> None:
    """The mean over the first dimension is ``expected`` within a few of its standard errors."""
    error = draws.std(0) / draws.shape[0] ** 0.5
    distance = (draws.mean(0) - expected).abs()
    assert bool((distance <= deviations * error + 1e-12).all()), (distance / error).max()


@pytest.fixture
def random_scale() -> Callable[..., Tensor]:
    return _random_scale


@pytest.fixture
def random_bartlett() -> Callable[..., dict[str, Tensor]]:
    return _random_bartlett


@pytest.fixture
def random_mixing() -> Callable[..., dict[str, Tensor]]:
    return _random_mixing


@pytest.fixture
def assert_mean() -> Callable[..., None]:
    return _assert_mean


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1234)
