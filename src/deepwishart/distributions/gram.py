r"""What all distributions over Gram matrices share: the scale, drawing through a root, checking.

A Gram matrix is handled through a lower-trapezoidal root :math:`\Lambda` (``(..., P, m)``, positive
diagonal) with :math:`G = \Lambda \Lambda^\top`: it is what samplers produce and what densities
need, so :math:`G` itself is formed only when asked for.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.types import _size

from deepwishart.distributions.bartlett import rank_of, root_of
from deepwishart.distributions.constraints import PositiveSemidefinite
from deepwishart.numerics import linalg

NO_SAMPLE_SHAPE = torch.Size()


class SeededDistribution(Distribution):
    """A distribution that draws from a generator; its parameters are in a table, which gives the
    batch shape that they broadcast to, and how they expand."""

    has_rsample = True
    # Tensor attributes and their number of event dimensions.
    _event_dims: ClassVar[dict[str, int]]

    def __init__(self, event_shape: _size, validate_args: bool | None) -> None:
        validate = Distribution._validate_args if validate_args is None else validate_args
        if validate:
            self._check_arguments()
        batches = set()
        for name, dims in self._event_dims.items():
            tensor = getattr(self, name)
            if isinstance(tensor, Tensor) and tensor.ndim > dims:
                batches.add(tensor.shape[: tensor.ndim - dims])
        # In training there is one shape or none; to broadcast is slow.
        batch = torch.broadcast_shapes(*batches) if len(batches) > 1 else torch.Size(*batches)
        super().__init__(batch, torch.Size(event_shape), validate_args=False)
        self._validate_args = validate

    def _check_arguments(self) -> None:
        """Raise ``ValueError`` for what is wrong with the parameters, in messages of our own."""
        raise NotImplementedError

    def rsample(
        self, sample_shape: _size = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draws ``(*sample_shape, *batch_shape, *event_shape)``, differentiable in the
        parameters."""
        raise NotImplementedError

    def sample(
        self, sample_shape: _size = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Like :meth:`rsample`, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator=generator)

    def expand(self, batch_shape: _size, _instance: Any = None) -> Self:
        """The same distribution with its parameters expanded (as views) to ``batch_shape``."""
        new = copy.copy(self) if _instance is None else _instance
        for name, event_dims in self._event_dims.items():
            value = getattr(self, name)
            if isinstance(value, Tensor):
                event_shape = value.shape[value.ndim - event_dims :]
                setattr(new, name, value.expand(*batch_shape, *event_shape))
        new._batch_shape = torch.Size(batch_shape)
        return new


class GramDistribution(SeededDistribution, ABC):
    r"""Base of the distributions over :math:`P \times P` Gram matrices of rank :math:`m`, ``rank``.

    A subclass names the parameters of its own in ``_event_dims``, sets them before the rest, and
    defines :meth:`rsample_root` and ``_log_prob_root``; sampling, densities, validation and
    :meth:`expand` follow.

    Parameters keep the shape in which they were given and broadcast to ``batch_shape`` when used.

    >>> from deepwishart.distributions import Wishart
    >>> law = Wishart(2, covariance_matrix=torch.eye(3))
    >>> law.rank, law.rsample_root((5,)).shape, law.rsample((5,)).shape
    (2, torch.Size([5, 3, 2]), torch.Size([5, 3, 3]))
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "df": constraints.positive,
        "covariance_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _event_dims: ClassVar[dict[str, int]] = {"_scale_tril": 2, "_covariance_matrix": 2, "_df": 0}

    rank: int
    #: Number of rows :math:`P`.
    dimension: int
    _scale_tril: Tensor | None
    _covariance_matrix: Tensor | None
    _df: float | Tensor

    def __init__(
        self,
        df: float | Tensor,
        covariance_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if (covariance_matrix is None) == (scale_tril is None):
            name = type(self).__name__
            raise ValueError(f"{name} needs exactly one of covariance_matrix and scale_tril.")
        self._covariance_matrix, self._scale_tril = covariance_matrix, scale_tril
        # A number stays a number, so that what depends on it costs no tensor operation.
        self._df = df.to(self._scale) if isinstance(df, Tensor) else df
        self.dimension = self._scale.shape[-1:].numel()  # 1 for a number, until it is refused
        self.rank = self._find_rank()
        super().__init__((self.dimension, self.dimension), validate_args)

    def _find_rank(self) -> int:
        return rank_of(self._df, self.dimension)

    def _check_arguments(self) -> None:
        name, given = type(self).__name__, self._covariance_matrix
        if given is None:
            check_scale_tril(self.scale_tril, "scale_tril", name)
        elif given.ndim < 2:
            raise ValueError(
                f"covariance_matrix of {name} has shape {tuple(given.shape)}; it has to be "
                "(..., P, P)."
            )
        elif problem := PositiveSemidefinite(self.dimension).explain(given):
            raise ValueError(
                f"covariance_matrix of {name} has to be positive definite, but {problem}. If "
                "rounding is to blame, add a small multiple of the identity."
            )
        if not bool(self.df.isfinite().all()):
            raise ValueError(f"df of {name} holds NaN or infinite values.")

    @property
    def df(self) -> Tensor:
        r"""Degrees of freedom :math:`\nu`."""
        return torch.as_tensor(self._df, dtype=self._scale.dtype, device=self._scale.device)

    @property
    def scale_tril(self) -> Tensor:
        r"""The Cholesky factor :math:`L` of the scale matrix, ``(..., P, P)``; computed when it is
        first asked for."""
        if self._scale_tril is None:
            what = f"the scale matrix of {type(self).__name__}"
            self._scale_tril = linalg.cholesky(self.covariance_matrix, what=what, strict=True)
        return self._scale_tril

    @property
    def _scale(self) -> Tensor:
        """The scale matrix as it was given."""
        given = self._scale_tril if self._covariance_matrix is None else self._covariance_matrix
        assert given is not None
        return given

    @property
    def covariance_matrix(self) -> Tensor:
        r"""The scale matrix :math:`\Sigma = L L^\top`, ``(..., P, P)``."""
        if self._covariance_matrix is None:
            return self.scale_tril @ self.scale_tril.mT
        return self._covariance_matrix

    @constraints.dependent_property(is_discrete=False, event_dim=2)
    def support(self) -> PositiveSemidefinite:
        r"""Positive semi-definite matrices of rank :math:`m` whose leading block is definite."""
        return PositiveSemidefinite(self.dimension, self.rank)

    @abstractmethod
    def rsample_root(
        self, sample_shape: _size = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`\Lambda` with :math:`G = \Lambda \Lambda^\top`, without forming :math:`G`:
        ``(*sample_shape, *batch_shape, P, m)``, lower trapezoidal with positive diagonal. Without a
        ``generator``, from PyTorch's default one."""

    @abstractmethod
    def _log_prob_root(self, root: Tensor) -> Tensor:
        """:meth:`log_prob_root` without validation."""

    def rsample(
        self, sample_shape: _size = NO_SAMPLE_SHAPE, *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`G`, ``(*sample_shape, *batch_shape, P, P)``, differentiably."""
        root = self.rsample_root(sample_shape, generator=generator)
        return root @ root.mT

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density of :math:`G` on its free elements :math:`G_{ij}, j \le \min(i, m)`.

        Costs one :math:`m \times m` Cholesky factorisation and a triangular solve to find the
        root; use :meth:`log_prob_root` where a root is known.
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob_root(root_of(value, self.rank))

    def log_prob_root(self, root: Tensor) -> Tensor:
        r"""The log density of :math:`G = \Lambda \Lambda^\top` given :math:`\Lambda`, which is
        any lower-trapezoidal root ``(..., P, m)`` with positive diagonal."""
        if self._validate_args:
            self._validate_root(root)
        return self._log_prob_root(root)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(dimension={self.dimension}, rank={self.rank}, "
            f"batch_shape={tuple(self.batch_shape)})"
        )

    def _validate_sample(self, value: Tensor) -> None:
        if problem := self.support.explain(value):
            raise ValueError(
                f"The value given to log_prob is outside the support of {self!r}: {problem}."
            )
        self._check_batch(value)

    def _validate_root(self, root: Tensor) -> None:
        wanted = (self.dimension, self.rank)
        if root.shape[-2:] != wanted:
            raise ValueError(
                f"The root given to {self!r} has shape {tuple(root.shape)}; its last two "
                f"dimensions have to be {wanted}."
            )
        _check_lower(root.detach(), f"The root given to {self!r}")
        self._check_batch(root)

    def _check_batch(self, value: Tensor) -> None:
        try:
            torch.broadcast_shapes(value.shape[:-2], self.batch_shape)
        except RuntimeError as error:
            raise ValueError(
                f"The value's batch shape {tuple(value.shape[:-2])} does not broadcast with the "
                f"batch shape {tuple(self.batch_shape)} of {self!r}."
            ) from error


def check_scale_tril(scale_tril: Tensor, name: str, owner: str) -> None:
    """Raise ``ValueError`` unless ``scale_tril`` is a lower-triangular Cholesky factor."""
    shape = tuple(scale_tril.shape)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"{name} of {owner} has shape {shape}; it has to be square, (..., P, P).")
    _check_lower(scale_tril.detach(), f"{name} of {owner}")


def _check_lower(matrix: Tensor, what: str) -> None:
    if not bool((matrix == matrix.tril()).all()):
        raise ValueError(f"{what} is not lower triangular: not zero above its diagonal, or NaN.")
    if not bool((matrix.diagonal(dim1=-2, dim2=-1) > 0).all()):
        raise ValueError(f"{what} has a diagonal that is not positive.")
