"""The contract of layers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from deepwishart.layers.base import GramInducing, GramRows, Layer, Rows
from deepwishart.noise import Noise
from deepwishart.testing.requirements import Requirements

__all__ = ["check_layer"]

_SAMPLES, _MANY_SAMPLES, _ROWS = 3, 4000, 4


def check_layer(
    layer: Layer, inducing: Tensor, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> None:
    r"""Check all that a model takes for granted about a layer.

    That :math:`\log p - \log q` has one value per posterior sample and a mean that is not positive,
    being :math:`-\mathrm{KL}(q \| p)`, whether or not inducing variables are integrated out. That a
    row depends on nothing but the inducing points and its own noise: not on the other rows, not on
    how a batch is cut into pieces; that rows sampled jointly have the same marginal distribution,
    and that rows at the inducing points are the inducing points. That a first layer, whose inputs
    have no samples, does what a later one would. That gradients are finite and reach every
    parameter; that the dtype is kept, all randomness comes from the noise, and nothing is stored on
    the layer.

    It cannot know whether the density is right. Test that where posterior and prior coincide, or
    against :mod:`scipy.stats`.

    Args:
        layer: the layer to check, which is copied and not changed.
        inducing: features of the inducing points, ``(P, D)``; few points make the check fast, and
            distinct ones keep it meaningful.
        dtype: the floating point type to check it in.
        seed: of the random rows and the noise.

    Raises:
        AssertionError: naming the layer and the violated property.

    Example:
        >>> from deepwishart.kernels import SquaredExponential
        >>> from deepwishart.layers import GPOutputLayer
        >>> points = torch.linspace(-1, 1, 5).unsqueeze(-1)
        >>> check_layer(GPOutputLayer(SquaredExponential(), points.sin()), points)
    """
    check = _LayerCheck(copy.deepcopy(layer).to(dtype), inducing, dtype, seed)
    check.shapes_and_dtype()
    check.determinism()
    check.nothing_is_stored()
    check.samples_of_the_layer_below()
    check.rows_are_alone()
    check.pieces_of_a_batch()
    check.gradients()
    check.prior()
    check.start()
    check.divergence()
    check.rows_at_inducing_points()
    check.joint_rows()


class _LayerCheck(Requirements):
    def __init__(self, layer: Layer, inducing: Tensor, dtype: torch.dtype, seed: int) -> None:
        super().__init__(layer, dtype, seed)
        self.layer = layer
        if inducing.ndim != 2:
            raise ValueError(f"inducing must have shape (P, D), got {tuple(inducing.shape)}.")
        # A kernel matrix may be close to singular, and rounding errors grow through its inverse.
        self.tolerance = 3e4 * self.eps
        self.inducing = inducing.detach().to(dtype=dtype, device=self.device)
        self.rows = self.normal(_ROWS, inducing.shape[1])

    def noise(self, num_samples: int = _SAMPLES, offset: int = 0, **options: Any) -> Noise:
        generator = torch.Generator(self.device).manual_seed(self.seed + offset)
        return Noise(num_samples, generator, self.dtype, self.device, **options)

    def sample(
        self, inducing: Tensor, rows: Tensor, noise: Noise, joint: bool = False
    ) -> tuple[Tensor, Rows]:
        state, log_ratio = self.layer.sample_inducing(inducing, noise)
        return log_ratio, self.layer.sample_rows(state, rows, noise, joint)

    def shapes_and_dtype(self) -> None:
        state, log_ratio = self.layer.sample_inducing(self.inducing, self.noise())
        self.require(
            tuple(log_ratio.shape) in ((), (_SAMPLES,)),
            f"log p - log q has shape {tuple(log_ratio.shape)}, not () or ({_SAMPLES},), for "
            f"{_SAMPLES} samples",
        )
        self.require(hasattr(state, "outputs"), "its state has no outputs for the next layer")
        for joint in (False, True):
            drawn = self.layer.sample_rows(state, self.rows, self.noise(), joint)
            self._row_shapes(drawn, joint)
            for value in (log_ratio, *_tensors(drawn)):
                self.require(value.dtype == self.dtype, f"turns {self.dtype} into {value.dtype}")
                self.require(value.isfinite().all(), "is not finite at generic points")

    def _row_shapes(self, drawn: Rows, joint: bool) -> None:
        found = [tuple(part.shape) for part in _tensors(drawn)]
        wanted: list[tuple[int, ...]] = [(_SAMPLES, _ROWS, *found[0][2:3])]
        if isinstance(drawn, GramRows):
            own = (_ROWS, _ROWS) if joint else (_ROWS,)
            wanted = [(_SAMPLES, len(self.inducing), _ROWS), (_SAMPLES, *own)]
        self.require(
            found == wanted, f"rows with joint={joint} have shapes {found} instead of {wanted}"
        )

    def determinism(self) -> None:
        before = torch.random.get_rng_state()
        first = self.sample(self.inducing, self.rows, self.noise())
        self.require(
            torch.equal(before, torch.random.get_rng_state()),
            "it draws from PyTorch's global generator rather than from the noise",
        )
        second = self.sample(self.inducing, self.rows, self.noise())
        same = torch.equal(first[0], second[0]) and all(
            torch.equal(a, b) for a, b in zip(_tensors(first[1]), _tensors(second[1]), strict=True)
        )
        self.require(same, "the same noise gives two answers")

    def nothing_is_stored(self) -> None:
        before = _attributes(self.layer)
        values = {name: value.clone() for name, value in self.layer.state_dict().items()}
        self.sample(self.inducing, self.rows, self.noise())
        after = _attributes(self.layer)
        changed = sorted(name for name in before | after if before.get(name) is not after.get(name))
        self.require(not changed, f"sampling changes {', '.join(changed)} of the layer")
        for name, value in self.layer.state_dict().items():
            self.require(torch.equal(value, values[name]), f"sampling changes {name} of the layer")

    def samples_of_the_layer_below(self) -> None:
        """A later layer's inputs have a dimension for samples. Equal samples are no samples."""
        log_ratio, drawn = self.sample(self.inducing, self.rows, self.noise())
        inducing = self.inducing.expand(_SAMPLES, -1, -1).contiguous()
        rows = self.rows.expand(_SAMPLES, -1, -1).contiguous()
        later_ratio, later = self.sample(inducing, rows, self.noise())
        what = "of the same inputs with and without a dimension for samples differ"
        self.require_close(
            later_ratio.expand(_SAMPLES), log_ratio.expand(_SAMPLES), f"log p - log q {what}"
        )
        for first, second in zip(_tensors(later), _tensors(drawn), strict=True):
            self.require_close(first, second, f"rows {what}")

    def rows_are_alone(self) -> None:
        state, _ = self.layer.sample_inducing(self.inducing, self.noise())
        shared = {"offset": 1, "shared_rows": True}
        whole = self.layer.sample_rows(state, self.rows, self.noise(**shared))
        for index in range(_ROWS):
            chosen = slice(index, index + 1)
            alone = self.layer.sample_rows(state, self.rows[chosen], self.noise(**shared))
            for part, expected in zip(_tensors(alone), _tensors(_pick(whole, chosen)), strict=True):
                self.require_close(part, expected, "a row depends on the other rows of its batch")

    def pieces_of_a_batch(self) -> None:
        state, _ = self.layer.sample_inducing(self.inducing, self.noise())
        whole = self.layer.sample_rows(state, self.rows, self.noise(offset=1))
        for chosen in (slice(0, 1), slice(1, _ROWS)):
            noise = self.noise(offset=1, row_index=chosen, total_rows=_ROWS)
            piece = self.layer.sample_rows(state, self.rows[chosen], noise)
            for part, expected in zip(_tensors(piece), _tensors(_pick(whole, chosen)), strict=True):
                self.require_close(
                    part, expected, "pieces of a batch differ from the batch (Noise.row_index)"
                )

    def gradients(self) -> None:
        inducing = self.inducing.clone().requires_grad_()
        rows = self.rows.clone().requires_grad_()
        log_ratio, drawn = self.sample(inducing, rows, self.noise())
        total = log_ratio.sum()
        for part in _tensors(drawn):
            total = total + (part * self.normal(*part.shape)).sum()
        parameters = {n: p for n, p in self.layer.named_parameters() if p.requires_grad}
        variables = {**parameters, "rows": rows, "inducing": inducing}
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
            total, list(variables.values()), allow_unused=True
        )
        for name, gradient in zip(variables, gradients, strict=True):
            if gradient is None:
                # Layers with inducing inputs of their own ignore those of the layer below.
                self.require(name == "inducing", f"no gradient reaches {name}")
                continue
            self.require(gradient.isfinite().all(), f"the gradient of {name} is not finite")

    def prior(self) -> None:
        root = self.normal(_SAMPLES, _ROWS, _ROWS)
        kernel_matrix = root @ root.mT + torch.eye(_ROWS, dtype=self.dtype, device=self.device)
        law: Any = self.layer.prior(kernel_matrix)
        sample = law.rsample(generator=self.noise().generator)
        self.require(
            sample.shape[:2] == (_SAMPLES, _ROWS),
            f"a sample of its prior at {_SAMPLES} x {_ROWS} points has shape {tuple(sample.shape)}",
        )
        self.require(sample.dtype == self.dtype, f"its prior is of {sample.dtype}")
        self.require(sample.isfinite().all(), "a sample of its prior is not finite")

    def start(self) -> None:
        _, drawn = self.sample(self.inducing, self.rows, self.noise())
        width = drawn.shape[-1] if isinstance(drawn, Tensor) else self.inducing.shape[1]
        features = self.normal(len(self.inducing), width) / width**0.5
        original, self.layer = self.layer, copy.deepcopy(self.layer)
        try:
            start = self.layer.start_from(self.inducing, features)
            values = start.gram if isinstance(start, GramInducing) else start
            self.require(
                isinstance(values, Tensor) and bool(values.isfinite().all()),
                "start_from returns no finite starting values for the next layer",
            )
            log_ratio, drawn = self.sample(self.inducing, self.rows, self.noise())
            finite = all(part.isfinite().all() for part in (log_ratio, *_tensors(drawn)))
            self.require(finite, "after start_from, samples are not finite")
        finally:
            self.layer = original

    @torch.no_grad()
    def divergence(self) -> None:
        _, ratio = self.layer.sample_inducing(self.inducing, self.noise(_MANY_SAMPLES))
        _, drawn = self.layer.draw_inducing(self.inducing, self.noise(_MANY_SAMPLES))
        ratio, drawn = ratio.expand(_MANY_SAMPLES).double(), drawn.expand(_MANY_SAMPLES).double()
        allowance = 6.0 * ratio.std() / _MANY_SAMPLES**0.5 + 1e3 * self.eps
        self.require(
            ratio.mean() <= allowance,
            f"log p - log q has a positive mean of {float(ratio.mean()):.2g}, which -KL(q || p) "
            "cannot have",
        )
        self.require_zero_mean(
            drawn - ratio, "log p - log q of sample_inducing and of draw_inducing differ in mean"
        )

    @torch.no_grad()
    def rows_at_inducing_points(self) -> None:
        state, _ = self.layer.draw_inducing(self.inducing, self.noise())
        if state.outputs is None:
            return
        drawn = self.layer.sample_rows(state, self.inducing, self.noise(offset=1))
        outputs = state.outputs
        found, expected = drawn, outputs
        if isinstance(drawn, GramRows) and isinstance(outputs, GramInducing):
            found, expected = drawn.cross, outputs.gram
        self.require_close(
            found,
            expected,
            "rows at the inducing points are not the inducing points",
            tolerance=30.0 * max(self.layer.jitter, self.eps) ** 0.5,
        )

    @torch.no_grad()
    def joint_rows(self) -> None:
        state, _ = self.layer.sample_inducing(self.inducing, self.noise(_MANY_SAMPLES))
        pair = [
            _pick(self.layer.sample_rows(state, self.rows, noise, joint), slice(0, 1), joint)
            for joint, noise in (
                (False, self.noise(_MANY_SAMPLES, offset=1)),
                (True, self.noise(_MANY_SAMPLES, offset=2)),
            )
        ]
        for alone, together in zip(*map(_tensors, pair), strict=True):
            for power, name in ((1, "means"), (2, "mean squares")):
                self.require_zero_mean(
                    alone**power - together**power,
                    f"a row sampled alone and jointly with others has two different {name}",
                )


def _tensors(rows: Rows) -> tuple[Tensor, ...]:
    return (rows,) if isinstance(rows, Tensor) else tuple(rows)


def _pick(rows: Rows, chosen: slice, joint: bool = False) -> Rows:
    if isinstance(rows, Tensor):
        return rows[..., chosen, :]
    own = rows.diagonal.diagonal(dim1=-2, dim2=-1) if joint else rows.diagonal
    return GramRows(rows.cross[..., chosen], own[..., chosen])


def _attributes(layer: Layer) -> dict[str, Any]:
    """Everything that hangs on a layer and its parts, by name."""
    found: dict[str, Any] = {}
    for prefix, module in layer.named_modules():
        for name, value in vars(module).items():
            found[f"{prefix}.{name}".lstrip(".")] = value
        for name, value in module.named_buffers(recurse=False):
            found[f"{prefix}.{name}".lstrip(".")] = value
    return found
