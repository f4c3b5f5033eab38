"""What the contracts of hidden and of output layers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from deepwishart.layers.base import Layer
from deepwishart.layers.output import OutputLayer
from deepwishart.randomness import Randomness, RowRandomness
from deepwishart.testing.requirements import Requirements

SAMPLES, MANY_SAMPLES, ROWS = 3, 4000, 4


class SamplingRequirements(Requirements, ABC):
    """Requirements on a layer that is sampled at inducing points with features ``(P, D)``."""

    layer: Any

    def __init__(
        self, layer: Layer | OutputLayer, inducing: Tensor, dtype: torch.dtype, seed: int
    ) -> None:
        super().__init__(layer, dtype, seed)
        self.layer = layer
        if inducing.ndim != 2:
            raise ValueError(f"inducing must have shape (P, D), got {tuple(inducing.shape)}.")
        # A kernel matrix may be close to singular, and rounding errors grow through its inverse.
        self.tolerance = 3e4 * self.eps
        self.inducing = inducing.detach().to(dtype=dtype, device=self.device)
        # Callers draw their points from seeds as well, and rows had better not be those points.
        self.generator.manual_seed(seed + 2**31)
        self.rows = self.normal(ROWS, inducing.shape[1])

    @abstractmethod
    def outcome(self, inducing: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """All that a sample with the same randomness says about rows, by name."""

    def whatever_the_layer(self) -> None:
        """What hidden and output layers have in common."""
        self.dtype_and_finiteness()
        self.determinism()
        self.nothing_is_stored()
        self.samples_of_the_layer_below()
        self.gradients()
        self.prior()

    def sample(self, num_samples: int = SAMPLES, integrate: bool = True) -> Any:
        return self.layer.sample(self.inducing, self.random(num_samples), integrate=integrate)

    def random(self, num_samples: int = SAMPLES, offset: int = 0) -> Randomness:
        generator = torch.Generator(self.device).manual_seed(self.seed + offset)
        return Randomness(num_samples, generator, self.dtype, self.device)

    def row_random(
        self, num_samples: int = SAMPLES, offset: int = 0, shared: bool = False
    ) -> RowRandomness:
        seed = self.seed + 100 + offset
        return RowRandomness(num_samples, seed, self.dtype, self.device, shared)

    def dtype_and_finiteness(self) -> None:
        for name, value in self.outcome(self.inducing, self.rows).items():
            self.require_value(name, value)

    def determinism(self) -> None:
        before = torch.random.get_rng_state()
        first = self.outcome(self.inducing, self.rows)
        self.require(
            torch.equal(before, torch.random.get_rng_state()),
            "it draws from PyTorch's global generator rather than from the randomness it is given",
        )
        second = self.outcome(self.inducing, self.rows)
        same = all(torch.equal(value, second[name]) for name, value in first.items())
        self.require(same, "the same randomness gives two answers")

    def nothing_is_stored(self) -> None:
        before = _attributes(self.subject)
        values = {name: value.clone() for name, value in self.subject.state_dict().items()}
        self.outcome(self.inducing, self.rows)
        after = _attributes(self.subject)
        changed = sorted(name for name in before | after if before.get(name) is not after.get(name))
        self.require(not changed, f"sampling changes {', '.join(changed)} of the layer")
        for name, value in self.subject.state_dict().items():
            self.require(torch.equal(value, values[name]), f"sampling changes {name} of the layer")

    def samples_of_the_layer_below(self) -> None:
        """A later layer's inputs have a dimension for samples. Equal samples are no samples."""
        first = self.outcome(self.inducing, self.rows)
        later = self.outcome(
            self.inducing.expand(SAMPLES, -1, -1).contiguous(),
            self.rows.expand(SAMPLES, -1, -1).contiguous(),
        )
        for name, value in first.items():
            what = f"{name} of the same inputs with and without a dimension for samples differ"
            self.require_same(value, later[name], what)

    def gradients(self) -> None:
        inducing = self.inducing.clone().requires_grad_()
        rows = self.rows.clone().requires_grad_()
        total = self.mixed(self.outcome(inducing, rows).values())
        parameters = {n: p for n, p in self.subject.named_parameters() if p.requires_grad}
        variables = {**parameters, "rows": rows, "inducing": inducing}
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
            total, list(variables.values()), allow_unused=True
        )
        for name, gradient in zip(variables, gradients, strict=True):
            if gradient is None or not gradient.any():
                # Layers with inducing inputs of their own ignore those of the layer below.
                self.require(name == "inducing", f"no gradient reaches {name}")
                continue
            self.require(gradient.isfinite().all(), f"the gradient of {name} is not finite")

    def prior(self) -> None:
        root = self.normal(SAMPLES, ROWS, ROWS)
        kernel_matrix = root @ root.mT + torch.eye(ROWS, dtype=self.dtype, device=self.device)
        sample = self.layer.prior(kernel_matrix).rsample(generator=self.random().generator)
        self.require(
            sample.shape[:2] == (SAMPLES, ROWS),
            f"a sample of its prior at {SAMPLES} x {ROWS} points has shape {tuple(sample.shape)}",
        )
        self.require_value("a sample of its prior", sample)

    def require_divergence(self, integrated: Tensor, drawn: Tensor) -> None:
        r"""Both have the mean :math:`-\mathrm{KL}(q \| p)`."""
        pair = [ratio.expand(MANY_SAMPLES).double() for ratio in (integrated, drawn)]
        for ratio in pair:
            allowance = 6.0 * ratio.std() / MANY_SAMPLES**0.5 + 1e3 * self.eps
            self.require(
                ratio.mean() <= allowance,
                f"log p - log q has a positive mean of {float(ratio.mean()):.2g}, which "
                "-KL(q || p) cannot have",
            )
        self.require_zero_mean(
            pair[1] - pair[0], "log p - log q with integrate=True and False differ in mean"
        )


def _attributes(layer: torch.nn.Module) -> dict[str, Any]:
    """Everything that hangs on a layer and its parts, by name."""
    found: dict[str, Any] = {}
    for prefix, module in layer.named_modules():
        for name, value in vars(module).items():
            found[f"{prefix}.{name}".lstrip(".")] = value
        for name, value in module.named_buffers(recurse=False):
            found[f"{prefix}.{name}".lstrip(".")] = value
    return found
