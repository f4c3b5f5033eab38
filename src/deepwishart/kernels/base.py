r"""The kernel interface: a function of inner products, applied to features or to Gram matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from deepwishart._support.parameters import KERNEL_LOGARITHM, Declarations
from deepwishart.kernels.points import (
    Inducing,
    Points,
    Rows,
    inner_products,
    squared_norms,
    with_themselves,
)
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import Cross, formed

if TYPE_CHECKING:
    from deepwishart.kernels.combinators import Product, Scale, Sum

AnyPoints = TypeVar("AnyPoints", Inducing, Rows, Points)


class Kernel(nn.Module, ABC):
    r"""A kernel :math:`k(x, y) = k(g_{xx}, g_{xy}, g_{yy})`, with :math:`g_{xy} = x^T y`.

    Such kernels can be evaluated on a Gram matrix, without features: section 2.4,
    :math:`K_\text{features}(F) = K(F F^T)`. A new kernel defines :meth:`elementwise` and
    :meth:`on_diagonal`; :meth:`square`, :meth:`cross` and :meth:`diagonal` are derived here, for
    features (..., P, D) and Gram matrices alike. Check it with
    :func:`deepwishart.testing.check_kernel`.

    A kernel with a lengthscale per feature (ARD) sets ``num_features`` and scales the features in
    :meth:`prepare`; it has no Gram form.

    >>> class Quadratic(Kernel):
    ...     def elementwise(self, g_xx, g_xy, g_yy):
    ...         return g_xy.square()
    ...
    ...     def on_diagonal(self, g_xx):
    ...         return g_xx.square()
    >>> Quadratic().square(torch.tensor([[1.0], [2.0]]))
    tensor([[ 1.,  4.],
            [ 4., 16.]])
    """

    #: The number of features that the kernel insists on; None if it accepts any number.
    num_features: int | None = None
    #: The number of columns, the last ones, that are inputs beside the features.
    num_inputs: int | None = None
    #: Parameters are logarithms of positive numbers.
    declares: ClassVar[Declarations] = {"*": KERNEL_LOGARITHM}

    @abstractmethod
    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        r"""The kernel :math:`k(g_{xx}, g_{xy}, g_{yy})`, entry by entry.

        Gradients must be finite everywhere, also where two points coincide and where one is zero.

        Args:
            g_xx: squared norms of the first points, (..., P, 1).
            g_xy: inner products, (..., P, N).
            g_yy: squared norms of the second points, (..., 1, N).
        """

    @abstractmethod
    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        r"""The kernel of a point with itself, :math:`k(g_{xx}, g_{xx}, g_{xx})`, same shape."""

    def prepare(self, features: Tensor) -> Tensor:
        r"""The features, (..., P, D), whose inner products :meth:`elementwise` is to receive."""
        return features

    @property
    def needs_features(self) -> bool:
        """Whether the kernel has a feature form only, as those with a lengthscale per column do."""
        return self.num_features is not None or self.num_inputs is not None

    def cross(self, first: Inducing, second: Rows, *, variance: float = 1.0) -> Cross:
        r"""The block :math:`s\, k(x_i, y_j)`, (..., P, N), of P points and N others, with the
        ``variance`` :math:`s`; or a description of it, which operations on rows form where they
        consume it and :func:`~deepwishart.numerics.gaussian.formed` forms elsewhere."""
        first, second = self._prepared(first), self._prepared(second)
        return self.elementwise(*inner_products(first, second)) * variance

    def diagonal(self, points: Points, *, variance: float = 1.0) -> Tensor:
        r"""The vector :math:`s\, k(x_i, x_i)`, (..., N)."""
        return self.on_diagonal(squared_norms(self._prepared(points))) * variance

    def square(self, points: Points, *, jitter: float = 0.0, variance: float = 1.0) -> Tensor:
        r"""The matrix :math:`s\, (k(x_i, x_j) + \epsilon\, \bar k\, \delta_{ij})`, (..., P, P):
        relative ``jitter`` :math:`\epsilon` of the mean diagonal :math:`\bar k` is added.

        It is exactly symmetric, and its diagonal without jitter is exactly :meth:`diagonal`.
        """
        cross = formed(self.cross(*with_themselves(points), variance=variance))
        # Products are symmetric, and distances of points to themselves 0, only up to rounding;
        # both can cost a Cholesky factorisation.
        identity = torch.eye(cross.shape[-1], dtype=torch.bool, device=cross.device)
        diagonal = self.diagonal(points, variance=variance).unsqueeze(-1)
        matrix = torch.where(identity, diagonal, (cross + cross.mT) * 0.5)
        return linalg.add_jitter(matrix, jitter) if jitter else matrix

    def __add__(self, other: Kernel) -> Sum:
        """The sum of two kernels."""
        from deepwishart.kernels.combinators import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Product | Scale:
        """The product of two kernels, or a kernel times a positive number."""
        from deepwishart.kernels.combinators import Product, Scale

        if isinstance(other, Kernel):
            return Product(self, other)
        return Scale(self, float(other)) if isinstance(other, int | float) else NotImplemented

    __rmul__ = __mul__

    def _prepared(self, points: AnyPoints) -> AnyPoints:
        """Features as :meth:`prepare` makes them; Gram matrices as they are, where they will do."""
        if isinstance(points, Tensor):
            return self.prepare(points)
        self._require_gram_form()
        return points

    def _require_gram_form(self) -> None:
        if self.needs_features:
            raise ValueError(
                f"{type(self).__name__} has lengthscales for single columns (num_features="
                f"{self.num_features}, num_inputs={self.num_inputs}) and cannot work from a Gram "
                "matrix, which has already summed the features away; use num_features=None after "
                "the first layer, and num_inputs=None above layers that hand on Gram matrices."
            )

    def extra_repr(self) -> str:
        """The values of the kernel's own positive parameters, for ``print``."""
        parts = []
        for name, log in self.named_parameters(recurse=False):
            values = [f"{value:.3g}" for value in log.detach().exp().flatten().tolist()]
            shown = values[0] if log.dim() == 0 else f"[{', '.join(values)}]"
            parts.append(f"{name.removeprefix('log_')}={shown}")
        return ", ".join(parts)
