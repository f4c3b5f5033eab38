"""Deep kernel processes as surrogates for Bayesian optimisation with BoTorch.

Needs BoTorch: ``pip install 'deepwishart[botorch]'``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from deepwishart.estimators import DeepKernelRegressor
from deepwishart.likelihoods import Gaussian
from deepwishart.numerics import linalg

try:
    from botorch.models.model import Model
    from botorch.posteriors import Posterior
    from botorch.sampling.get_sampler import GetSampler
    from botorch.sampling.normal import IIDNormalSampler
except ImportError as error:
    raise ImportError(
        f"deepwishart.botorch needs BoTorch ({error}): pip install 'deepwishart[botorch]'."
    ) from error

__all__ = ["DeepKernelModel", "MixturePosterior"]

_Moments = tuple[Tensor, Tensor]
_SMALLEST = 1e-10  # variance of a standardised outcome, where rounding would make it negative


class DeepKernelModel(Model):
    r"""A fitted regressor that BoTorch can optimise: in acquisition functions that sample
    (:class:`~botorch.acquisition.logei.qLogExpectedImprovement`) and for Thompson sampling
    (:class:`~botorch.generation.sampling.MaxPosteriorSampling`).

    Inputs and outcomes are in the units of the data. After new observations, fit again, which
    ``warm_start=True`` makes short; there is no ``condition_on_observations``.

    Args:
        regressor: a fitted :class:`~deepwishart.DeepKernelRegressor` with
            ``likelihood="gaussian"``.
        num_samples: posterior samples S of the hidden layers, the components of every answer.
        seed: of those samples. They are drawn once, so that acquisition values are repeatable.

    >>> X = torch.rand(12, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> regressor = DeepKernelRegressor(likelihood="gaussian", max_iter=20, n_inducing=8)
    >>> model = DeepKernelModel(regressor.fit(X, (6 * X).sin()))
    >>> posterior = model.posterior(torch.rand(5, 2, 1))  # five batches of two candidates
    >>> posterior.mean.shape, posterior.rsample(torch.Size([16])).shape
    (torch.Size([5, 2, 1]), torch.Size([16, 5, 2, 1]))
    """

    def __init__(
        self, regressor: DeepKernelRegressor, *, num_samples: int = 64, seed: int = 0
    ) -> None:
        super().__init__()
        check_is_fitted(regressor, "model_")
        process, scaled = regressor.model_, regressor._scaled
        if not isinstance(process.likelihood, Gaussian):
            raise TypeError(
                f"The regressor has {type(process.likelihood).__name__} targets; outcomes in "
                "BoTorch are those of a function with Gaussian noise (likelihood='gaussian')."
            )
        generator = torch.Generator(process.device).manual_seed(seed)
        self._posterior = process.posterior(num_samples, generator)
        self._process = self._posterior.sample.model
        self._noise = process.likelihood.noise.detach()
        self._inputs, self._targets = (
            [scaled.tensor(part) for part in (scaling.magnitude, scaling.location, scaling.spread)]
            for scaling in (scaled.inputs, scaled.targets)
        )

    @property
    def num_outputs(self) -> int:
        """Columns of the outcome."""
        return self._process.num_outputs

    @property
    def batch_shape(self) -> torch.Size:
        """Of models in one: none."""
        return torch.Size()

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Any:
        """The function at candidates, jointly over those of a batch; differentiable in ``X``.

        Single candidates, ``q = 1``, are computed together; batches of more one after the other.
        The first candidate of a batch is answered as if it were alone, to the jitter; of a deep
        inverse Wishart process, as another draw of S samples would answer it.

        Args:
            X: candidates ``(*batch_shape, q, num_features)``.
            output_indices: outcomes to return; ``None``: all.
            observation_noise: of a new observation instead of the function.
            posterior_transform: BoTorch's.

        Returns:
            A :class:`MixturePosterior`, or what the transform makes of it.
        """
        if X.ndim < 2 or X.shape[-1] != self._process.num_features:
            raise ValueError(
                f"X must have shape (..., q, {self._process.num_features}), got {tuple(X.shape)}."
            )
        if not isinstance(observation_noise, bool):
            raise TypeError("The noise is learned: observation_noise is True or False.")
        magnitude, location, spread = self._inputs
        rows = (X.to(magnitude) / magnitude - location) / spread
        blocks = rows.reshape(-1, *rows.shape[-2:])  # (B, q, num_features)
        together = blocks.shape[1] == 1
        mean, covariance = self._rows(blocks[:, 0]) if together else self._blocks(blocks)
        if observation_noise:
            covariance = covariance + self._noise[:, None, None] * torch.eye(blocks.shape[1]).to(
                mean
            )
        magnitude, location, spread = self._targets  # from here on in the units of the outcome
        mean = (mean * spread + location) * magnitude
        covariance = covariance * (magnitude * spread)[:, None, None].square()
        what = "the covariance of the candidates"
        root = covariance.sqrt() if together else linalg.cholesky(covariance, what=what)
        chosen = slice(None) if output_indices is None else output_indices
        posterior = MixturePosterior(
            mean.reshape(len(mean), *X.shape[:-2], *mean.shape[2:])[..., chosen],
            root.reshape(len(root), *X.shape[:-2], *root.shape[2:])[..., chosen, :, :],
        )
        return posterior if posterior_transform is None else posterior_transform(posterior, X=X)

    def _rows(self, rows: Tensor) -> _Moments:
        """Candidates one by one, all with the same noise: means ``(S, B, 1, D)``, variances
        ``(S, B, D, 1, 1)``."""
        drawn = self._posterior
        mean, variance = drawn.function.moments(drawn.sample.last_rows(rows, drawn.random))
        shape = (drawn.num_samples, len(rows), self.num_outputs)
        spread = variance.clamp_min(_SMALLEST).expand(shape)
        return mean.expand(shape).unsqueeze(-2), spread[..., None, None]

    def _blocks(self, blocks: Tensor) -> _Moments:
        """Batches jointly, each with the same noise: ``(S, B, q, D)`` and ``(S, B, D, q, q)``. The
        first of a batch has that of a single candidate."""
        drawn, means, covariances = self._posterior, [], []
        random = replace(drawn.random, shared=False, block_rows=1)
        S, q, D = drawn.num_samples, blocks.shape[1], self.num_outputs
        for block in blocks:
            found = drawn.function.joint_moments(drawn.sample.last_rows(block, random, joint=True))
            jitter, prior = self._process.output.jitter, found.prior.unsqueeze(-3)
            jittered = linalg.add_jitter(found.covariance, jitter, prior)
            means.append(found.mean.expand(S, q, D))
            covariances.append(jittered.expand(S, D, q, q))
        return torch.stack(means, 1), torch.stack(covariances, 1)


class MixturePosterior(Posterior):
    r"""Mixture of Gaussians over functions at q points,
    :math:`p(f) = \frac1S \sum_s \mathcal N(f; m_s, R_s R_s^\top)`, for every batch.

    Args:
        means: :math:`m_s`, ``(S, *batch_shape, q, D)``.
        roots: :math:`R_s` for each outcome, ``(S, *batch_shape, D, q, q)``.

    >>> means, roots = torch.tensor([-1.0, 1.0])[:, None, None], torch.ones(2, 1, 1, 1)
    >>> posterior = MixturePosterior(means, roots)
    >>> posterior.mean, posterior.variance
    (tensor([[0.]]), tensor([[2.]]))
    """

    def __init__(self, means: Tensor, roots: Tensor) -> None:
        self.means, self.roots = means, roots

    @property
    def device(self) -> torch.device:
        """Of the moments."""
        return self.means.device

    @property
    def dtype(self) -> torch.dtype:
        """Of the moments."""
        return self.means.dtype

    @property
    def mean(self) -> Tensor:
        """``(*batch_shape, q, D)``."""
        return self.means.mean(0)

    @property
    def variance(self) -> Tensor:
        """Mean of the variances plus variance of the means, ``(*batch_shape, q, D)``."""
        within = self.roots.square().sum(-1).mT.mean(0)
        return within + self.means.var(0, correction=0)

    @property
    def base_sample_shape(self) -> torch.Size:
        """Of the standard normal noise of a draw: ``(*batch_shape, q, D)``."""
        return self.means.shape[1:]

    @property
    def batch_range(self) -> tuple[int, int]:
        """Dimensions over which noise is shared."""
        return (0, -2)

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008
        return sample_shape + self.means.shape[1:]

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        """Draws ``(*sample_shape, *batch_shape, q, D)``, each from a component chosen at random."""
        shape = torch.Size() if sample_shape is None else sample_shape
        which = torch.randint(len(self.means), (math.prod(shape),), device=self.device)
        noise = torch.randn(self._extended_shape(shape), dtype=self.dtype, device=self.device)
        return self._draw(shape, which, noise)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        """Draws from given noise, with components in turn: the same at every call."""
        which = torch.arange(math.prod(sample_shape), device=self.device) % len(self.means)
        noise = base_samples.expand(self._extended_shape(sample_shape))
        return self._draw(sample_shape, which, noise)

    def _draw(self, shape: torch.Size, which: Tensor, noise: Tensor) -> Tensor:
        epsilon = noise.reshape(len(which), *self.means.shape[1:]).mT.unsqueeze(-1)
        drawn = self.means[which] + (self.roots[which] @ epsilon).squeeze(-1).mT
        return drawn.reshape(self._extended_shape(shape))


@GetSampler.register(MixturePosterior)
def _sampler(
    posterior: MixturePosterior, sample_shape: torch.Size, *, seed: int | None = None
) -> Any:
    # Not Sobol's points: in turn with the components, each would see a part of the noise only.
    return IIDNormalSampler(sample_shape=sample_shape, seed=seed)
