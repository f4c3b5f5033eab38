"""Kernel values against scikit-learn, and against integrals over hidden units."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import sklearn.gaussian_process.kernels as witness
import torch
from torch import Tensor

from deepwishart.kernels import (
    ArcCosine,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)
from deepwishart.numerics.gaussian import formed

F64 = torch.float64
RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))
SCALES = np.array([0.4, 1.3, 2.0])


def with_lengthscales(kernel: Stationary) -> Stationary:
    kernel.log_lengthscale.data = torch.as_tensor(np.log(SCALES))
    return kernel


PAIRS = {
    "squared exponential": (SquaredExponential(1.7, 0.6, dtype=F64), 1.7 * witness.RBF(0.6)),
    "matern 1/2": (Matern12(1.7, 0.6, dtype=F64), 1.7 * witness.Matern(0.6, nu=0.5)),
    "matern 3/2": (Matern32(1.7, 0.6, dtype=F64), 1.7 * witness.Matern(0.6, nu=1.5)),
    "matern 5/2": (Matern52(1.7, 0.6, dtype=F64), 1.7 * witness.Matern(0.6, nu=2.5)),
    "rational quadratic": (
        RationalQuadratic(0.8, 1.7, 0.6, dtype=F64),
        1.7 * witness.RationalQuadratic(length_scale=0.6, alpha=0.8),
    ),
    "linear": (Linear(1.7, 0.6, dtype=F64), 1.7 * witness.DotProduct(sigma_0=0.6**0.5)),
    "squared exponential, ARD": (
        with_lengthscales(SquaredExponential(num_features=3, dtype=F64)),
        witness.RBF(SCALES),
    ),
    "matern 5/2, ARD": (
        with_lengthscales(Matern52(num_features=3, dtype=F64)),
        witness.Matern(SCALES, nu=2.5),
    ),
    "sum of product": (
        2.0 * SquaredExponential(dtype=F64) * Linear(dtype=F64) + Matern32(dtype=F64),
        2.0 * witness.RBF() * witness.DotProduct() + witness.Matern(nu=1.5),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_agrees_with_scikit_learn(name: str) -> None:
    kernel, expected = PAIRS[name]
    first, second = torch.as_tensor(FIRST), torch.as_tensor(SECOND)
    with torch.no_grad():
        np.testing.assert_allclose(kernel.square(first), expected(FIRST), rtol=1e-12)
        np.testing.assert_allclose(
            formed(kernel.cross(first, second)), expected(FIRST, SECOND), rtol=1e-12
        )
        np.testing.assert_allclose(kernel.diagonal(second), expected.diag(SECOND), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(SquaredExponential, witness.RBF), (Matern32, partial(witness.Matern, nu=1.5))],
)
def test_inputs_beside_features_multiply_a_correlation_of_their_own(
    kind: type[Stationary], expected: Callable[[Any], Any]
) -> None:
    kernel = kind(1.7, 0.6, num_inputs=2, dtype=F64)
    kernel.log_input_lengthscale = torch.nn.Parameter(torch.as_tensor(np.log(SCALES[:2])))
    of_features, of_inputs = expected(0.6), expected(SCALES[:2])
    values = 1.7 * of_features(FIRST[:, :1], SECOND[:, :1]) * of_inputs(FIRST[:, 1:], SECOND[:, 1:])
    with torch.no_grad():
        found = formed(kernel.cross(torch.as_tensor(FIRST), torch.as_tensor(SECOND)))
    np.testing.assert_allclose(found, values, rtol=1e-12)


def test_arc_cosine_is_an_integral_over_directions() -> None:
    """2 E[phi(w x) phi(w y)] over w ~ N(0, I) in the plane, whose squared radius averages 2."""
    x, y = np.array([1.2, -0.3]), np.array([0.4, 0.9])

    def unit(z: np.ndarray, angle: float) -> float:
        return max(z @ np.array([np.cos(angle), np.sin(angle)]), 0.0)

    kinks = [np.arctan2(z[1], z[0]) + side * np.pi / 2 for z in (x, y) for side in (-1, 1)]
    edges = sorted({kink % (2 * np.pi) for kink in kinks} | {0.0, 2 * np.pi})
    integral = sum(
        scipy.integrate.quad(lambda angle: unit(x, angle) * unit(y, angle), low, high)[0]
        for low, high in itertools.pairwise(edges)
    )
    expected = 4.0 * integral / (2 * np.pi)
    kernel = ArcCosine(bias=0.0, dtype=torch.float64)
    value = kernel.cross(torch.as_tensor(x[None]), torch.as_tensor(y[None]))
    assert value.item() == pytest.approx(expected, rel=1e-10)


def test_a_bias_is_a_constant_feature() -> None:
    bias, points = 0.6, torch.as_tensor(FIRST)
    appended = torch.cat([points, torch.full((len(points), 1), bias**0.5)], dim=1)
    found = ArcCosine(1.7, bias, dtype=F64).square(points)
    expected = ArcCosine(1.7, bias=0.0, dtype=F64).square(appended)
    torch.testing.assert_close(found, expected)


def test_rational_quadratic_becomes_squared_exponential() -> None:
    points = torch.as_tensor(FIRST)
    limit = RationalQuadratic(alpha=1e9, dtype=torch.float64).square(points)
    torch.testing.assert_close(limit, SquaredExponential(dtype=torch.float64).square(points))


@pytest.mark.parametrize(
    "kernel",
    [SquaredExponential(), Matern12(), Matern32(), Matern52(), RationalQuadratic()],
    ids=lambda kernel: type(kernel).__name__,
)
def test_distances_far_from_the_origin_survive_single_precision(kernel: Kernel) -> None:
    points = torch.as_tensor(FIRST)
    shifted = (points + 100.0).float()
    near, far = formed(kernel.float().cross(shifted, shifted[:3])), kernel.square(shifted)
    exact: Tensor = kernel.double().square(shifted.double() - 100.0)
    off_diagonal = ~torch.eye(6, dtype=torch.bool)
    torch.testing.assert_close(far.double(), exact, atol=1e-5, rtol=0.0)
    assert (near.double() - exact[:, :3])[off_diagonal[:, :3]].abs().max() < 1e-5
