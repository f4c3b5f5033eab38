r"""What all distributions over Gram matrices share: the scale, and drawing through a root.

A Gram matrix is handled through a lower-trapezoidal root :math:`\Lambda` (``(..., P, m)``, positive
diagonal) with :math:`G = \Lambda \Lambda^\top`: it is what samplers produce and what densities
need, so :math:`G` itself is formed only when asked for.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import lazy_property
from torch.types import _size

from deepwishart.distributions.bartlett import rank_of, root_of
from deepwishart.distributions.constraints import PositiveSemidefinite
from deepwishart.numerics import linalg

Constraints = dict[str, constraints.Constraint]


class SeededDistribution(Distribution):
    """A distribution that draws from a generator.

    A subclass has a table of its ``parameters``: attributes that are tensors, numbers or ``None``,
    set before the rest. Batch shape, validation and :meth:`expand` follow from it.
    """

    has_rsample = True
    parameters: ClassVar[Constraints]

    def __init__(self, event_shape: tuple[int, ...], validate_args: bool | None) -> None:
        batches = [value.shape[: value.ndim - dims] for _, value, dims in self._tensors()]
        super().__init__(torch.broadcast_shapes(*batches), torch.Size(event_shape), validate_args)

    @property
    def arg_constraints(self) -> Constraints:
        """The constraints of those parameters that are given as tensors."""
        return {name: self.parameters[name] for name, _, _ in self._tensors()}

    def rsample(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draws ``(*sample_shape, *batch_shape, *event_shape)``, differentiable in the
        parameters."""
        raise NotImplementedError

    def sample(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Like :meth:`rsample`, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator=generator)

    def expand(self, batch_shape: _size, _instance: Any = None) -> Self:
        """The same distribution with its parameters expanded (as views) to ``batch_shape``."""
        new = copy.copy(self) if _instance is None else _instance
        for name, value, dims in self._tensors():
            setattr(new, name, value.expand(*batch_shape, *value.shape[value.ndim - dims :]))
        new._batch_shape = torch.Size(batch_shape)
        return new

    def _tensors(self) -> Iterator[tuple[str, Tensor, int]]:
        """The parameters that are tensors, with names and numbers of event dimensions."""
        for name, constraint in self.parameters.items():
            if isinstance(value := vars(self).get(name), Tensor):
                yield name, value, constraint.event_dim

    def _require_shapes(self, **wanted: tuple[int, ...]) -> None:
        """Raise ``ValueError`` where the last dimensions of a parameter are not the ``wanted``."""
        for name, value, dims in self._tensors():
            if name in wanted and value.shape[-dims:] != wanted[name]:
                raise ValueError(
                    f"{name} of {type(self).__name__} has shape {tuple(value.shape)}; its last "
                    f"dimensions have to be {wanted[name]}."
                )


class GramDistribution(SeededDistribution, ABC):
    r"""Base of the distributions over :math:`P \times P` Gram matrices of rank :math:`m`, ``rank``.

    A subclass adds its own ``parameters``, sets them before the rest, and defines
    :meth:`rsample_root` and ``_log_prob_root``; sampling, densities, validation and :meth:`expand`
    follow. Parameters keep the shape in which they were given and broadcast to ``batch_shape``.

    >>> from deepwishart.distributions import Wishart
    >>> law = Wishart(2, covariance_matrix=torch.eye(3))
    >>> law.rank, law.rsample_root((5,)).shape, law.rsample((5,)).shape
    (2, torch.Size([5, 3, 2]), torch.Size([5, 3, 3]))
    """

    parameters: ClassVar[Constraints] = {
        "df": constraints.positive,
        "covariance_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }

    #: Degrees of freedom :math:`\nu`. A number stays one, and costs no tensor operation.
    df: float | Tensor
    rank: int
    #: Number of rows :math:`P`.
    dimension: int

    def __init__(
        self,
        df: float | Tensor,
        covariance_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril}
        scales = {name: scale for name, scale in given.items() if scale is not None}
        if len(scales) != 1:
            name = type(self).__name__
            raise ValueError(f"{name} needs exactly one of covariance_matrix and scale_tril.")
        ((name, scale),) = scales.items()
        setattr(self, name, scale)
        self.df = df.to(scale) if isinstance(df, Tensor) else df
        self.dimension = scale.shape[-1:].numel()  # 1 for a number, until it is refused
        event_shape = (self.dimension, self.dimension)
        self._require_shapes(**{name: event_shape})
        self.rank = self._find_rank()
        super().__init__(event_shape, validate_args)

    def _find_rank(self) -> int:
        return rank_of(self.df, self.dimension)

    @property
    def _degrees(self) -> Tensor:
        r""":math:`\nu` as a factor of matrices, ``(..., 1, 1)``."""
        sigma = self.covariance_matrix
        return torch.as_tensor(self.df, dtype=sigma.dtype, device=sigma.device)[..., None, None]

    @lazy_property
    def scale_tril(self) -> Tensor:
        r"""The Cholesky factor :math:`L` of the scale matrix, ``(..., P, P)``; computed when it is
        first asked for."""
        what = f"the scale matrix of {type(self).__name__}"
        return linalg.cholesky(self.covariance_matrix, what=what, strict=True)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        r"""The scale matrix :math:`\Sigma = L L^\top`, ``(..., P, P)``."""
        return self.scale_tril @ self.scale_tril.mT

    @constraints.dependent_property(is_discrete=False, event_dim=2)
    def support(self) -> PositiveSemidefinite:
        r"""Positive semi-definite matrices of rank :math:`m` whose leading block is definite."""
        return PositiveSemidefinite(self.dimension, self.rank)

    @abstractmethod
    def rsample_root(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`\Lambda` with :math:`G = \Lambda \Lambda^\top`, without forming :math:`G`:
        ``(*sample_shape, *batch_shape, P, m)``, lower trapezoidal with positive diagonal. Without a
        ``generator``, from PyTorch's default one."""

    @abstractmethod
    def _log_prob_root(self, root: Tensor) -> Tensor:
        """:meth:`log_prob_root` without validation."""

    def rsample(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
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

    def _validate_root(self, root: Tensor) -> None:
        shape, value = (self.dimension, self.rank), root.detach()
        positive = bool((value.diagonal(dim1=-2, dim2=-1) > 0).all())
        if value.shape[-2:] != shape or not positive or not torch.equal(value, value.tril()):
            raise ValueError(
                f"A root of {self!r} has to have {self.dimension} rows and {self.rank} columns, "
                f"zeros above a positive diagonal; got shape {tuple(root.shape)}."
            )
