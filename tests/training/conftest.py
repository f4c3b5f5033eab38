"""A problem small enough to train in milliseconds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import deepwishart as dw
from deepwishart._support.machine import threads
from deepwishart.training import Protocol

NUM_ROWS = 24


@pytest.fixture(autouse=True)
def one_thread():
    """Two runs are the same in every bit with the same number of threads only."""
    with threads(1):
        yield


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(NUM_ROWS, 2, generator=generator, dtype=torch.float64)
    y = (2 * X[:, 0]).sin() + 0.1 * torch.randn(NUM_ROWS, generator=generator, dtype=torch.float64)
    return X, y


@pytest.fixture
def make_model(data) -> Callable[..., dw.DeepKernelProcess]:
    def make(process: str = "dwp", depth: int = 3, **options) -> dw.DeepKernelProcess:
        return dw.build(process, *data, depth=depth, num_inducing=6, **options)

    return make


@pytest.fixture
def protocol() -> Protocol:
    return Protocol(24, 1e-2, 1e-3, "flat", kl_anneal=1_000, num_samples=2)


@pytest.fixture
def same() -> Callable[[torch.nn.Module, torch.nn.Module], bool]:
    """Whether two models agree in every bit."""

    def compare(first: torch.nn.Module, second: torch.nn.Module) -> bool:
        left, right = first.state_dict(), second.state_dict()
        return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)

    return compare
