"""What all contracts share: a subject, and sentences about what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError, gradcheck


class Requirements:
    """Requirements on ``subject``, a copy of the caller's module, which every complaint names;
    ``seed`` is that of the random inputs."""

    def __init__(self, subject: nn.Module, dtype: torch.dtype, seed: int) -> None:
        self.subject, self.dtype, self.seed = subject, dtype, seed
        self.generator = torch.Generator().manual_seed(seed)
        parameter = next(subject.parameters(), None)
        self.device = torch.device("cpu") if parameter is None else parameter.device
        self.eps = torch.finfo(dtype).eps
        self.tolerance = 1e3 * self.eps

    def normal(self, *shape: int) -> Tensor:
        """Standard normal inputs, the same numbers for every dtype and device."""
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return drawn.to(dtype=self.dtype, device=self.device)

    def require(self, condition: bool | Tensor, violation: str) -> None:
        """Raise an :class:`AssertionError` that says ``violation``, unless ``condition``."""
        if not bool(condition):
            raise AssertionError(f"{type(self.subject).__name__}: {violation}.")

    def require_shape(self, name: str, value: Tensor, *allowed: tuple[int, ...]) -> None:
        found, wanted = tuple(value.shape), " or ".join(map(str, allowed))
        self.require(found in allowed, f"{name} has shape {found} instead of {wanted}")

    def require_value(self, name: str, value: Tensor) -> None:
        """Require the dtype of the check, and finite numbers."""
        self.require(value.dtype == self.dtype, f"{name} turns {self.dtype} into {value.dtype}")
        self.require(value.isfinite().all(), f"{name} is not finite at generic points")

    def mixed(self, values: Iterable[Tensor]) -> Tensor:
        """A random combination of all entries, whose gradient is everybody's."""
        return torch.stack([(self.normal(*v.shape) * v).sum() for v in values]).sum()

    def require_finite_gradient(self, total: Tensor, inputs: list[Tensor], violation: str) -> None:
        """Require that inputs and parameters have finite gradients, where they have any."""
        variables = [*inputs, *(p for p in self.subject.parameters() if p.requires_grad)]
        for gradient in torch.autograd.grad(total, variables, allow_unused=True):
            self.require(gradient is None or gradient.isfinite().all(), violation)

    def require_slopes(
        self, function: Callable[..., Any], inputs: tuple[Tensor, ...], what: str
    ) -> None:
        """Require that gradients in inputs and parameters are finite differences."""
        variables = tuple(x.detach().clone().requires_grad_() for x in inputs)
        # Parameters are varied in place, where the function finds them.
        parameters = [p.requires_grad_() for p in self.subject.parameters()]
        try:
            gradcheck(lambda *x: function(*x[: len(inputs)]), (*variables, *parameters))
        except GradcheckError as error:
            self.require(
                False, f"{what} differs from finite differences: {str(error).splitlines()[0]}"
            )

    def require_close(
        self, actual: Tensor, expected: Tensor, violation: str, tolerance: float | None = None
    ) -> None:
        """Require equality up to ``tolerance``, relative where values exceed one."""
        self.require(
            actual.shape == expected.shape,
            f"{violation} (shapes {tuple(actual.shape)} and {tuple(expected.shape)})",
        )
        tolerance = self.tolerance if tolerance is None else tolerance
        actual, expected = actual.detach(), expected.detach()
        error = float((actual - expected).abs().max() / expected.abs().max().clamp(min=1.0))
        self.require(error <= tolerance, f"{violation} (they differ by {error:.1e})")

    def require_same(self, first: Tensor, second: Tensor, violation: str) -> None:
        """As :meth:`require_close`, where one may lack the dimension for samples."""
        first, second = torch.broadcast_tensors(first, second)
        self.require_close(first, second, violation)

    def require_zero_mean(self, values: Tensor, violation: str, allowance: float = 0.0) -> None:
        """Require that the mean over the first dimension is zero up to sampling noise, or within
        the ``allowance``."""
        values = values.detach().double().reshape(len(values), -1)
        error = values.std(0) / len(values) ** 0.5
        # What is constant up to rounding has no sampling noise to be measured by.
        error = error + 1e3 * self.eps * values.abs().amax(0).clamp(min=1.0) + allowance
        z = float((values.mean(0) / error).abs().max())
        self.require(z < 6.0, f"{violation} (by {z:.0f} standard errors)")
