"""The generalised singular Wishart distribution, the paper's approximate posterior."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.types import _size

from deepwishart import linalg
from deepwishart.distributions.bartlett import (
    log_prob_factor,
    log_scale_volume,
    rank_of,
    sample_factor,
)
from deepwishart.distributions.gram import NO_SAMPLE_SHAPE, GramDistribution, wants_validation
from deepwishart.distributions.moments import factor_moments, gram_mean, gram_variance
from deepwishart.distributions.scored_factor import draw_scored_factor

__all__ = ["GeneralisedSingularWishart"]


class Bartlett(NamedTuple):
    r"""Parameters :math:`\alpha, \beta` ``(..., m)`` and :math:`\mu, \sigma` ``(..., P, m)``."""

    concentration: Tensor
    rate: Tensor
    loc: Tensor
    scale: Tensor


class GeneralisedSingularWishart(GramDistribution):
    r"""The law of :math:`G = L A A^\top L^\top` with a Bartlett factor whose parameters are free.

    .. math:: A_{jj}^2 \sim \text{Gamma}(\alpha_j, \beta_j), \qquad
              A_{i>j} \sim \mathcal{N}(\mu_{ij}, \sigma_{ij}^2), \qquad \Sigma = L L^\top

    .. math:: q(G) = \prod_{i=1}^{P} L_{ii}^{-\min(i, m)}
              \prod_{j=1}^{m} \frac{\text{Gamma}(A_{jj}^2; \alpha_j, \beta_j)}
              {A_{jj}^{P-j} L_{jj}^{P-j+1}} \prod_{i=j+1}^P \mathcal{N}(A_{ij}; \mu_{ij},
              \sigma_{ij}^2)

    with :math:`m = \min(P, \nu)` (Ober & Aitchison 2021, Definition 1). Unlike a Wishart, it
    controls the mean and the variance of a Gram matrix of given rank separately. With
    :math:`\alpha_j = (\nu - j + 1)/2, \beta_j = 1/2, \mu = 0, \sigma = 1` it is
    :class:`~deepwishart.distributions.Wishart`.

    Args:
        df: degrees of freedom :math:`\nu`; only :math:`m` depends on it.
        concentration: :math:`\alpha > 0`, ``(..., m)``.
        rate: :math:`\beta > 0`, ``(..., m)``.
        loc: :math:`\mu`, ``(..., P, m)``. Of this and ``scale``, only the elements strictly below
            the diagonal are read.
        scale: :math:`\sigma > 0`, ``(..., P, m)``.
        covariance_matrix: scale matrix :math:`\Sigma`, ``(..., P, P)``.
        scale_tril: its Cholesky factor :math:`L`, in place of ``covariance_matrix``.
        validate_args: check arguments and values, at a cost.

    >>> alpha, loc = torch.tensor([1.0, 0.5]), torch.zeros(3, 2)
    >>> q = GeneralisedSingularWishart(
    ...     2, alpha, 0.5 * torch.ones(2), loc, torch.ones(3, 2), scale_tril=torch.eye(3)
    ... )
    >>> root, log_prob = q.rsample_root_with_log_prob((4,))
    >>> root.shape, torch.allclose(log_prob, q.log_prob_root(root))
    (torch.Size([4, 3, 2]), True)
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "concentration": constraints.independent(constraints.positive, 1),
        "rate": constraints.independent(constraints.positive, 1),
        "loc": constraints.independent(constraints.real, 2),
        "scale": constraints.independent(constraints.positive, 2),
        "covariance_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _event_dims: ClassVar[dict[str, int]] = {
        **GramDistribution._event_dims,
        "concentration": 1,
        "rate": 1,
        "loc": 2,
        "scale": 2,
    }

    def __init__(
        self,
        df: float | Tensor,
        concentration: Tensor,
        rate: Tensor,
        loc: Tensor,
        scale: Tensor,
        covariance_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        validate = wants_validation(validate_args)
        self._set_scale(covariance_matrix, scale_tril, validate)
        self._set_df(df, validate)
        self.rank = rank_of(df, self.dimension)
        self.concentration, self.rate = concentration, rate
        self.loc, self.scale = loc, scale
        if validate:
            self._check_shapes()
            self._check_values()
        self._initialise(validate)

    @property
    def mean(self) -> Tensor:
        r""":math:`L \left(\mathrm{E}[A]\, \mathrm{E}[A]^\top
        + \operatorname{diag}(\sum_j \operatorname{Var}[A_{ij}])\right) L^\top`,
        ``(*batch_shape, P, P)``.
        """
        mean = gram_mean(self.scale_tril, factor_moments(*self._bartlett()))
        return mean.expand(*self.batch_shape, *self.event_shape)

    @property
    def variance(self) -> Tensor:
        r""":math:`\operatorname{Var}[G_{pq}]`, exact; ``(*batch_shape, P, P)``.

        See :func:`deepwishart.distributions.moments.gram_variance` for the formula. Takes
        :math:`O(P^3 m)` operations and :math:`O(P^2 m)` memory.
        """
        variance = gram_variance(self.scale_tril, factor_moments(*self._bartlett()))
        return variance.expand(*self.batch_shape, *self.event_shape)

    def rsample_root(
        self, sample_shape: _size = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`\Lambda = L A`.

        Args:
            sample_shape: leading dimensions of the draw.
            generator: source of randomness; PyTorch's default generator if ``None``.

        Returns:
            ``(*sample_shape, *batch_shape, P, m)``, lower trapezoidal with positive diagonal.
        """
        return self.scale_tril @ self._rsample_factor(self._bartlett(), sample_shape, generator)

    def rsample_root_with_log_prob(
        self,
        sample_shape: _size = NO_SAMPLE_SHAPE,
        *,
        sticking_the_landing: bool = False,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        r"""Draw :math:`\Lambda = L A` and evaluate :math:`\log q(\Lambda \Lambda^\top)` there.

        The factor :math:`A` is at hand, so neither a factorisation nor a solve is needed.

        Args:
            sample_shape: leading dimensions of the draw.
            sticking_the_landing: evaluate the density with :math:`\alpha, \beta, \mu, \sigma`
                detached, so that their gradients flow along the sample only. The term that this
                leaves out has expectation zero and would be nothing but noise where :math:`q` is
                the true posterior. :math:`\Sigma` is never detached: lower layers reach this
                density through it.
            generator: source of randomness; PyTorch's default generator if ``None``.

        Returns:
            the root ``(*sample_shape, *batch_shape, P, m)`` and the log density
            ``(*sample_shape, *batch_shape)``.
        """
        shape = torch.Size(sample_shape) + self.batch_shape
        volume = log_scale_volume(self.scale_tril, self.rank)
        if self.concentration.ndim == self.rate.ndim == 1 and self.loc.ndim == self.scale.ndim == 2:
            factor, log_q = draw_scored_factor(
                shape.numel(),
                self.concentration,
                self.rate,
                self.loc,
                self.scale,
                sticking_the_landing=sticking_the_landing,
                generator=generator,
            )
            factor = factor.reshape(*shape, *self.loc.shape)
            return self.scale_tril @ factor, log_q.reshape(shape) - volume
        parameters = self._bartlett()
        factor = self._rsample_factor(parameters, sample_shape, generator)
        if sticking_the_landing:
            parameters = Bartlett(*(parameter.detach() for parameter in parameters))
        return self.scale_tril @ factor, log_prob_factor(factor, *parameters) - volume

    def _bartlett(self) -> Bartlett:
        """The parameters, with neutral values where ``loc`` and ``scale`` are not to be read."""
        shape = (self.dimension, self.rank)
        read = torch.ones(shape, dtype=torch.bool, device=self.loc.device).tril_(-1)
        loc, scale = torch.where(read, self.loc, 0.0), torch.where(read, self.scale, 1.0)
        return Bartlett(self.concentration, self.rate, loc, scale)

    def _rsample_factor(
        self, parameters: Bartlett, sample_shape: _size, generator: torch.Generator | None
    ) -> Tensor:
        shape = torch.Size(sample_shape) + self.batch_shape
        return sample_factor(shape, self.dimension, *parameters, generator=generator)

    def _log_prob_root(self, root: Tensor) -> Tensor:
        factor = linalg.solve_lower(self.scale_tril, root)
        volume = log_scale_volume(self.scale_tril, self.rank)
        return log_prob_factor(factor, *self._bartlett()) - volume

    def _check_shapes(self) -> None:
        vector, matrix = (self.rank,), (self.dimension, self.rank)
        for name, value, wanted in (
            ("concentration", self.concentration, vector),
            ("rate", self.rate, vector),
            ("loc", self.loc, matrix),
            ("scale", self.scale, matrix),
        ):
            if value.shape[value.ndim - len(wanted) :] != wanted:
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)}; with P = {self.dimension} rows and "
                    f"rank {self.rank} its last dimensions have to be {wanted}."
                )
            if value.dtype != self.scale_tril.dtype:
                raise ValueError(
                    f"{name} is {value.dtype} and the scale matrix is {self.scale_tril.dtype}; "
                    "give all parameters in one dtype."
                )

    def _check_values(self) -> None:
        parameters = self._bartlett()
        for name in ("concentration", "rate", "scale"):
            value = getattr(parameters, name)
            if not bool(((value > 0) & value.isfinite()).all()):
                raise ValueError(
                    f"{name} of {type(self).__name__} has to be positive and finite everywhere"
                    + (" below the diagonal." if name == "scale" else ".")
                )
        if not bool(parameters.loc.isfinite().all()):
            raise ValueError(f"loc of {type(self).__name__} holds NaN or infinite values.")
