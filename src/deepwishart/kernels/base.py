r"""The kernel interface: a function of inner products, applied to features or to Gram matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from deepwishart._support.parameters import KERNEL_LOGARITHM, Declarations
from deepwishart.kernels.elementary import squared_norm, symmetric_with_diagonal
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import GaussianKernel

if TYPE_CHECKING:
    from deepwishart.kernels.combinators import Product, Scale, Sum


class Kernel(nn.Module, ABC):
    r"""A kernel :math:`k(x, y) = k(g_{xx}, g_{xy}, g_{yy})`, with :math:`g_{xy} = x^T y`.

    Such kernels can be evaluated on a Gram matrix, without features: section 2.4,
    :math:`K_\text{features}(F) = K(F F^T)`. A new kernel defines :meth:`elementwise` and
    :meth:`on_diagonal`; the matrices, in feature form and in Gram form, are derived here. Check it
    with :func:`deepwishart.testing.check_kernel`.

    A kernel with a lengthscale per feature (ARD) sets ``num_features`` and scales the features in
    :meth:`prepare`; it has no Gram form.

    >>> import torch
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
        """Whether the kernel has a feature form only, as ARD kernels do."""
        return self.num_features is not None

    def square(self, features: Tensor) -> Tensor:
        r"""The matrix :math:`k(f_i, f_j)`, (..., P, D) to (..., P, P).

        It is exactly symmetric, and its diagonal is exactly that of :meth:`diagonal`.
        """
        features = self.prepare(features)
        return self._square(squared_norm(features), features @ features.mT)

    def jittered_square(
        self, features: Tensor, jitter: float = 0.0, variance: float = 1.0
    ) -> Tensor:
        """``variance`` times :meth:`square`, with ``jitter`` times its mean diagonal added to the
        diagonal."""
        matrix = self.square(features) * variance
        return linalg.add_jitter(matrix, jitter) if jitter else matrix

    def cross(self, first: Tensor, second: Tensor) -> Tensor:
        r"""The matrix :math:`k(x_i, y_j)`, (..., P, D) and (..., N, D) to (..., P, N)."""
        first, second = self.prepare(first), self.prepare(second)
        norms = squared_norm(first).unsqueeze(-1), squared_norm(second).unsqueeze(-2)
        return self.elementwise(norms[0], first @ second.mT, norms[1])

    def lazy_cross(
        self, first: Tensor, second: Tensor, variance: float = 1.0
    ) -> Tensor | GaussianKernel:
        """``variance`` times :meth:`cross`, or a description of that matrix which operations on
        rows form where they consume it."""
        return self.cross(first, second) * variance

    def diagonal(self, features: Tensor) -> Tensor:
        r"""The vector :math:`k(f_i, f_i)`, (..., N, D) to (..., N)."""
        return self.on_diagonal(squared_norm(self.prepare(features)))

    def square_from_gram(self, gram: Tensor) -> Tensor:
        r"""The matrix :math:`k(G_{ii}, G_{ij}, G_{jj})`, (..., P, P) to (..., P, P)."""
        self._require_gram_form()
        return self._square(gram.diagonal(dim1=-2, dim2=-1), gram)

    def cross_from_gram(self, diagonal_ii: Tensor, gram_it: Tensor, diagonal_tt: Tensor) -> Tensor:
        r"""The matrix :math:`k(G_{ii}, G_{it}, G_{tt})`, (..., P, N), of inducing and data points,
        whose squared norms are (..., P) and (..., N)."""
        self._require_gram_form()
        return self.elementwise(diagonal_ii.unsqueeze(-1), gram_it, diagonal_tt.unsqueeze(-2))

    def diagonal_from_gram(self, diagonal: Tensor) -> Tensor:
        r"""The vector :math:`k(G_{tt}, G_{tt}, G_{tt})`, (..., N) to (..., N)."""
        self._require_gram_form()
        return self.on_diagonal(diagonal)

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

    def _square(self, norms: Tensor, inner: Tensor) -> Tensor:
        matrix = self.elementwise(norms.unsqueeze(-1), inner, norms.unsqueeze(-2))
        return symmetric_with_diagonal(matrix, self.on_diagonal(norms))

    def _checked(self, features: Tensor) -> Tensor:
        if self.num_features is not None and features.shape[-1] != self.num_features:
            raise ValueError(
                f"{type(self).__name__} was built with num_features={self.num_features}, but was "
                f"given features of shape {tuple(features.shape)}, whose last dimension differs."
            )
        return features

    def _require_gram_form(self) -> None:
        if self.needs_features:
            raise ValueError(
                f"{type(self).__name__} has one lengthscale per feature (num_features="
                f"{self.num_features}) and cannot work from a Gram matrix, which has already "
                "summed the features away; use num_features=None after the first layer."
            )

    def extra_repr(self) -> str:
        """The values of the kernel's own positive parameters, for ``print``."""
        parts = []
        for name, log in self.named_parameters(recurse=False):
            values = [f"{value:.3g}" for value in log.detach().exp().flatten().tolist()]
            shown = values[0] if log.dim() == 0 else f"[{', '.join(values)}]"
            parts.append(f"{name.removeprefix('log_')}={shown}")
        return ", ".join(parts)
