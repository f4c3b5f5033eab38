"""The numerical seam: fused gradients against plain autograd, jitter, and clear failure."""

import pytest
import torch

from deepwishart import linalg


def positive_definite(*shape: int, dtype=torch.float64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(*shape, shape[-1], generator=generator, dtype=dtype)
    eye = torch.eye(shape[-1], dtype=dtype)
    return root @ root.mT / shape[-1] + 0.5 * eye


@pytest.mark.parametrize("shape", [(1,), (5,), (70,), (3, 40), (2, 2, 4)])
def test_factor_is_the_cholesky_factor_and_its_inverse(shape):
    matrix = positive_definite(*shape)
    lower, inverse = linalg.factor(matrix)
    torch.testing.assert_close(lower @ lower.mT, matrix)
    eye = torch.eye(shape[-1], dtype=matrix.dtype).expand_as(matrix)
    torch.testing.assert_close(lower @ inverse, eye, atol=1e-12, rtol=0)
    assert bool((inverse.triu(1) == 0).all())


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 5)])
def test_cholesky_and_factor_pass_gradcheck(shape):
    root = torch.randn(*shape, shape[-1], dtype=torch.float64, requires_grad=True)
    eye = torch.eye(shape[-1], dtype=torch.float64)

    def through(operation):
        return lambda r: operation(r @ r.mT + eye)

    assert torch.autograd.gradcheck(through(linalg.cholesky), root)
    assert torch.autograd.gradcheck(through(linalg.factor), root)


def fused_and_plain(function, *inputs):
    """Values and gradients of ``function(..., plain=False)`` and ``plain=True``."""
    results = []
    for plain in (False, True):
        leaves = [t.detach().clone().requires_grad_() for t in inputs]
        outputs = function(*leaves, plain=plain)
        generator = torch.Generator().manual_seed(9)
        total = sum(
            (o * torch.randn(o.shape, generator=generator, dtype=o.dtype)).sum() for o in outputs
        )
        results.append((*outputs, *torch.autograd.grad(total, leaves)))
    return zip(*results, strict=True)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_fused_factor_agrees_with_plain_autograd(batch):
    root = torch.randn(*batch, 60, 60, dtype=torch.float64) / 8

    def function(r, plain):
        return linalg.factor(r @ r.mT, jitter=1e-2, plain=plain)

    for fused, plain in fused_and_plain(function, root):
        torch.testing.assert_close(fused, plain, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "kernel_batch, batch", [((), ()), ((), (4,)), ((4,), (4,)), ((2, 3), (2, 3))]
)
def test_fused_condition_agrees_with_plain_autograd(kernel_batch, batch):
    generator = torch.Generator().manual_seed(1)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    inputs = (
        normal(*kernel_batch, 6, 6) / 6,
        normal(*kernel_batch, 6, 9) / 3,
        normal(*kernel_batch, 9).square() + 5,
        normal(*batch, 6, 2),
    )
    for fused, plain in fused_and_plain(linalg.condition, *inputs):
        torch.testing.assert_close(fused, plain, rtol=1e-10, atol=1e-10)
    leaves = [t.requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(linalg.condition, leaves)


def test_conditional_variance_never_vanishes():
    kernel = torch.ones(3, 3, dtype=torch.float64)
    inverse = linalg.factor(kernel, jitter=1e-14).inverse
    _, variance = linalg.condition(inverse, kernel, kernel.diagonal(), torch.zeros_like(kernel))
    assert bool((variance > 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_jitter_grows_only_where_needed(dtype):
    singular = torch.ones(5, 5, dtype=dtype)
    fine = positive_definite(5, dtype=dtype)
    lower = linalg.cholesky(torch.stack([singular, fine]))
    assert lower.dtype == dtype
    torch.testing.assert_close(lower[1] @ lower[1].mT, fine)
    error = (lower[0] @ lower[0].mT - singular).abs().max()
    assert 0 < error < 1e3 * linalg.default_jitter(dtype)


def test_gradient_flows_through_a_matrix_that_needed_jitter():
    root = torch.ones(4, 1, dtype=torch.float64, requires_grad=True)
    linalg.cholesky(root @ root.mT).sum().backward()
    assert bool(torch.isfinite(root.grad).all())


def test_an_indefinite_matrix_is_named_with_the_bound_that_was_tried():
    with pytest.raises(linalg.CholeskyError, match=r"kernel of layer 3.*1e-02.*float64") as error:
        linalg.cholesky(torch.diag(torch.tensor([1.0, -1.0])), what="the kernel of layer 3")
    assert "learning rate" in str(error.value)


def test_nan_is_reported_as_nan():
    with pytest.raises(linalg.CholeskyError, match="the prior of layer 1 contains NaN"):
        linalg.factor(torch.full((2, 2), float("nan")), what="the prior of layer 1")
