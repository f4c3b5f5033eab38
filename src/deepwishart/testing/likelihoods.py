"""The contract of likelihoods."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError
from torch.func import functional_call

from deepwishart.testing.requirements import Requirements

__all__ = ["check_likelihood"]

_SAMPLES, _ROWS = 3, 5
_REACH, _STEP = 20.0, 1.0 / 256  # of the grid for integrals, in asinh of the units of the scale


def check_likelihood(
    likelihood: nn.Module, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> None:
    r"""Check all that objectives and predictions take for granted about a likelihood.

    ``expected_log_prob`` with zero variance is the log density :math:`\log p(y \mid f)` itself, and
    everything else has to follow from it, by numerical integration over one column at a time:

    .. math:: \int p(y \mid f)\, dy = 1, \qquad \int y\, p(y \mid f)\, dy = f, \qquad
              \int (y - f)^2\, p(y \mid f)\, dy + v = \texttt{predictive\_variance}(v),

    .. math:: \texttt{expected\_log\_prob}(y, m, v)
              = \int \mathcal N(f; m, v) \log p(y \mid f)\, df.

    Besides, shapes, dtype and gradients have to be right, output columns independent, and
    ``log_noise`` a parameter with one entry for each: models ask it for dtype, device and number
    of outputs.

    Args:
        likelihood: the likelihood to check, which is copied and not changed.
        dtype: the floating point type to check it in; integrals are always done in double.
        seed: of the random targets and moments.

    Raises:
        AssertionError: naming the likelihood and the violated property.

    Example:
        >>> from deepwishart.likelihoods import Gaussian
        >>> check_likelihood(Gaussian(num_outputs=2, noise=0.3))
    """
    check = _LikelihoodCheck(copy.deepcopy(likelihood).to(dtype), dtype, seed)
    check.parameters()
    check.shapes_and_dtype()
    exact = _LikelihoodCheck(copy.deepcopy(likelihood).double(), torch.float64, seed)
    exact.density()
    exact.expectation()
    exact.gradients()


class _LikelihoodCheck(Requirements):
    def __init__(self, likelihood: nn.Module, dtype: torch.dtype, seed: int) -> None:
        super().__init__(likelihood, dtype, seed)
        self.likelihood = likelihood

    def parameters(self) -> None:
        log_noise = getattr(self.likelihood, "log_noise", None)
        self.require(
            isinstance(log_noise, nn.Parameter) and log_noise.ndim == 1,
            "log_noise is not a parameter of shape (D,), one entry for each output column",
        )

    @property
    def num_outputs(self) -> int:
        return int(self.likelihood.log_noise.numel())  # type: ignore[operator]

    def log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        found: Tensor = self.likelihood.expected_log_prob(y, mean, variance)  # type: ignore[operator]
        return found

    def predictive_variance(self, variance: Tensor) -> Tensor:
        found: Tensor = self.likelihood.predictive_variance(variance)  # type: ignore[operator]
        return found

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        y = self.normal(_ROWS, self.num_outputs)
        mean = self.normal(_SAMPLES, _ROWS, self.num_outputs)
        return y, mean, 0.1 + self.normal(_SAMPLES, _ROWS, self.num_outputs).square()

    def shapes_and_dtype(self) -> None:
        y, mean, variance = self.moments()
        for spread in (variance, variance[..., :1], torch.zeros_like(variance)):
            value, total = self.log_prob(y, mean, spread), self.predictive_variance(spread)
            self.require(
                value.shape == (_SAMPLES, _ROWS),
                f"expected_log_prob has shape {tuple(value.shape)} instead of "
                f"{(_SAMPLES, _ROWS)} for means of shape {tuple(mean.shape)}",
            )
            self.require(
                torch.broadcast_shapes(total.shape, mean.shape) == mean.shape,
                f"predictive_variance of {tuple(spread.shape)} has shape {tuple(total.shape)}",
            )
            for name, found in (("expected_log_prob", value), ("predictive_variance", total)):
                self.require(
                    found.dtype == self.dtype, f"{name} turns {self.dtype} into {found.dtype}"
                )
                self.require(found.isfinite().all(), f"{name} is not finite at generic values")
        self.require(
            torch.equal(self.log_prob(y, mean, variance), self.log_prob(y, mean, variance)),
            "expected_log_prob gives two answers to one question",
        )

    @torch.no_grad()
    def density(self) -> None:
        r"""Mass, mean and variance of each column, with the others held at ``y``.

        With :math:`p(y) = \prod_d p_d(y_d)`, an integral over column d alone is the column's own
        times the density of the others, and that of all columns is known.
        """
        y, mean, _ = self.moments()
        y, mean = y[:1], mean[0, :1]
        at_y = self.log_prob(y, mean, torch.zeros_like(mean))
        grid = torch.arange(-_REACH, _REACH, _STEP, dtype=self.dtype, device=self.device)
        deviation, weight = grid.sinh(), _STEP * grid.cosh()
        total = self.predictive_variance(torch.zeros_like(mean)).expand_as(mean)
        log_mass = -(self.num_outputs - 1) * at_y
        for column in range(self.num_outputs):
            targets = y.expand(len(grid), -1).clone()
            targets[:, column] = mean[0, column] + deviation
            means = mean.expand(len(grid), -1)
            density = self.log_prob(targets, means, torch.zeros_like(means)).exp() * weight
            mass = density.sum()
            log_mass = log_mass + mass.log()
            self.require_close(
                (density * deviation).sum() / mass,
                torch.zeros_like(mass),
                "the mean of a target is not the value of the function",
                tolerance=1e-4,
            )
            # Heavy tails leave a little of the second moment beyond any grid.
            ratio = (density * deviation.square()).sum() / mass / total[0, column]
            self.require_close(
                ratio, torch.ones_like(ratio), "predictive_variance(0) is not that of p(y|f)", 1e-3
            )
        self.require_close(log_mass.exp(), torch.ones_like(log_mass), "p(y|f) has no mass 1", 1e-5)

    @torch.no_grad()
    def expectation(self) -> None:
        y, mean, variance = self.moments()
        zero = torch.zeros_like(variance)
        at_mean = self.log_prob(y, mean, zero)
        grid = torch.linspace(-12.0, 12.0, 4801, dtype=self.dtype, device=self.device)
        weight = (-0.5 * grid.square()).exp() * 0.005 / math.sqrt(2 * math.pi)
        combined = at_mean
        for column in range(self.num_outputs):
            spread, shift = zero.clone(), torch.zeros(len(grid), *mean.shape).to(mean)
            spread[..., column] = variance[..., column]
            shift[..., column] = grid[:, None, None] * variance[..., column].sqrt()
            values = self.log_prob(y, mean + shift, zero.expand_as(shift))
            expected = (weight[:, None, None] * values).sum(0)
            found = self.log_prob(y, mean, spread)
            # Room for quadrature; a forgotten variance misses by far more.
            self.require_close(
                found, expected, "expected_log_prob is not the expectation of log p(y|f)", 1e-3
            )
            combined = combined + found - at_mean
        self.require_close(
            self.log_prob(y, mean, variance),
            combined,
            "expected_log_prob is not a sum over output columns",
        )
        self.require_close(
            self.predictive_variance(variance) - self.predictive_variance(zero),
            variance,
            "predictive_variance does not grow with the variance of the function",
        )

    def gradients(self) -> None:
        y, mean, variance = self.moments()
        parameters = {name: p.detach() for name, p in self.likelihood.named_parameters()}
        mirror = _Mirror(self.likelihood)

        def function(mean: Tensor, variance: Tensor, *values: Tensor) -> Tensor:
            named = {f"likelihood.{n}": value for n, value in zip(parameters, values, strict=True)}
            found: Tensor = functional_call(mirror, named, (y, mean, variance))
            return found

        inputs = [x.clone().requires_grad_() for x in (mean, variance, *parameters.values())]
        try:
            torch.autograd.gradcheck(function, inputs)
        except GradcheckError as error:
            raise AssertionError(
                f"{type(self.likelihood).__name__}: the gradient of expected_log_prob differs from "
                f"finite differences: {str(error).splitlines()[0]}"
            ) from error


class _Mirror(nn.Module):
    """``expected_log_prob`` as a forward pass, which is what can be called functionally."""

    def __init__(self, likelihood: nn.Module) -> None:
        super().__init__()
        self.likelihood = likelihood

    def forward(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        found: Tensor = self.likelihood.expected_log_prob(y, mean, variance)  # type: ignore[operator]
        return found
