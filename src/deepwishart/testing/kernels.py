"""The contract of kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart.kernels.base import Kernel
from deepwishart.numerics import linalg
from deepwishart.testing.requirements import Requirements

_ANY_NUMBER_OF_FEATURES = 3
_JITTER, _VARIANCE = 0.01, 0.3


def check_kernel(kernel: Kernel, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> None:
    r"""Check all that the rest of the package takes for granted about a kernel.

    That it is a kernel: symmetric, positive semi-definite, its diagonal the limit of its entries.
    That its forms agree: ``square``, ``cross`` and ``diagonal``, with and without batch dimensions,
    from features and, unless it needs features, from Gram matrices; ``jittered_square`` and
    ``lazy_cross``, which are the same with a factor and jitter. That its gradients are right at
    generic points (in double precision), and finite where points coincide or vanish. That it keeps
    the dtype and has no randomness.

    >>> from deepwishart.kernels import SquaredExponential
    >>> check_kernel(SquaredExponential(height=2.0, lengthscale=0.7))
    """
    check = _KernelCheck(kernel, dtype, seed)
    check.dtype_and_determinism()
    check.symmetry()
    check.diagonal()
    check.blocks()
    check.with_variance_and_jitter()
    check.batches()
    check.positive()
    check.gram_form()
    check.gradients_are_finite()
    check.gradients_are_right()


class _KernelCheck(Requirements):
    subject: Kernel

    def points(self, *shape: int) -> Tensor:
        return self.normal(*shape, self.subject.num_features or _ANY_NUMBER_OF_FEATURES)

    def forms(
        self, x: Tensor, y: Tensor, jitter: float = _JITTER, variance: float = _VARIANCE
    ) -> dict[str, Tensor]:
        """All that the kernel says about features."""
        lazy = self.subject.lazy_cross(x, y, variance)
        return {
            "square": self.subject.square(x),
            "cross": self.subject.cross(x, y),
            "diagonal": self.subject.diagonal(y),
            "jittered_square": self.subject.jittered_square(x, jitter, variance),
            "lazy_cross": lazy if isinstance(lazy, Tensor) else lazy.form(),
        }

    def gram_forms(self, ii: Tensor, it: Tensor, tt: Tensor) -> dict[str, Tensor]:
        """The same of a Gram matrix, where there is a way from it."""
        x, y = (matrix.diagonal(dim1=-2, dim2=-1) for matrix in (ii, tt))
        return {
            "square": self.subject.square_from_gram(ii),
            "cross": self.subject.cross_from_gram(x, it, y),
            "diagonal": self.subject.diagonal_from_gram(y),
        }

    def dtype_and_determinism(self) -> None:
        x, y = self.points(5), self.points(4)
        again = self.forms(x, y)
        for name, value in self.forms(x, y).items():
            self.require_value(name, value)
            self.require_equal(value, again[name], f"{name} gives two answers to one question")

    def symmetry(self) -> None:
        x, y = self.points(6), self.points(4)
        square = self.subject.square(x)
        self.require_equal(square, square.mT, "square is not exactly symmetric")
        there, back = self.subject.cross(x, y), self.subject.cross(y, x)
        self.require_close(back.mT, there, "it is not symmetric, k(x, y) and k(y, x) differ")

    def diagonal(self) -> None:
        points = self.points(6)
        diagonal = self.subject.diagonal(points)
        found = self.subject.square(points).diagonal()
        self.require_equal(found, diagonal, "the diagonal of square is not exactly diagonal()")
        found = self.subject.cross(points, points).diagonal()
        violation = "on_diagonal is not what elementwise gives for a point with itself"
        # A cusp turns the rounding of a squared distance into its square root.
        self.require_close(found, diagonal, violation, tolerance=30.0 * self.eps**0.5)

    def blocks(self) -> None:
        x, y = self.points(5), self.points(4)
        everything = self.subject.square(torch.cat([x, y]))
        blocks = everything[:5, :5], everything[:5, 5:], everything[5:, 5:].diagonal()
        for (name, value), block in zip(self.forms(x, y).items(), blocks, strict=False):
            self.require_close(value, block, f"{name} is not a block of square")

    def with_variance_and_jitter(self) -> None:
        x, y = self.points(5), self.points(4)
        for jitter, variance in ((0.0, 1.0), (_JITTER, _VARIANCE)):
            square, cross, _, jittered, lazy = self.forms(x, y, jitter, variance).values()
            expected = linalg.add_jitter(square, jitter) * variance
            violation = "jittered_square is not variance times square, with jitter"
            self.require_close(jittered, expected, violation)
            self.require_equal(jittered, jittered.mT, "jittered_square is not exactly symmetric")
            self.require_close(lazy, cross * variance, "lazy_cross is not variance times cross")

    def batches(self) -> None:
        one, first, second = self.points(5), self.points(2, 3, 5), self.points(2, 3, 4)
        for x, y, which in (
            (first, second, ""),
            (one, second, " of one set with a batch"),
            (second, one, " of a batch with one set"),
        ):
            batched = self.forms(x, y)
            for index in ((0, 0), (1, 2)):
                a, b = (z[index] if z.ndim > 2 else z for z in (x, y))
                for name, value in self.forms(a, b).items():
                    found = batched[name]
                    found = found[index] if found.ndim > value.ndim else found
                    violation = f"{name}{which} depends on the rest of the batch"
                    self.require_close(found, value, violation)

    def positive(self) -> None:
        for scale in (0.5, 2.0):
            points = scale * self.points(30)
            eigenvalues = torch.linalg.eigvalsh(self.subject.square(points).detach().double())
            smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
            violation = f"its eigenvalues run from {smallest:.1e} to {largest:.1e}"
            positive = smallest >= -1e3 * self.eps * max(largest, 0.0)
            self.require(positive, f"square is not positive semi-definite, {violation}")

    def gram_form(self) -> None:
        if self.subject.needs_features:
            try:
                self.subject.square_from_gram(torch.eye(5, dtype=self.dtype, device=self.device))
            except ValueError:
                return
            self.require(False, "it says that it needs features, but accepts a Gram matrix")
        for shape in ((), (2,)):
            points = self.points(*shape, 5), self.points(*shape, 4)
            found, expected = self.gram_forms(*_gram(*points)), self.forms(*points)
            for name, block in (("square", "ii"), ("cross", "it"), ("diagonal", "diagonal")):
                violation = f"the {block} block from features and from a Gram matrix differ"
                self.require_close(found[name], expected[name], violation)
                self.require_value(f"{name}_from_gram", found[name])
            square = found["square"]
            self.require_equal(square, square.mT, "square_from_gram is not exactly symmetric")

    def gradients_are_finite(self) -> None:
        x, y = self.points(6), self.points(4)
        x[1] = y[0] = x[0]
        x[2:4] = y[1:3] = 0.0
        self._require_finite((x, y), "two points coincide or one is zero")
        self._require_finite((0.0 * x, 0.0 * y), "all points are zero")

    def _require_finite(self, points: tuple[Tensor, Tensor], where: str) -> None:
        x, y = (z.detach().clone().requires_grad_() for z in points)
        found = {"features": self.forms(x, y)}
        if not self.subject.needs_features:
            found["a Gram matrix"] = self.gram_forms(*_gram(x, y))
        for form, values in found.items():
            finite = all(value.isfinite().all() for value in values.values())
            self.require(finite, f"from {form} it is not finite where {where}")
            violation = f"from {form} its gradient is not finite where {where}"
            self.require_finite_gradient(self.mixed(values.values()), [x, y], violation)

    def gradients_are_right(self) -> None:
        self.subject.double()
        points = self.points(4).double(), self.points(3).double()
        cases: dict[str, Any] = {"features": (self.forms, points)}
        if not self.subject.needs_features:
            cases["the Gram matrix"] = (self.gram_forms, _gram(*points))
        for name, (forms, inputs) in cases.items():
            what = f"the gradient with respect to {name} and parameters"
            self.require_slopes(lambda *x, forms=forms: tuple(forms(*x).values()), inputs, what)


def _gram(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x @ x.mT, x @ y.mT, y @ y.mT
