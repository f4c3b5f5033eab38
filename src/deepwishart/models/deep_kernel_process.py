"""The one model class: inputs, hidden layers, an output layer and a likelihood."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deepwishart.layers.base import GaussianRows, Layer
from deepwishart.likelihoods import Gaussian
from deepwishart.noise import Noise
from deepwishart.predict import FunctionSamples, Predictive, predict, sample_functions

__all__ = ["DeepKernelProcess"]


class DeepKernelProcess(nn.Module):
    r"""A deep kernel process: :math:`X \to K \to G_1 \to K \to \dots \to f \to y`.

    All four processes are this class with different layers; :func:`deepwishart.build` puts one
    together. The input Gram matrix is :math:`G_0 = X X^\top / \nu_0` (paper, Eq. def:deepiw), so
    rows enter as :math:`X / \sqrt{\nu_0}`.

    Args:
        process: name of the process, for printing and saving.
        layers: hidden layers, in order; empty for a sparse GP.
        output: output layer.
        likelihood: observation model.
        inducing_inputs: :math:`X_i`, ``(P, nu_0)``, shared by all layers, or ``None`` where each
            layer has its own (``dsvi``).
        num_features: number of input columns :math:`\nu_0`.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> model.predict(X[:3]).mean.shape, model.sample_functions(X, 4).functions.shape
    (torch.Size([3]), torch.Size([4, 20, 1]))
    """

    def __init__(
        self,
        process: str,
        layers: Sequence[Layer],
        output: GaussianRows,
        likelihood: Gaussian,
        *,
        inducing_inputs: Tensor | None,
        num_features: int,
    ) -> None:
        super().__init__()
        self.process = process
        self.layers = nn.ModuleList(layers)
        self.output = output
        self.likelihood = likelihood
        self.num_features = num_features
        self.inducing_inputs = None if inducing_inputs is None else nn.Parameter(inducing_inputs)

    @property
    def depth(self) -> int:
        """Number of layers, the output layer included."""
        return len(self.layers) + 1

    @property
    def dtype(self) -> torch.dtype:
        """Floating point type of the parameters, and of everything computed from them."""
        return self.likelihood.log_noise.dtype

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self.likelihood.log_noise.device

    def check_inputs(self, X: Tensor) -> Tensor:
        """``X`` as this model needs it; a clear error if it does not fit."""
        if not isinstance(X, Tensor) or X.ndim != 2 or X.shape[1] != self.num_features:
            found = tuple(X.shape) if isinstance(X, Tensor) else type(X).__name__
            raise ValueError(
                f"X must be a tensor of shape (rows, {self.num_features}), got {found}."
            )
        return X.to(dtype=self.dtype, device=self.device)

    def check_targets(self, y: Tensor, num_rows: int) -> Tensor:
        """``y`` as a ``(rows, D)`` tensor; a clear error if it does not fit."""
        y = y.unsqueeze(-1) if y.ndim == 1 else y
        if y.shape != (num_rows, self.num_outputs):
            raise ValueError(
                f"y must have shape ({num_rows}, {self.num_outputs})"
                f"{f' or ({num_rows},)' if self.num_outputs == 1 else ''}, got {tuple(y.shape)}."
            )
        return y.to(dtype=self.dtype, device=self.device)

    @property
    def num_outputs(self) -> int:
        """Number of target columns."""
        return self.likelihood.log_noise.numel()

    def scale_inputs(self, X: Tensor) -> Tensor:
        r""":math:`F_0 = X / \sqrt{\nu_0}`, so that :math:`G_0 = F_0 F_0^\top`."""
        return X / math.sqrt(self.num_features)

    def inducing_start(self) -> Tensor | None:
        """The inducing points as they enter the first layer."""
        return None if self.inducing_inputs is None else self.scale_inputs(self.inducing_inputs)

    def sample_inducing(self, noise: Noise) -> list[Any]:
        """One posterior sample of every layer at the inducing points, output layer last."""
        inducing: Any = self.inducing_start()
        states = []
        for layer in [*self.layers, self.output]:
            state, _ = layer.sample_inducing(inducing, noise)
            states.append(state)
            inducing = state.outputs
        return states

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
        return predict(self, self.check_inputs(X), num_samples, generator)

    def sample_functions(
        self, X: Tensor, num_samples: int = 10, generator: torch.Generator | None = None
    ) -> FunctionSamples:
        """Functions drawn jointly over all rows, with every layer's features or Gram matrix.

        Args:
            X: inputs ``(N, num_features)``; the cost is cubic in N.
            num_samples: number of functions.
            generator: randomness; PyTorch's default generator if ``None``.
        """
        return sample_functions(self, self.check_inputs(X), num_samples, generator)

    def snapshot(self) -> DeepKernelProcess:
        """A detached copy that later training does not change."""
        return copy.deepcopy(self).requires_grad_(False)

    def extra_repr(self) -> str:
        """Process and depth, for ``print``."""
        return f"process={self.process!r}, depth={self.depth}"
