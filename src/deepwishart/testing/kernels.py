"""The contract of kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart.kernels import GramInducing, GramRows, Inducing, Kernel, Rows
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import formed
from deepwishart.testing.requirements import Requirements

_ANY_NUMBER_OF_FEATURES = 3
_JITTER, _VARIANCE = 0.01, 0.3


def check_kernel(kernel: Kernel, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> None:
    r"""Check all that the rest of the package takes for granted about a kernel.

    That it is a kernel: symmetric, positive semi-definite, its diagonal the limit of its entries.
    That ``square``, ``cross`` and ``diagonal`` agree, with and without batch dimensions, jitter and
    a variance, of features and, unless the kernel needs features, of Gram matrices. That its
    gradients are right at generic points (in double precision), and finite where points coincide or
    vanish. That it keeps the dtype and has no randomness.

    >>> from deepwishart.kernels import SquaredExponential
    >>> check_kernel(SquaredExponential(height=2.0, lengthscale=0.7))
    """
    check = _KernelCheck(kernel, dtype, seed)
    check.dtype_and_determinism()
    check.blocks()
    check.variance_and_jitter()
    check.batches()
    check.positive()
    check.gram_form()
    check.gradients_are_finite()
    check.gradients_are_right()


class _KernelCheck(Requirements):
    subject: Kernel

    def points(self, *shape: int) -> Tensor:
        features = self.subject.num_features or _ANY_NUMBER_OF_FEATURES
        return self.normal(*shape, features + (self.subject.num_inputs or 0))

    def forms(
        self, x: Inducing, y: Rows, jitter: float = 0.0, variance: float = 1.0
    ) -> dict[str, Tensor]:
        """All that the kernel says about features, or about Gram matrices."""
        return {
            "square": self.subject.square(x, jitter=jitter, variance=variance),
            "cross": formed(self.subject.cross(x, y, variance=variance)),
            "diagonal": self.subject.diagonal(y, variance=variance),
        }

    def dtype_and_determinism(self) -> None:
        x, y = self.points(5), self.points(4)
        again = self.forms(x, y)
        for name, value in self.forms(x, y).items():
            self.require_value(name, value)
            self.require_equal(value, again[name], f"{name} gives two answers to one question")

    def blocks(self) -> None:
        x, y = self.points(5), self.points(4)
        square = self.subject.square(torch.cat([x, y]))
        diagonal = self.subject.diagonal(torch.cat([x, y]))
        self.require_equal(square, square.mT, "square is not exactly symmetric")
        violation = "the diagonal of square is not exactly diagonal()"
        self.require_equal(square.diagonal(), diagonal, violation)
        blocks = square[:5, :5], square[:5, 5:], square[5:, 5:].diagonal()
        for (name, value), block in zip(self.forms(x, y).items(), blocks, strict=True):
            self.require_close(value, block, f"{name} is not a block of square")
        found = self.forms(x, x)["cross"].diagonal()
        violation = "diagonal is not what cross has for a point with itself"
        # A cusp turns the rounding of a squared distance into its square root.
        self.require_close(found, diagonal[:5], violation, tolerance=30.0 * self.eps**0.5)

    def variance_and_jitter(self) -> None:
        x, y = self.points(5), self.points(4)
        plain = self.forms(x, y)
        plain["square"] = linalg.add_jitter(plain["square"], _JITTER)
        for name, value in self.forms(x, y, _JITTER, _VARIANCE).items():
            violation = f"{name} with variance and jitter is not variance times it, with jitter"
            self.require_close(value, plain[name] * _VARIANCE, violation)

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
        x, y = self.points(5), self.points(4)
        if self.subject.needs_features:
            try:
                self.subject.square(GramInducing(x @ x.mT))
            except ValueError:
                return
            self.require(False, "it says that it needs features, but accepts a Gram matrix")
        for a, b in ((x, y), (x.expand(2, -1, -1), self.points(2, 4))):
            for joint in (False, True):
                expected = self.forms(a, b, _JITTER, _VARIANCE)
                for name, found in self.forms(*_gram(a, b, joint), _JITTER, _VARIANCE).items():
                    violation = f"{name} of features and of their Gram matrix differ"
                    self.require_close(found, expected[name], violation)
                    self.require_value(f"{name} of a Gram matrix", found)
            square = self.subject.square(_gram(a, b, joint=True)[1])
            self.require_equal(square, square.mT, "square of a Gram matrix is not symmetric")
            violation = "square of features and of rows with a Gram matrix differ"
            self.require_close(square, self.subject.square(b), violation)

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
            found["a Gram matrix"] = self.forms(*_gram(x, y))
        for form, values in found.items():
            finite = all(value.isfinite().all() for value in values.values())
            self.require(finite, f"from {form} it is not finite where {where}")
            violation = f"from {form} its gradient is not finite where {where}"
            self.require_finite_gradient(self.mixed(values.values()), [x, y], violation)

    def gradients_are_right(self) -> None:
        self.subject.double()
        x, y = self.points(4).double(), self.points(3).double()

        def values(x: Inducing, y: Rows) -> tuple[Tensor, ...]:
            return tuple(self.forms(x, y, _JITTER, _VARIANCE).values())

        what = "the gradient with respect to {} and parameters"
        self.require_slopes(values, (x, y), what.format("features"))
        if not self.subject.needs_features:
            (gram,), rows = _gram(x, y)
            self.require_slopes(
                lambda ii, it, tt: values(GramInducing(ii), GramRows(it, tt)),
                (gram, *rows),
                what.format("the Gram matrix"),
            )


def _gram(x: Tensor, y: Tensor, joint: bool = False) -> tuple[GramInducing, GramRows]:
    """Features by way of their inner products."""
    own = y @ y.mT if joint else y.square().sum(-1)
    return GramInducing(x @ x.mT), GramRows(x @ y.mT, own)
