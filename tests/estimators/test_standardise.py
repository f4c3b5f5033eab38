"""Standardisation that neither overflows nor divides by nothing, and is exact in JSON."""

import json

import numpy as np
import pytest

from deepwishart.estimators import Standardiser


@pytest.mark.parametrize("factor", [1e-300, 1.0, 1e300])
def test_any_magnitude(factor):
    values = factor * np.random.RandomState(0).normal(3.0, 2.0, size=(50, 3))
    scaling = Standardiser.from_dict(json.loads(json.dumps(Standardiser.fit(values).to_dict())))
    standard = scaling.forward(values)
    np.testing.assert_array_equal(standard, Standardiser.fit(values).forward(values))
    np.testing.assert_allclose(standard.mean(0), 0, atol=1e-14)
    np.testing.assert_allclose(standard.std(0), 1, rtol=1e-13)
    np.testing.assert_allclose(scaling.inverse(standard), values, rtol=1e-13)
    np.testing.assert_allclose(scaling.scale / factor, (values / factor).std(0), rtol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 1e-30, -7.0, 0.1, 1e30])
def test_constant_column(constant):
    values = np.full((7, 1), constant)
    scaling = Standardiser.fit(values)
    np.testing.assert_array_equal(scaling.forward(values), 0.0)
    np.testing.assert_array_equal(scaling.inverse(np.zeros((7, 1))), values)
    assert scaling.scale[0] == (abs(constant) or 1.0)


def test_small_variation_around_a_large_mean_is_kept():
    values = 1e8 + np.array([[0.0], [1e-3], [2e-3]])
    standard = Standardiser.fit(values).forward(values)
    np.testing.assert_allclose(standard.std(), 1, rtol=1e-9)


def test_a_few_far_values_do_not_set_a_robust_scale():
    random = np.random.default_rng(0)
    near = 5.0 + 2.0 * random.standard_normal((2_000, 2))
    far = near.copy()
    far[:3, 1] = 1e8
    scaling = Standardiser.fit(far, robust=True)
    plain = Standardiser.fit(near)
    np.testing.assert_allclose(scaling.scale, plain.scale, rtol=0.1)
    centre = scaling.inverse(np.zeros((1, 2)))
    np.testing.assert_allclose(centre, plain.inverse(np.zeros((1, 2))), rtol=0.1)
    np.testing.assert_array_equal(scaling.forward(far)[:, 0], plain.forward(near)[:, 0])
    np.testing.assert_allclose(scaling.inverse(scaling.forward(far)), far, rtol=1e-6)
    mostly_zero = np.r_[np.zeros(90), np.full(10, 1e6)][:, None]  # without quartiles to go by
    assert Standardiser.fit(mostly_zero, robust=True).scale == Standardiser.fit(mostly_zero).scale
