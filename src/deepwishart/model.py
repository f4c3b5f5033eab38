r"""The one model class, and the walk: posterior samples of all layers, and rows sent through."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from deepwishart._support.arguments import tensor
from deepwishart._support.parameters import Declaration, Declarations
from deepwishart.layers import (
    GramRows,
    Inducing,
    Layer,
    LayerSample,
    OutputLayer,
    OutputSample,
    Rows,
)
from deepwishart.layers.base import Summary, add_summaries
from deepwishart.likelihoods import Likelihood
from deepwishart.posterior import FunctionSamples, Posterior
from deepwishart.predict import Predictive
from deepwishart.random import BLOCK_ROWS, Randomness, RowRandomness

if TYPE_CHECKING:
    from deepwishart.spec import ModelSpec

__all__ = ["DeepKernelProcess", "ProcessSample"]

Points = TypeVar("Points", Inducing, Rows)
_CHUNK_ELEMENTS = 2**24  # of the samples x inducing points x rows blocks of all layers together


class DeepKernelProcess(nn.Module):
    r"""A deep kernel process: :math:`X \to K \to G_1 \to K \to \dots \to f \to y`.

    All four processes are this class with different layers; :func:`deepwishart.build` puts one
    together. The input Gram matrix is :math:`G_0 = X X^\top / \nu_0` (paper, Eq. def:deepiw), so
    rows enter as :math:`X / \sqrt{\nu_0}`.

    Args:
        process: name of the process, for printing and saving.
        layers: hidden layers, in order; empty for a sparse GP.
        output: output layer, with one column for each of the likelihood's latent functions.
        likelihood: observation model.
        inducing_inputs: :math:`X_i`, ``(P, nu_0)``, shared by all layers, or ``None`` where each
            layer has its own (``dsvi``).
        num_features: number of input columns :math:`\nu_0`.
        num_inducing: number of inducing points, where layers have their own.
        joins_inputs: whether layers above the first see the inputs beside the layer below.
        spec: what made the model.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> model.predict(X[:3]).mean.shape, model.sample_functions(X, 4).functions.shape
    (torch.Size([3]), torch.Size([4, 20, 1]))
    """

    declares: ClassVar[Declarations] = {"inducing_inputs": Declaration("inducing")}
    #: What the model is, where :class:`~deepwishart.spec.ModelSpec` made it of a process by name.
    spec: ModelSpec | None
    training_inputs: Tensor | None
    training_targets: Tensor | None

    def __init__(
        self,
        process: str,
        layers: Sequence[Layer],
        output: OutputLayer,
        likelihood: Likelihood,
        *,
        inducing_inputs: Tensor | None,
        num_features: int,
        num_inducing: int | None = None,
        joins_inputs: bool = False,
        spec: ModelSpec | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.joins_inputs = joins_inputs
        self.process = process
        self.layers = nn.ModuleList(layers)
        self.output = output
        self.likelihood = likelihood
        self.num_features = num_features
        self.inducing_inputs = None if inducing_inputs is None else nn.Parameter(inducing_inputs)
        own = len(inducing_inputs) if inducing_inputs is not None else 0
        self.num_inducing = own if num_inducing is None else num_inducing
        self.register_buffer("training_inputs", None)
        self.register_buffer("training_targets", None)

    @property
    def hidden(self) -> list[Layer]:
        """The hidden layers, in order."""
        return [cast(Layer, layer) for layer in self.layers]

    @property
    def depth(self) -> int:
        """Number of layers, the output layer included."""
        return len(self.layers) + 1

    @property
    def num_outputs(self) -> int:
        """Number of target columns."""
        return self.likelihood.num_outputs

    @property
    def dtype(self) -> torch.dtype:
        """Floating point type of the parameters, and of everything computed from them."""
        return self._like.dtype

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self._like.device

    @property
    def _like(self) -> Tensor:
        """A parameter; all have the same dtype and device."""
        inducing = self.inducing_inputs
        return next(self.parameters()) if inducing is None else inducing

    def check_inputs(self, X: Tensor) -> Tensor:
        """``X`` as this model needs it; a clear error if it does not fit."""
        X = tensor("X", X)
        if X.ndim != 2 or X.shape[1] != self.num_features:
            raise ValueError(
                f"X must be a tensor of shape (rows, {self.num_features}), got {tuple(X.shape)}."
            )
        if not len(X):
            raise ValueError("X has no rows.")
        return self._finite("X", X)

    def check_targets(self, y: Tensor, num_rows: int) -> Tensor:
        """``y`` as a ``(rows, D)`` tensor; a clear error if it does not fit."""
        columns = self.likelihood.num_columns
        y = tensor("y", y)
        y = y.unsqueeze(-1) if y.ndim == 1 else y
        if y.shape != (num_rows, columns):
            raise ValueError(
                f"y must have shape ({num_rows}, {columns})"
                f"{f' or ({num_rows},)' if columns == 1 else ''}, got {tuple(y.shape)}."
            )
        y = self._finite("y", y)
        if not math.isfinite(y.detach().square().sum()):
            raise ValueError("y has values whose squares are infinite; divide it by a constant.")
        return y

    def check_data(self, X: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Both, as this model needs them."""
        X = self.check_inputs(X)
        return X, self.check_targets(y, len(X))

    def _finite(self, name: str, values: Tensor) -> Tensor:
        """In this model's precision, in which large numbers may be infinite."""
        values = values.to(self._like)
        # One pass says it as a rule; a sum of finite numbers may overflow.
        if not math.isfinite(values.detach().sum()) and not torch.isfinite(values).all():
            raise ValueError(f"{name} has NaN or infinite values; remove or impute them.")
        return values

    def scale_inputs(self, X: Tensor) -> Tensor:
        r""":math:`F_0 = X / \sqrt{\nu_0}`, so that :math:`G_0 = F_0 F_0^\top`."""
        return X / math.sqrt(self.num_features)

    def first_inducing(self) -> Tensor:
        """The inducing points as they enter the first layer; none where layers have their own."""
        if self.inducing_inputs is None:
            return torch.empty(0, self.num_features, dtype=self.dtype, device=self.device)
        return self.scale_inputs(self.inducing_inputs)

    def join(self, latents: Points, inputs: Tensor | GramRows) -> Points | Tensor:
        """What the layer above sees of some points: a layer there, and where
        :attr:`joins_inputs` the inputs beside it, ``(..., N, width + num_features)``."""
        if not self.joins_inputs:
            return latents
        if not (isinstance(latents, Tensor) and isinstance(inputs, Tensor)):
            raise TypeError("Inputs can be joined to features, and not to a Gram matrix.")
        inputs = inputs.expand(*latents.shape[:-1], -1)
        return torch.cat([latents, inputs], dim=-1)

    def randomness(self, num_samples: int, generator: torch.Generator | None = None) -> Randomness:
        """Randomness for this model's dtype and device."""
        return Randomness(num_samples, generator, self.dtype, self.device)

    def sample(self, random: Randomness, *, integrate: bool = True) -> ProcessSample:
        """Posterior samples of every layer at the inducing points, the first half of Algorithm 1.

        Args:
            random: source of randomness, which says how many samples.
            integrate: integrate out what can be, see :meth:`deepwishart.layers.Layer.sample`.
        """
        layers = tuple(self.sample_hidden(random, integrate=integrate))
        first = self.first_inducing()
        inducing = self.join(layers[-1].inducing, first) if layers else first
        output = self.output.sample(inducing, random, integrate=integrate)
        return ProcessSample(self, layers, output, random.num_samples)

    def sample_hidden(self, random: Randomness, *, integrate: bool = True) -> Iterator[LayerSample]:
        """The hidden layers' part of :meth:`sample`, one by one.

        A layer that integrates its inducing variables out does so row by row, which is a bound only
        where rows are independent given the layers. An output layer that sums over all rows ties
        them together, so variables are drawn then.
        """
        integrate = integrate and not self.output.needs_rows
        inducing: Inducing = self.first_inducing()
        for layer in self.hidden:
            sample = layer.sample(inducing, random, integrate=integrate)
            yield sample
            inducing = self.join(sample.inducing, self.first_inducing())

    def remember(self, X: Tensor, y: Tensor) -> None:
        """Keep the rows that predictions condition on, where the output layer needs them."""
        if self.output.needs_rows:
            self.training_inputs, self.training_targets = self.check_data(X, y)

    def posterior(
        self, num_samples: int = 100, generator: torch.Generator | None = None
    ) -> Posterior:
        """Posterior samples of the whole model, to be asked about any rows.

        Args:
            num_samples: number of samples.
            generator: randomness; PyTorch's default generator if ``None``.
        """
        return Posterior.draw(self, num_samples, generator)

    def predict(
        self, X: Tensor, num_samples: int = 100, generator: torch.Generator | None = None
    ) -> Predictive:
        """Predictive distribution of the targets at ``X``, a
        :class:`~deepwishart.predict.Predictive`.

        Every row of a posterior sample uses the same noise, so a row's prediction does not
        depend on the other rows.

        Args:
            X: inputs ``(N, num_features)``.
            num_samples: number of posterior samples, the components of the mixture.
            generator: randomness; PyTorch's default generator if ``None``.
        """
        return self.posterior(num_samples, generator).predict(X)

    def sample_functions(
        self, X: Tensor, num_samples: int = 10, generator: torch.Generator | None = None
    ) -> FunctionSamples:
        """Functions drawn jointly over all rows, with every layer's features or Gram matrix.

        Args:
            X: inputs ``(N, num_features)``; the cost is cubic in N.
            num_samples: number of functions.
            generator: randomness; PyTorch's default generator if ``None``.
        """
        return self.posterior(num_samples, generator).sample_functions(X)

    def snapshot(self) -> DeepKernelProcess:
        """A detached copy that later training does not change."""
        return copy.deepcopy(self).requires_grad_(False)

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """As ``load_state_dict``, for models with any number of training rows."""
        for name in ("training_inputs", "training_targets"):
            if name in tensors:
                setattr(self, name, torch.empty_like(tensors[name], device=self.device))
        self.load_state_dict(tensors)

    def extra_repr(self) -> str:
        """Process and depth, for ``print``."""
        return f"process={self.process!r}, depth={self.depth}"


@dataclass(frozen=True)
class ProcessSample:
    r"""Samples of every layer at the inducing points, :math:`G^1_{ii}, \dots, G^L_{ii} \sim
    \mathrm Q`, from which rows follow one by one.

    Args:
        model: the process.
        layers: samples of its hidden layers, in order.
        output: that of its output layer.
        num_samples: S.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> random = dw.Randomness(num_samples=4)
    >>> sample = dw.build("dwp", X, X.sin(), depth=3, num_inducing=5).sample(random)
    >>> [tuple(rows.shape) for rows in sample.walk(X, random.rows())]
    [(20, 1), (4, 20, 1), (4, 20, 1)]
    """

    model: DeepKernelProcess
    layers: tuple[LayerSample, ...]
    output: OutputSample
    num_samples: int

    @property
    def log_ratio(self) -> Tensor:
        r""":math:`\sum_\ell \log P(G^\ell_{ii} \mid \cdot) - \log Q(G^\ell_{ii} \mid \cdot)`, the
        output layer included; ``(S,)`` or ``()``."""
        return sum((layer.log_ratio for layer in self.layers), start=self.output.log_ratio)

    def walk(self, X: Tensor, random: RowRandomness, joint: bool = False) -> Iterator[Rows]:
        """The rows ``X`` as they enter the first layer, and as they leave every hidden one.

        Args:
            X: inputs ``(N, num_features)``.
            random: their randomness.
            joint: sample rows with their full covariance; the cost is cubic in N.
        """
        inputs = self.model.scale_inputs(X)
        rows: Rows = inputs
        yield rows
        for index, layer in enumerate(self.layers):
            latents = layer.rows(rows, random.at(index), joint)
            yield latents
            rows = self.model.join(latents, inputs)

    def last_rows(self, X: Tensor, random: RowRandomness, joint: bool = False) -> Rows:
        """The rows as they enter the output layer."""
        return self.entering_output(list(self.walk(X, random, joint)))

    def entering_output(self, walk: Sequence[Rows]) -> Rows:
        """The rows as they enter the output layer, from all that :meth:`walk` gave."""
        inputs, *latents = walk
        return self.model.join(latents[-1], inputs) if latents else inputs

    def summarise(
        self,
        X: Tensor,
        y: Tensor,
        random: RowRandomness,
        *,
        joint: bool = False,
        chunk_rows: int | None = None,
    ) -> Summary:
        """The output layer's sums over rows, in memory that does not grow with them.

        Many rows are visited in chunks. For the gradient each chunk is visited again, when the
        gradient of the sums is known: one pass forth, one back.

        Args:
            X: inputs ``(N, num_features)``.
            y: targets ``(N, D)``.
            random: randomness of the rows.
            joint: as in :meth:`walk`; there are no chunks then.
            chunk_rows: rows at a time, a multiple of 1,024; chosen by the size of the model if
                ``None``.
        """

        def visit(start: int, inputs: Tensor, targets: Tensor) -> Summary:
            part = random.part(random.first_row + start, random.total_rows or len(X))
            rows = self.last_rows(inputs, part, joint)
            return self.output.summarise(rows, targets, self.model.likelihood)

        size = chunk_rows or self._chunk_rows()
        if joint or len(X) <= size:
            return visit(0, X, y)
        return add_summaries(
            checkpoint(
                visit, start, X[start : start + size], y[start : start + size], use_reentrant=False
            )
            for start in range(0, len(X), size)
        )

    def _chunk_rows(self) -> int:
        per_row = self.num_samples * self.model.num_inducing * self.model.depth
        return max(1, _CHUNK_ELEMENTS // (per_row * BLOCK_ROWS)) * BLOCK_ROWS
