"""Samples from the posterior of a whole model, asked about rows: moments, or joint functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from deepwishart.kernels import GramRows
from deepwishart.layers.base import GaussianSample
from deepwishart.predict import Predictive
from deepwishart.random import RowRandomness, standard_normal

if TYPE_CHECKING:
    from deepwishart.model import DeepKernelProcess, ProcessSample

__all__ = ["FunctionSamples", "Posterior"]

_BLOCK_ELEMENTS = 2**22  # elements of one samples x inducing x rows block


class FunctionSamples(NamedTuple):
    """Joint samples over rows: ``functions`` ``(S, N, D)``; ``layers`` holds, per hidden layer,
    features ``(S, N, width)`` or, for the deep inverse Wishart process, Gram matrices
    ``(S, N, N)``.

    >>> FunctionSamples(torch.zeros(3, 20, 1), layers=[torch.zeros(3, 20, 2)]).layers[0].shape
    torch.Size([3, 20, 2])
    """

    functions: Tensor
    layers: list[Tensor]

    def rotated(self, generator: torch.Generator | None = None) -> FunctionSamples:
        r"""The same Gram matrices in another basis: features :math:`F_s U_s` with a random
        orthogonal matrix :math:`U_s` for each sample and layer.

        The features of a deep Wishart process are one root of a sampled Gram matrix, triangular at
        the inducing points; in a rotated one, the one to draw, no direction is special. Not for
        the Gram matrices of a deep inverse Wishart process.
        """

        def rotate(features: Tensor) -> Tensor:
            shape = torch.Size([len(features), features.shape[-1], features.shape[-1]])
            noise = standard_normal(shape, features.dtype, features.device, generator)
            q, r = torch.linalg.qr(noise)
            # Signs of R make Q uniform among orthogonal matrices (Mezzadri, 2007).
            return features @ (q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2))

        return self._replace(layers=[rotate(features) for features in self.layers])


@dataclass(frozen=True)
class Posterior:
    """Posterior samples of every layer; what a trained model knows, fixed.

    Args:
        sample: the layers at their inducing points.
        function: the output given those.
        random: randomness of the rows, the same for every row of a posterior sample, so that an
            answer for a row does not depend on the rows asked for with it.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> posterior = dw.build("dwp", X, X.sin(), num_inducing=5).posterior(num_samples=30)
    >>> posterior.predict(X).stddev.shape, posterior.sample_functions(X).functions.shape
    (torch.Size([20]), torch.Size([30, 20, 1]))
    """

    sample: ProcessSample
    function: GaussianSample
    random: RowRandomness

    @classmethod
    @torch.no_grad()
    def draw(
        cls, model: DeepKernelProcess, num_samples: int, generator: torch.Generator | None
    ) -> Posterior:
        """Sample the layers and, where the output is conditioned on the training rows, visit
        those."""
        frozen = model.snapshot()
        random = frozen.randomness(num_samples, generator)
        sample = frozen.sample(random)
        summary = None
        if frozen.output.needs_rows:
            X, y = frozen.training_inputs, frozen.training_targets
            if X is None or y is None:
                raise ValueError(
                    "This model predicts from its training rows and has none: train it, or call "
                    "model.remember(X, y)."
                )
            summary = sample.summarise(X, y, random.rows())
        function = sample.output.predictor(summary, frozen.likelihood)
        return cls(sample, function, random.rows(shared=True))

    @property
    def model(self) -> DeepKernelProcess:
        """What was sampled."""
        return self.sample.model

    @property
    def num_samples(self) -> int:
        """Number of samples S."""
        return self.sample.num_samples

    @torch.no_grad()
    def latents(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent functions at ``X``, ``(S, N, num_latents)`` each."""
        mean, variance = self.function.moments(self.sample.last_rows(X, self.random))
        shape = (self.num_samples, len(X), self.function.layer.width)
        return mean.expand(shape), variance.expand(shape)

    def predict(self, X: Tensor, offset: Tensor | None = None) -> Predictive:
        """Predictive distribution of the targets at ``X``, ``(N, num_features)``.

        ``offset``, ``(N, 1)`` or ``(N, num_latents)``, is added to the latent functions; for counts
        it is the logarithm of the exposure.
        """
        X, likelihood = self.model.check_inputs(X), self.model.likelihood
        nodes = likelihood.num_nodes * likelihood.num_latents
        largest = self.num_samples * max(self.model.num_inducing, nodes)
        return Predictive(self, X, chunk_rows=max(1, _BLOCK_ELEMENTS // largest), offset=offset)

    @torch.no_grad()
    def sample_functions(self, X: Tensor) -> FunctionSamples:
        """Functions drawn jointly over all rows, one per posterior sample."""
        X = self.model.check_inputs(X)
        random = RowRandomness(
            self.num_samples, self.random.seed, self.random.dtype, self.random.device
        )
        _, *layers = walk = list(self.sample.walk(X, random, joint=True))
        last = self.sample.entering_output(walk)
        functions = self.function.rows(last, random.at(len(layers)), joint=True)
        latents = [rows.own if isinstance(rows, GramRows) else rows for rows in layers]
        shape = (self.num_samples, *functions.shape[-2:])
        return FunctionSamples(functions.expand(shape), latents)
