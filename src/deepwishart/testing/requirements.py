"""What contracts share: a subject, and sentences about what is wrong with it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError, gradcheck

from deepwishart.layers.base import Layer, OutputLayer
from deepwishart.random import Randomness, RowRandomness

SAMPLES, MANY_SAMPLES, ROWS = 3, 4000, 4


class Requirements:
    """Requirements on ``subject``, of which a copy is checked, and which every complaint names;
    ``seed`` is that of the random inputs."""

    subject: Any

    def __init__(self, subject: nn.Module, dtype: torch.dtype, seed: int) -> None:
        self.subject, self.dtype, self.seed = copy.deepcopy(subject).to(dtype), dtype, seed
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

    def require_equal(self, actual: Tensor, expected: Tensor, violation: str) -> None:
        self.require(torch.equal(actual, expected), violation)

    def require_value(self, name: str, value: Tensor, *shapes: tuple[int, ...]) -> None:
        """Require the dtype of the check, finite numbers, and one of the ``shapes`` if given."""
        found, wanted = tuple(value.shape), " or ".join(map(str, shapes))
        fits = not shapes or found in shapes
        self.require(fits, f"{name} has shape {found} instead of {wanted}")
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
            reason = str(error).splitlines()[0]
            self.require(False, f"{what} differs from finite differences: {reason}")

    def require_close(
        self,
        actual: Tensor,
        expected: Tensor,
        violation: str,
        tolerance: float | None = None,
        broadcast: bool = False,
    ) -> None:
        """Require equality up to ``tolerance``, relative where values exceed one; with
        ``broadcast``, one may lack the dimension for samples."""
        actual, expected = actual.detach(), expected.detach()
        if broadcast:
            actual, expected = torch.broadcast_tensors(actual, expected)
        shapes = f"shapes {tuple(actual.shape)} and {tuple(expected.shape)}"
        self.require(actual.shape == expected.shape, f"{violation} ({shapes})")
        error = float((actual - expected).abs().max() / expected.abs().max().clamp(min=1.0))
        close = error <= (self.tolerance if tolerance is None else tolerance)
        self.require(close, f"{violation} (they differ by {error:.1e})")

    def require_zero_mean(self, values: Tensor, violation: str, allowance: float = 0.0) -> None:
        """Require that the mean over the first dimension is zero up to sampling noise, or within
        the ``allowance``."""
        values = values.detach().double().reshape(len(values), -1)
        error = values.std(0) / len(values) ** 0.5
        # What is constant up to rounding has no sampling noise to be measured by.
        error = error + 1e3 * self.eps * values.abs().amax(0).clamp(min=1.0) + allowance
        z = float((values.mean(0) / error).abs().max())
        self.require(z < 6.0, f"{violation} (by {z:.0f} standard errors)")


class SamplingRequirements(Requirements, ABC):
    """Requirements on a layer that is sampled at inducing points with features ``(P, D)``."""

    def __init__(
        self, layer: Layer | OutputLayer, inducing: Tensor, dtype: torch.dtype, seed: int
    ) -> None:
        super().__init__(layer, dtype, seed)
        if inducing.ndim != 2:
            raise ValueError(f"inducing must have shape (P, D), got {tuple(inducing.shape)}.")
        # A kernel matrix may be close to singular, and rounding errors grow through its inverse, by
        # how much depends on the processor.
        self.tolerance = max(3e4 * self.eps, 1e-10)
        self.inducing = inducing.detach().to(dtype=dtype, device=self.device)
        # Callers draw their points from seeds as well, and rows had better not be those points.
        self.generator.manual_seed(seed + 2**31)
        self.rows = self.normal(ROWS, inducing.shape[1])

    @abstractmethod
    def outcome(self, inducing: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """All that a sample with the same randomness says about rows, by name."""

    def whatever_the_layer(self) -> None:
        """What hidden and output layers have in common."""
        self.values_and_determinism()
        self.nothing_is_stored()
        self.samples_of_the_layer_below()
        self.gradients()
        self.prior()

    def sample(self, num_samples: int = SAMPLES, integrate: bool = True) -> Any:
        return self.subject.sample(self.inducing, self.random(num_samples), integrate=integrate)

    def both_samples(self, kind: type) -> list[Any]:
        """With variables integrated out and drawn, right in type and in the shape of the ratio."""
        samples = [self.sample(integrate=integrate) for integrate in (True, False)]
        for sample in samples:
            self.require(isinstance(sample, kind), f"sample returns a {type(sample).__name__}")
            self.require_value("log p - log q", sample.log_ratio, (), (SAMPLES,))
        return samples

    def random(self, num_samples: int = SAMPLES) -> Randomness:
        generator = torch.Generator(self.device).manual_seed(self.seed)
        return Randomness(num_samples, generator, self.dtype, self.device)

    def row_random(
        self, num_samples: int = SAMPLES, offset: int = 0, shared: bool = False
    ) -> RowRandomness:
        seed = self.seed + 100 + offset
        return RowRandomness(num_samples, seed, self.dtype, self.device, shared)

    def values_and_determinism(self) -> None:
        before = torch.random.get_rng_state()
        first = self.outcome(self.inducing, self.rows)
        for name, value in first.items():
            self.require_value(name, value)
        what = "it draws from PyTorch's global generator, not from the randomness it is given"
        self.require_equal(before, torch.random.get_rng_state(), what)
        for name, value in self.outcome(self.inducing, self.rows).items():
            self.require_equal(value, first[name], "the same randomness gives two answers")

    def nothing_is_stored(self) -> None:
        before = _attributes(self.subject)
        values = {name: value.clone() for name, value in self.subject.state_dict().items()}
        self.outcome(self.inducing, self.rows)
        after = _attributes(self.subject)
        changed = {name for name in before | after if before.get(name) is not after.get(name)}
        found = self.subject.state_dict().items()
        changed |= {name for name, value in found if not torch.equal(value, values[name])}
        self.require(not changed, f"sampling changes {', '.join(sorted(changed))} of the layer")

    def samples_of_the_layer_below(self) -> None:
        """A later layer's inputs have a dimension for samples. Equal samples are no samples."""
        first = self.outcome(self.inducing, self.rows)
        inputs = (x.expand(SAMPLES, -1, -1).contiguous() for x in (self.inducing, self.rows))
        later = self.outcome(*inputs)
        for name, value in first.items():
            what = f"{name} of the same inputs with and without a dimension for samples differ"
            self.require_close(value, later[name], what, broadcast=True)

    def gradients(self) -> None:
        inducing, rows = (x.clone().requires_grad_() for x in (self.inducing, self.rows))
        total = self.mixed(self.outcome(inducing, rows).values())
        parameters = {n: p for n, p in self.subject.named_parameters() if p.requires_grad}
        variables = {**parameters, "rows": rows, "inducing": inducing}
        found: Any = torch.autograd.grad(total, list(variables.values()), allow_unused=True)
        for name, gradient in zip(variables, found, strict=True):
            if gradient is None or not gradient.any():
                # Layers with inducing inputs of their own ignore those of the layer below.
                self.require(name == "inducing", f"no gradient reaches {name}")
                continue
            self.require(gradient.isfinite().all(), f"the gradient of {name} is not finite")

    def prior(self) -> None:
        root = self.normal(SAMPLES, ROWS, ROWS)
        kernel_matrix = root @ root.mT + torch.eye(ROWS, dtype=self.dtype, device=self.device)
        layer = self.subject
        parts: Any = layer.priors if isinstance(layer, OutputLayer) else [layer]
        for part in parts:
            sample = part.prior(kernel_matrix).rsample(generator=self.random().generator)
            violation = f"a sample of its prior at {SAMPLES} x {ROWS} points has shape "
            self.require(sample.shape[:2] == (SAMPLES, ROWS), violation + str(tuple(sample.shape)))
            self.require_value("a sample of its prior", sample)

    @torch.no_grad()
    def divergence(self) -> list[Any]:
        r"""Many samples that are integrated, and many that are drawn; the mean of
        :math:`\log p - \log q` is :math:`-\mathrm{KL}(q \| p)` for both."""
        samples = [self.sample(MANY_SAMPLES, integrate) for integrate in (True, False)]
        pair = [sample.log_ratio.expand(MANY_SAMPLES).double() for sample in samples]
        for ratio in pair:
            allowance = 6.0 * ratio.std() / MANY_SAMPLES**0.5 + 1e3 * self.eps
            violation = f"a positive mean of {ratio.mean():.2g}, which -KL(q || p) cannot have"
            self.require(ratio.mean() <= allowance, f"log p - log q has {violation}")
        violation = "log p - log q with integrate=True and False differ in mean"
        self.require_zero_mean(pair[1] - pair[0], violation)
        return samples


def _attributes(layer: nn.Module) -> dict[str, Any]:
    """Everything that hangs on a layer and its parts, by name."""
    return {
        f"{prefix}.{name}".lstrip("."): value
        for prefix, module in layer.named_modules()
        for name, value in [*vars(module).items(), *module.named_buffers(recurse=False)]
    }
