"""One small model of each process, built and not trained: pictures need no more."""

import pytest
import torch
from torch import Tensor

import deepwishart as dw

PROCESSES = ("dwp", "dgp", "dsvi", "diwp")


@pytest.fixture(scope="session")
def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    X = torch.randn(14, 2, generator=generator, dtype=torch.float64)
    return X, X[:, 0] * X[:, 1]


@pytest.fixture(scope="session")
def models(data) -> dict[str, dw.DeepKernelProcess]:
    return {process: dw.build(process, *data, depth=3, num_inducing=6) for process in PROCESSES}


@pytest.fixture(scope="session")
def curve_models(data) -> dict[str, dw.DeepKernelProcess]:
    """Of one input, with a hidden layer of width 2."""
    X, y = data
    return {
        process: dw.build(process, X[:, :1], y, depth=2, width=2, num_inducing=6)
        for process in PROCESSES
    }


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
