"""Prediction: a mixture over posterior samples, streamed over rows; and joint function samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from deepwishart.noise import Noise

if TYPE_CHECKING:
    from deepwishart.models.deep_kernel_process import DeepKernelProcess

__all__ = ["FunctionSamples", "Predictive", "predict", "sample_functions"]

_BLOCK_ELEMENTS = 2**22  # elements of one samples x inducing x rows block
_KEEP_ELEMENTS = 2**24  # component means kept in memory rather than recomputed


class Predictive:
    r"""Mixture of Gaussians over posterior samples, independently for every row and column:

    .. math:: p(y_{nd}) = \frac1S \sum_s \mathcal N(y_{nd}; m_{snd}, v_{snd} + \sigma_d^2).

    Results have shape ``(N, D)``, or ``(N,)`` for a single target column given ``squeeze``. Small
    predictions keep their components; large ones recompute them in chunks of rows for every
    question asked, so memory does not grow with rows times samples.

    Args:
        components: maps a chunk of inputs to means and standard deviations ``(S, n, D)``.
        X: all inputs.
        num_samples: number of components S.
        num_outputs: number of columns D.
        chunk_rows: rows per chunk.
        squeeze: drop the last dimension when D is 1.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> prediction = dw.build("dwp", X, X.sin(), num_inducing=5).predict(X, num_samples=30)
    >>> prediction.mean.shape, prediction.log_prob(X.sin()).shape, prediction.sample(7).shape
    (torch.Size([20]), torch.Size([20]), torch.Size([7, 20]))
    >>> bool((prediction.quantile(0.05) < prediction.quantile(0.95)).all())
    True
    """

    def __init__(
        self,
        components: Callable[[Tensor], tuple[Tensor, Tensor]],
        X: Tensor,
        *,
        num_samples: int,
        num_outputs: int,
        chunk_rows: int,
        squeeze: bool = True,
    ) -> None:
        self._components = components
        self._X = X
        self.num_samples = num_samples
        self.num_outputs = num_outputs
        self._chunk_rows = chunk_rows
        self._squeeze = squeeze and num_outputs == 1
        self._kept: list[tuple[Tensor, Tensor]] | None = None
        if X.shape[0] * num_samples * num_outputs <= _KEEP_ELEMENTS:
            self._kept = list(self._chunks())

    def __len__(self) -> int:
        return self._X.shape[0]

    def components(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Chunks of component means and standard deviations, ``(S, n, D)`` each, in row order."""
        return iter(self._kept) if self._kept is not None else self._chunks()

    @property
    def mean(self) -> Tensor:
        r"""Predictive mean :math:`\frac1S\sum_s m_s`."""
        return self._gather(lambda mean, _: mean.mean(0))

    @property
    def variance(self) -> Tensor:
        """Predictive variance: mean of the variances plus variance of the means."""
        return self._gather(lambda mean, std: std.square().mean(0) + mean.var(0, correction=0))

    @property
    def stddev(self) -> Tensor:
        """Predictive standard deviation."""
        return self.variance.sqrt()

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of each row's targets, ``(N,)``: one mixture over all columns together."""
        targets = self._targets(y)

        def joint(mean: Tensor, std: Tensor, target: Tensor) -> Tensor:
            terms = (
                -0.5 * ((target - mean) / std).square() - std.log() - 0.5 * math.log(2 * math.pi)
            )
            return terms.sum(-1).logsumexp(0) - math.log(self.num_samples)

        result = self._X.new_empty(len(self))
        for rows, (mean, std) in self._slices():
            result[rows] = joint(mean, std, targets[rows])
        return result

    def cdf(self, y: Tensor) -> Tensor:
        """Marginal distribution function of each column at ``y``."""
        targets = self._targets(y)
        result = torch.empty_like(targets)
        for rows, (mean, std) in self._slices():
            result[rows] = _mixture_cdf(mean, std, targets[rows])
        return self._shape(result)

    def quantile(self, p: float | Tensor) -> Tensor:
        """Marginal quantile of each column, by bisection to full precision.

        Args:
            p: a probability, or a 1-D tensor of K probabilities.

        Returns:
            ``(N, D)`` (or ``(N,)``), with a leading dimension K for a tensor ``p``.
        """
        levels = torch.as_tensor(p, dtype=self._X.dtype, device=self._X.device)
        if not bool(((levels > 0) & (levels < 1)).all()):
            raise ValueError(f"quantile needs probabilities strictly between 0 and 1, got {p}.")
        if levels.ndim == 0:
            return self._gather(lambda mean, std: _mixture_quantile(mean, std, levels))
        return torch.stack([self.quantile(level) for level in levels])

    def sample(self, num_samples: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Independent draws of the targets, ``(num_samples, N, D)`` or ``(num_samples, N)``.

        A draw picks one posterior sample for all rows, then adds each row's own noise.
        """
        device = self._X.device
        which = torch.randint(self.num_samples, (num_samples,), generator=generator, device=device)
        drawn = self._X.new_empty(num_samples, len(self), self.num_outputs)
        for rows, (mean, std) in self._slices():
            m, s = mean[which], std[which]
            eps = torch.randn(m.shape, generator=generator, dtype=m.dtype, device=device)
            drawn[:, rows] = m + s * eps
        return drawn.squeeze(-1) if self._squeeze else drawn

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        for chunk in self._X.split(self._chunk_rows):
            yield self._components(chunk)

    def _slices(self) -> Iterator[tuple[slice, tuple[Tensor, Tensor]]]:
        """Chunks with the rows they belong to. Results are written into place: small results kept
        between large temporaries would fragment memory."""
        start = 0
        for mean, std in self.components():
            yield slice(start, start + mean.shape[1]), (mean, std)
            start += mean.shape[1]

    def _gather(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        result = self._X.new_empty(len(self), self.num_outputs)
        for rows, (mean, std) in self._slices():
            result[rows] = function(mean, std)
        return self._shape(result)

    def _shape(self, result: Tensor) -> Tensor:
        return result.squeeze(-1) if self._squeeze else result

    def _targets(self, y: Tensor) -> Tensor:
        y = torch.as_tensor(y, dtype=self._X.dtype, device=self._X.device)
        y = y.unsqueeze(-1) if y.ndim == 1 else y
        if y.shape != (len(self), self.num_outputs):
            raise ValueError(
                f"y must have {len(self)} rows and {self.num_outputs} columns, got {tuple(y.shape)}"
            )
        return y


def _mixture_cdf(mean: Tensor, std: Tensor, y: Tensor) -> Tensor:
    return torch.special.ndtr((y - mean) / std).mean(0)


def _mixture_quantile(mean: Tensor, std: Tensor, level: Tensor) -> Tensor:
    """The mixture's quantile lies between its components' smallest and largest quantile."""
    z = torch.special.ndtri(level)
    bounds = mean + z * std
    low, high = bounds.amin(0), bounds.amax(0)
    for _ in range(60 if mean.dtype == torch.float64 else 30):
        middle = 0.5 * (low + high)
        below = _mixture_cdf(mean, std, middle) < level
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return 0.5 * (low + high)


def predict(
    model: DeepKernelProcess, X: Tensor, num_samples: int, generator: torch.Generator | None
) -> Predictive:
    """See :meth:`deepwishart.models.DeepKernelProcess.predict`.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), num_inducing=5)
    >>> predict(model, X, num_samples=30, generator=None).stddev.shape
    torch.Size([20])
    """
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}.")
    frozen = model.snapshot()
    kind = {"dtype": model.dtype, "device": model.device}
    with torch.no_grad():
        states = frozen.sample_inducing(Noise(num_samples, generator=generator, **kind))  # type: ignore[arg-type]
    seed = int(torch.randint(2**62, (), generator=generator, device=model.device))

    @torch.no_grad()
    def components(chunk: Tensor) -> tuple[Tensor, Tensor]:
        # The same seed for every chunk: each posterior sample has one noise for all rows.
        source = torch.Generator(model.device).manual_seed(seed)
        noise = Noise(num_samples, generator=source, shared_rows=True, **kind)  # type: ignore[arg-type]
        rows: Any = frozen.scale_inputs(chunk)
        for layer, state in zip(frozen.layers, states[:-1], strict=True):
            rows = layer.sample_rows(state, rows, noise)  # type: ignore[operator]
        mean, variance = frozen.output.moments(states[-1], rows)
        shape = (num_samples, chunk.shape[0], frozen.num_outputs)
        std = frozen.likelihood.predictive_variance(variance).sqrt()
        return mean.expand(shape), std.expand(shape)

    largest = max(_num_inducing(frozen), 1)
    return Predictive(
        components,
        X,
        num_samples=num_samples,
        num_outputs=frozen.num_outputs,
        chunk_rows=max(1, _BLOCK_ELEMENTS // (num_samples * largest)),
    )


class FunctionSamples(NamedTuple):
    """Joint samples over rows: ``functions`` ``(S, N, D)``; ``layers`` holds, per hidden layer,
    features ``(S, N, width)`` or, for the deep inverse Wishart process, Gram matrices
    ``(S, N, N)``.

    >>> FunctionSamples(torch.zeros(3, 20, 1), layers=[torch.zeros(3, 20, 2)]).layers[0].shape
    torch.Size([3, 20, 2])
    """

    functions: Tensor
    layers: list[Tensor]


@torch.no_grad()
def sample_functions(
    model: DeepKernelProcess, X: Tensor, num_samples: int, generator: torch.Generator | None
) -> FunctionSamples:
    """See :meth:`deepwishart.models.DeepKernelProcess.sample_functions`.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, width=2, num_inducing=5)
    >>> samples = sample_functions(model, X, num_samples=3, generator=None)
    >>> samples.functions.shape, samples.layers[0].shape
    (torch.Size([3, 20, 1]), torch.Size([3, 20, 2]))
    """
    noise = Noise(num_samples, generator=generator, dtype=model.dtype, device=model.device)
    rows: Any = model.scale_inputs(X)
    states = model.sample_inducing(noise)
    latents = []
    for layer, state in zip(model.layers, states[:-1], strict=True):
        rows = layer.sample_rows(state, rows, noise, joint=True)  # type: ignore[operator]
        latents.append(rows if isinstance(rows, Tensor) else rows.diagonal)
    functions = model.output.sample_rows(states[-1], rows, noise, joint=True)
    return FunctionSamples(functions, latents)


def _num_inducing(model: DeepKernelProcess) -> int:
    if model.inducing_inputs is not None:
        return model.inducing_inputs.shape[0]
    owners = [*model.layers, model.output]
    return max(layer.inducing_inputs.shape[0] * layer.width for layer in owners)
