"""Compiled loops against plain PyTorch, and life without a compiler."""

import functools
import json
import os
import subprocess
import sys

import pytest
import torch

from deepwishart import _native, linalg
from deepwishart.linalg import GaussianKernel


def normal(*shape: int, seed: int = 0, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def values_and_gradients(function, inputs, plain):
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    outputs = function(*leaves, plain=plain)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    weights = [normal(*o.shape, seed=i + 50, dtype=o.dtype) for i, o in enumerate(outputs)]
    total = sum((o * w).sum() for o, w in zip(outputs, weights, strict=True))
    return [*outputs, *torch.autograd.grad(total, leaves)]


def test_the_native_library_is_in_use_where_there_is_a_compiler():
    assert _native.status() == "loaded"


def gaussian_condition(H, x, y, log_height, log_lengthscale, w, plain):
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    diagonal = log_height.exp().expand(y.shape[:-1])
    return linalg.condition(H, kernel, diagonal, w, plain=plain)


@pytest.mark.parametrize(
    "kernel_batch, batch", [((), ()), ((), (3,)), ((3,), (3,)), ((2, 2), (2, 2))]
)
@pytest.mark.parametrize("P, N", [(1, 1), (7, 30), (40, 9)])
def test_gaussian_condition(kernel_batch, batch, P, N):
    inputs = [
        0.1 * normal(*kernel_batch, P, P, seed=1).tril(),
        normal(*kernel_batch, P, 3, seed=2) + 5,
        normal(*kernel_batch, N, 3, seed=3) + 5,
        torch.tensor(1.5, dtype=torch.float64),
        torch.tensor(0.3, dtype=torch.float64),
        normal(*batch, P, 2, seed=4),
    ]
    fused = values_and_gradients(gaussian_condition, inputs, plain=False)
    plain = values_and_gradients(gaussian_condition, inputs, plain=True)
    for first, second in zip(fused, plain, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [3, 64, 101])
@pytest.mark.parametrize("use", ["lower", "inverse", "both"])
def test_cholesky_gradients(size, use):
    root = normal(2, size, size, seed=3) / size**0.5

    def function(r, plain):
        matrix = r @ r.mT + torch.eye(size, dtype=r.dtype)
        if use == "lower":
            return linalg.cholesky(matrix, plain=plain)
        factor = linalg.factor(matrix, plain=plain)
        return factor.inverse if use == "inverse" else tuple(factor)

    fused = values_and_gradients(function, [root], plain=False)
    plain = values_and_gradients(function, [root], plain=True)
    for first, second in zip(fused, plain, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_many_rows_in_pieces(batch, monkeypatch):
    monkeypatch.setattr(linalg.rows, "_CACHED_ROWS", 8)
    inputs = [
        0.1 * normal(*batch, 7, 7, seed=1).tril(),
        normal(*batch, 7, 3, seed=2),
        normal(*batch, 30, 3, seed=3),
        torch.tensor(1.5, dtype=torch.float64),
        torch.tensor(0.3, dtype=torch.float64),
        normal(*batch, 7, 2, seed=4),
    ]
    fused = values_and_gradients(gaussian_condition, inputs, plain=False)
    plain = values_and_gradients(gaussian_condition, inputs, plain=True)
    for first, second in zip(fused, plain, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


def positive(*batch: int, size: int, seed: int) -> torch.Tensor:
    root = normal(*batch, size, size, seed=seed) / size**0.5
    return root @ root.mT + torch.eye(size, dtype=torch.float64)


def bartlett_factor(samples: int, size: int, rank: int) -> torch.Tensor:
    factor = normal(samples, size, rank, seed=9).tril()
    factor.diagonal(dim1=-2, dim2=-1).abs_()
    return factor


def symmetrised(function):
    """Of the first argument only the symmetric part matters, as for kernel matrices."""

    def wrapped(first, *others, plain):
        return function(0.5 * (first + first.mT), *others, plain=plain)

    return wrapped


@symmetrised
def draw_root(K, V, q, A, plain):
    return linalg.draw_root(K, V, q, A, scale=0.25, degrees=5.0, plain=plain)[:4]


@symmetrised
def draw_layer(K, V, q, A, x, y, log_height, log_lengthscale, plain):
    """A layer's inducing points and its rows, as in training."""
    drawn = linalg.draw_root(K, V, q, A, scale=0.25, degrees=5.0, plain=plain)
    assert (drawn.closed is None) == (plain or K.ndim == 2)
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    rows = linalg.draw_rows(
        drawn.inverse,
        kernel,
        log_height.exp().expand(y.shape[:-1]),
        drawn.weights,
        normal(A.shape[0], y.shape[-2], A.shape[-1], seed=77).to(A.dtype),
        scale=0.25,
        closed=drawn.closed,
        plain=plain,
    )
    return rows, drawn.log_density, drawn.root


def root_inputs(size: int, rank: int, *batch: int) -> list[torch.Tensor]:
    return [
        positive(*batch, size=size, seed=1),
        normal(size, size, seed=2) / size**0.5,
        torch.tensor(0.3, dtype=torch.float64),
        bartlett_factor(3, size, rank),
    ]


def layer_inputs(size: int, rank: int, num_rows: int, *batch: int) -> list[torch.Tensor]:
    kernel, *others = root_inputs(size, rank, *batch)
    scalars = [torch.tensor(value, dtype=torch.float64) for value in (0.3, 0.2)]
    points = [normal(*batch, n, 2, seed=n) for n in (size, num_rows)]
    return [kernel + 2.0 * torch.eye(size, dtype=torch.float64), *others, *points, *scalars]


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("size, rank", [(1, 1), (5, 3), (70, 4), (210, 2)])
def test_draw_root(batch, size, rank):
    inputs = root_inputs(size, rank, *batch)
    fused = values_and_gradients(draw_root, inputs, plain=False)
    plain = values_and_gradients(draw_root, inputs, plain=True)
    for first, second in zip(fused, plain, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("size, rank, num_rows", [(1, 1, 1), (5, 3, 40), (70, 4, 9)])
def test_rows_drawn_from_the_closed_form(batch, size, rank, num_rows, monkeypatch):
    monkeypatch.setattr(linalg.rows, "_CACHED_ROWS", 16)
    inputs = layer_inputs(size, rank, num_rows, *batch)
    fused = values_and_gradients(draw_layer, inputs, plain=False)
    plain = values_and_gradients(draw_layer, inputs, plain=True)
    for first, second in zip(fused, plain, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_layer_passes_gradcheck(batch):
    leaves = [t.requires_grad_() for t in layer_inputs(4, 2, 5, *batch)]
    assert torch.autograd.gradcheck(lambda *x: draw_layer(*x, plain=False), leaves)


def test_single_precision_rows_agree_with_double():
    # Here the closed form differs: a factor in single precision, an inverse in double.
    kernel, *others = layer_inputs(30, 4, 50, 3)
    inputs = [10.0 * kernel, *others]  # so that no variance is floored, which dtypes do differently

    def in_single(*arguments, plain):
        drawn = draw_layer(*(argument.float() for argument in arguments), plain=plain)
        return tuple(part.double() for part in drawn)

    double = values_and_gradients(draw_layer, inputs, plain=False)
    single = values_and_gradients(in_single, inputs, plain=False)
    for first, second in zip(single, double, strict=True):
        scale = second.abs().max()
        torch.testing.assert_close(first / scale, second / scale, rtol=0, atol=1e-4)


def test_floored_variances_have_no_slope():
    # A row at an inducing point of an almost noiseless kernel has the smallest variance there is.
    x = normal(2, 6, 1, seed=3)
    zero = torch.tensor(0.0, dtype=torch.float64)
    K = linalg.gaussian_square(x, zero, zero - 3.0) * (1 + 1e-13)
    inverse = linalg.factor(K).inverse
    root = normal(2, 6, 2, seed=4)
    closed = linalg.closed_form(K, inverse, root, inverse @ root)
    kernel = GaussianKernel(x, x.clone().requires_grad_(), zero, zero - 3.0)
    noise = normal(2, 6, 2, seed=5)
    diagonal = torch.ones(2, 6, dtype=torch.float64)
    rows = linalg.draw_rows(
        inverse, kernel, diagonal, inverse @ root, noise, scale=1.0, closed=closed
    )
    torch.testing.assert_close(rows, root, rtol=0, atol=1e-5)
    (gradient,) = torch.autograd.grad(rows.sum(), kernel.right)
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("size, columns", [(1, 1), (5, 3), (70, 1), (210, 2)])
def test_observe(batch, size, columns):
    K = positive(*batch, size=size, seed=1)
    inputs = [K, normal(size, size, seed=2) / size**0.5, normal(size, columns, seed=3)]

    def function(K, M, v, plain):
        return tuple(linalg.observe(0.5 * (K + K.mT), M, v, scale=0.25, plain=plain))

    fused = values_and_gradients(function, inputs, plain=False)
    plain = values_and_gradients(function, inputs, plain=True)
    for first, second in zip(fused, plain, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)
    leaves = [t[..., :5, :5].detach().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(lambda *x: function(*x, plain=False), leaves)


def test_a_root_that_cannot_be_drawn_falls_back_to_more_jitter():
    K, V, q, A = root_inputs(4, 2, 3)
    singular = torch.ones_like(K)
    drawn = linalg.draw_root(singular, V, q, A, scale=1.0, degrees=2.0, what="layer 7")
    assert bool(drawn.root.isfinite().all())
    with pytest.raises(linalg.CholeskyError, match="layer 7 contains NaN"):
        linalg.draw_root(K * float("nan"), V, q, A, scale=1.0, degrees=2.0, what="layer 7")
    with pytest.raises(linalg.CholeskyError, match="the posterior contains NaN"):
        linalg.observe(K * float("nan"), V, A[0], what="the posterior")


def test_gaussian_condition_passes_gradcheck():
    inputs = [
        0.2 * normal(2, 4, 4, seed=1),
        normal(2, 4, 3, seed=2),
        normal(2, 5, 3, seed=3),
        torch.tensor(0.2, dtype=torch.float64),
        torch.tensor(-0.3, dtype=torch.float64),
        normal(2, 4, 2, seed=4),
    ]
    leaves = [t.requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(lambda *x: gaussian_condition(*x, plain=False), leaves)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("P", [1, 9, 60])
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_gaussian_square(batch, P, jitter):
    inputs = [
        normal(*batch, P, 3, seed=2) - 7,
        torch.tensor(-0.4, dtype=torch.float64),
        torch.tensor(0.2, dtype=torch.float64),
    ]
    square = functools.partial(linalg.gaussian_square, jitter=jitter)
    fused = values_and_gradients(square, inputs, plain=False)
    plain = values_and_gradients(square, inputs, plain=True)
    for first, second in zip(fused, plain, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)
    K = fused[0]
    assert torch.equal(K, K.mT)
    assert bool((K.diagonal(dim1=-2, dim2=-1) == K.diagonal(dim1=-2, dim2=-1).flatten()[0]).all())


@pytest.mark.parametrize("size", [1, 2, 50, 150, 260])  # both sides of the switch to LAPACK
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cholesky_and_inverse_at_every_size(size, dtype):
    root = normal(3, size, size, seed=size, dtype=dtype)
    matrix = root @ root.mT / size + torch.eye(size, dtype=dtype)
    lower, inverse = linalg.factor(matrix)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(lower @ lower.mT, matrix, rtol=tolerance, atol=tolerance)
    eye = torch.eye(size, dtype=dtype).expand_as(matrix)
    torch.testing.assert_close(lower @ inverse, eye, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_height", [-50.0, 0.0, 50.0])
def test_the_exponential_is_accurate_over_its_whole_range(dtype, log_height):
    # Distances from 0 to far beyond underflow, against PyTorch's exponential.
    x = torch.zeros(2, 1, 1, dtype=dtype)
    y = torch.linspace(0, 60, 5000, dtype=dtype).reshape(1, -1, 1).repeat(2, 1, 1)
    height = torch.tensor(log_height, dtype=dtype)
    kernel = GaussianKernel(x, y, height, torch.zeros_like(height))
    one = torch.ones(2, 1, 1, dtype=dtype)
    mean, _ = linalg.condition(one, kernel, height.exp().expand(2, 5000), one)
    exact = (log_height - 0.5 * y.double().square()).exp()[..., 0]
    normal_range = exact > 1e3 * torch.finfo(dtype).tiny
    error = ((mean[..., 0].double() - exact) / exact)[normal_range].abs().max()
    # The exponent itself is rounded to dtype, at magnitudes up to a few hundred.
    assert error < 400 * torch.finfo(dtype).eps
    assert bool((mean[..., 0][~normal_range] <= 1e4 * torch.finfo(dtype).tiny).all())


def test_nan_and_infinity_are_not_hidden():
    x = torch.full((1, 2, 1), float("nan"), dtype=torch.float64)
    K = linalg.gaussian_square(
        x, torch.tensor(0.0, dtype=x.dtype), torch.tensor(0.0, dtype=x.dtype)
    )
    assert bool(K[0, 0, 1].isnan())
    with pytest.raises(linalg.CholeskyError, match="NaN"):
        linalg.factor(torch.full((2, 3, 3), float("nan"), dtype=torch.float64))


SCRIPT = """
import json, sys, torch, deepwishart as dw
from deepwishart import _native
torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)
X = torch.randn(40, 3, generator=generator, dtype=torch.float64)
y = X.sin().sum(1)
result = {"status": _native.status()}
for process in ("dwp", "dgp", "dsvi", "diwp"):
    model = dw.build(process, X, y, depth=3, num_inducing=12)
    bound = dw.elbo(model, X, y, num_data=40, generator=torch.Generator().manual_seed(1))
    bound.backward()
    result[process] = [bound.item()] + [float(p.grad.sum()) for p in model.parameters()]
print(json.dumps(result))
"""


def run_script(**environment: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout)


def test_whole_models_agree_with_and_without_native_kernels(tmp_path):
    native = run_script()
    assert native.pop("status") == "loaded"
    off = run_script(DEEPWISHART_NATIVE="0")
    assert "DEEPWISHART_NATIVE=0" in off.pop("status")
    broken = run_script(CXX="/nonexistent/compiler", XDG_CACHE_HOME=str(tmp_path))
    assert "did not run" in broken.pop("status")
    assert broken == off
    for process, values in native.items():
        torch.testing.assert_close(
            torch.tensor(values, dtype=torch.float64),
            torch.tensor(off[process], dtype=torch.float64),
            rtol=1e-8,
            atol=1e-8,
        )
