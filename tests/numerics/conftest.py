"""Every operation twice: its compiled path, and the plain one that is the reference."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from deepwishart import native

from ..conftest import plain_paths


@pytest.fixture(autouse=True)
def native_code_is_loaded():
    """Without it, these tests would compare the plain path with itself."""
    assert native.status() == "loaded"


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def positive(*batch: int, size: int, seed: int) -> Tensor:
    """Well conditioned, so that what remains of a difference is a mistake."""
    root = normal(*batch, size, size, seed=seed) / size**0.5
    return root @ root.mT + torch.eye(size, dtype=torch.float64)


def symmetric(matrix: Tensor) -> Tensor:
    """Of kernel matrices only the symmetric part matters."""
    return 0.5 * (matrix + matrix.mT)


def values_and_gradients(
    function: Callable[..., Tensor | Sequence[Tensor]], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """The outputs, and the gradients of a random combination of them."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    outputs = function(*leaves)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    weights = [normal(*o.shape, seed=i + 50, dtype=o.dtype) for i, o in enumerate(outputs)]
    total = sum((o * w).sum() for o, w in zip(outputs, weights, strict=True))
    slopes = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [*outputs, *slopes]


def assert_close(found: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> None:
    """Every tensor to within ``tolerance`` of its largest entry, or of 0.001 if that is larger:
    some gradients are zero but for rounding."""
    for index, (first, second) in enumerate(zip(found, expected, strict=True)):
        assert first.shape == second.shape, index
        scale = second.abs().max().clamp_min(1e-3)
        error = ((first.to(second.dtype) - second).abs().max() / scale).item()
        assert error < tolerance, f"tensor {index} of {len(expected)} is off by {error:.1e}"


def assert_paths_agree(
    function: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Sequence[Tensor],
    tolerance: float = 1e-9,
) -> None:
    """Values and gradients of the compiled path against the plain one."""
    compiled = values_and_gradients(function, inputs)
    with plain_paths():
        plain = values_and_gradients(function, inputs)
    assert_close(compiled, plain, tolerance)


def assert_precisions_agree(
    function: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Sequence[Tensor],
    tolerance: float = 1e-4,
) -> None:
    """The compiled path in single precision against itself in double."""

    def in_single(*leaves: Tensor) -> list[Tensor]:
        outputs = function(*(leaf.float() for leaf in leaves))
        outputs = [outputs] if isinstance(outputs, Tensor) else outputs
        assert all(o.dtype == torch.float32 for o in outputs)
        return [o.double() for o in outputs]

    single = values_and_gradients(in_single, inputs)
    assert_close(single, values_and_gradients(function, inputs), tolerance)


def assert_gradcheck(function: Callable[..., object], inputs: Sequence[Tensor]) -> None:
    assert torch.autograd.gradcheck(function, [t.detach().clone().requires_grad_() for t in inputs])
