"""The contract of kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError
from torch.func import functional_call

from deepwishart import linalg
from deepwishart.kernels.base import Kernel
from deepwishart.operations.gaussian import GaussianKernel
from deepwishart.testing.requirements import Requirements

__all__ = ["check_kernel"]

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

    Args:
        kernel: the kernel to check, which is copied and not changed.
        dtype: the floating point type to check it in.
        seed: of the random points.

    Raises:
        AssertionError: naming the kernel and the violated property.

    Example:
        >>> from deepwishart.kernels import SquaredExponential
        >>> check_kernel(SquaredExponential(height=2.0, lengthscale=0.7))
    """
    check = _KernelCheck(copy.deepcopy(kernel).to(dtype), dtype, seed)
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


class _Blocks(NamedTuple):
    """A matrix of inducing and data points: ``ii``, ``it`` and ``tt`` with its diagonal."""

    ii: Tensor
    it: Tensor
    tt: Tensor
    diagonal: Tensor


def _from_features(kernel: Kernel, inducing: Tensor, data: Tensor) -> _Blocks:
    square, diagonal = kernel.square(data), kernel.diagonal(data)
    return _Blocks(kernel.square(inducing), kernel.cross(inducing, data), square, diagonal)


def _from_gram(kernel: Kernel, ii: Tensor, it: Tensor, tt: Tensor) -> _Blocks:
    norms = [matrix.diagonal(dim1=-2, dim2=-1) for matrix in (ii, tt)]
    return _Blocks(
        kernel.square_from_gram(ii),
        kernel.cross_from_gram(norms[0], it, norms[1]),
        kernel.square_from_gram(tt),
        kernel.diagonal_from_gram(norms[1]),
    )


def _gram(inducing: Tensor, data: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return inducing @ inducing.mT, inducing @ data.mT, data @ data.mT


class _Mirror(nn.Module):
    """All forms of a kernel as a forward pass, which is what can be called functionally."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        if len(inputs) == 3:
            return _from_gram(self.kernel, *inputs)
        inducing, data = inputs
        jittered = self.kernel.jittered_square(inducing, _JITTER, _VARIANCE)
        lazy = _formed(self.kernel.lazy_cross(inducing, data, _VARIANCE))
        return *_from_features(self.kernel, inducing, data), jittered, lazy


def _formed(block: Tensor | GaussianKernel) -> Tensor:
    return block if isinstance(block, Tensor) else block.form()


class _KernelCheck(Requirements):
    def __init__(self, kernel: Kernel, dtype: torch.dtype, seed: int) -> None:
        super().__init__(kernel, dtype, seed)
        self.kernel = kernel
        self.num_features = kernel.num_features or _ANY_NUMBER_OF_FEATURES

    def points(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        drawn = torch.randn(
            *shape, self.num_features, generator=self.generator, dtype=torch.float64
        )
        return drawn.to(dtype=dtype or self.dtype, device=self.device)

    def dtype_and_determinism(self) -> None:
        inducing, data = self.points(5), self.points(4)
        calls: dict[str, Callable[[], Tensor]] = {
            "square": lambda: self.kernel.square(inducing),
            "cross": lambda: self.kernel.cross(inducing, data),
            "diagonal": lambda: self.kernel.diagonal(data),
        }
        for name, call in calls.items():
            value = call()
            self.require(value.dtype == self.dtype, f"{name} turns {self.dtype} into {value.dtype}")
            self.require(value.isfinite().all(), f"{name} is not finite at generic points")
            self.require(torch.equal(value, call()), f"{name} gives two answers to one question")

    def symmetry(self) -> None:
        first, second = self.points(6), self.points(4)
        square = self.kernel.square(first)
        self.require(torch.equal(square, square.mT), "square is not exactly symmetric")
        self.require_close(
            self.kernel.cross(second, first).mT,
            self.kernel.cross(first, second),
            "it is not symmetric, k(x, y) and k(y, x) differ",
        )

    def diagonal(self) -> None:
        points = self.points(6)
        diagonal = self.kernel.diagonal(points)
        self.require(
            torch.equal(self.kernel.square(points).diagonal(), diagonal),
            "the diagonal of square is not exactly diagonal()",
        )
        self.require_close(
            self.kernel.cross(points, points).diagonal(),
            diagonal,
            "on_diagonal is not what elementwise gives for a point with itself",
            # A cusp turns the rounding of a squared distance into its square root.
            tolerance=30.0 * self.eps**0.5,
        )

    def blocks(self) -> None:
        inducing, data = self.points(5), self.points(4)
        found = _from_features(self.kernel, inducing, data)
        everything = self.kernel.square(torch.cat([inducing, data]))
        tt = everything[5:, 5:]
        for name, block, expected in (
            ("square", found.ii, everything[:5, :5]),
            ("cross", found.it, everything[:5, 5:]),
            ("square", found.tt, tt),
            ("diagonal", found.diagonal, tt.diagonal()),
        ):
            self.require_close(block, expected, f"{name} is not a block of square")

    def with_variance_and_jitter(self) -> None:
        inducing, data = self.points(5), self.points(4)
        square = self.kernel.square(inducing)
        for jitter, variance in ((0.0, 1.0), (_JITTER, _VARIANCE)):
            expected = linalg.add_jitter(square, jitter) * variance
            found = self.kernel.jittered_square(inducing, jitter, variance)
            self.require_close(
                found, expected, "jittered_square is not variance times square, with jitter"
            )
            self.require(torch.equal(found, found.mT), "jittered_square is not exactly symmetric")
            lazy = _formed(self.kernel.lazy_cross(inducing, data, variance))
            self.require_close(
                lazy,
                self.kernel.cross(inducing, data) * variance,
                "lazy_cross is not variance times cross",
            )
            for name, value in (("jittered_square", found), ("lazy_cross", lazy)):
                self.require(
                    value.dtype == self.dtype, f"{name} turns {self.dtype} into {value.dtype}"
                )

    def batches(self) -> None:
        one, first, second = self.points(5), self.points(2, 3, 5), self.points(2, 3, 4)
        square, diagonal = self.kernel.square(first), self.kernel.diagonal(first)
        cross, mixed = self.kernel.cross(first, second), self.kernel.cross(one, second)
        flipped = self.kernel.cross(second, one)
        for index in ((0, 0), (1, 2)):
            x, y = first[index], second[index]
            pairs = {
                "square": (square[index], self.kernel.square(x)),
                "diagonal": (diagonal[index], self.kernel.diagonal(x)),
                "cross": (cross[index], self.kernel.cross(x, y)),
                "cross of one set with a batch": (mixed[index], self.kernel.cross(one, y)),
                "cross of a batch with one set": (flipped[index], self.kernel.cross(y, one)),
            }
            for name, (batched, single) in pairs.items():
                self.require_close(batched, single, f"{name} depends on the rest of the batch")

    def positive(self) -> None:
        for scale in (0.5, 2.0):
            points = scale * self.points(30)
            eigenvalues = torch.linalg.eigvalsh(self.kernel.square(points).detach().double())
            smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
            self.require(
                smallest >= -1e3 * self.eps * max(largest, 0.0),
                f"square is not positive semi-definite, its eigenvalues run from {smallest:.1e} to "
                f"{largest:.1e}",
            )

    def gram_form(self) -> None:
        for shape in ((), (2,)):
            points = self.points(*shape, 5), self.points(*shape, 4)
            gram = _gram(*points)
            if self.kernel.needs_features:
                self._require_refusal(gram[0])
                continue
            blocks, expected = _from_gram(self.kernel, *gram), _from_features(self.kernel, *points)
            for name in _Blocks._fields:
                actual: Tensor = getattr(blocks, name)
                violation = f"the {name} block from features and from a Gram matrix differ"
                self.require_close(actual, getattr(expected, name), violation)
                self.require(actual.dtype == self.dtype, f"{violation} in dtype")
            self.require(
                torch.equal(blocks.ii, blocks.ii.mT), "square_from_gram is not exactly symmetric"
            )

    def _require_refusal(self, gram: Tensor) -> None:
        try:
            self.kernel.square_from_gram(gram)
        except ValueError:
            return
        self.require(False, "it says that it needs features, but accepts a Gram matrix")

    def gradients_are_right(self) -> None:
        mirror = _Mirror(copy.deepcopy(self.kernel).double())
        parameters = {name: p.detach() for name, p in mirror.named_parameters()}
        points = self.points(4, dtype=torch.float64), self.points(3, dtype=torch.float64)

        def function(num_inputs: int) -> Callable[..., tuple[Tensor, ...]]:
            def call(*values: Tensor) -> tuple[Tensor, ...]:
                named = dict(zip(parameters, values[num_inputs:], strict=True))
                found: tuple[Tensor, ...] = functional_call(mirror, named, values[:num_inputs])
                return found

            return call

        self._gradcheck(function(2), (*points, *parameters.values()), "features")
        if not self.kernel.needs_features:
            inputs = (*_gram(*points), *parameters.values())
            self._gradcheck(function(3), inputs, "the Gram matrix")

    def _gradcheck(
        self, function: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor, ...], what: str
    ) -> None:
        variables = tuple(x.clone().requires_grad_() for x in inputs)
        try:
            torch.autograd.gradcheck(function, variables)
        except GradcheckError as error:
            raise AssertionError(
                f"{type(self.kernel).__name__}: the gradient with respect to {what} and parameters "
                f"differs from finite differences: {str(error).splitlines()[0]}"
            ) from error

    def gradients_are_finite(self) -> None:
        inducing, data = self.points(6), self.points(4)
        inducing[1] = inducing[0]
        inducing[2:4] = 0.0
        data[0] = inducing[0]
        data[1:3] = 0.0
        self._require_finite((inducing, data), "two points coincide or one is zero")
        self._require_finite((0.0 * inducing, 0.0 * data), "all points are zero")

    def _require_finite(self, points: tuple[Tensor, Tensor], where: str) -> None:
        parameters = [p for p in self.kernel.parameters() if p.requires_grad]
        for form in ("features", "a Gram matrix"):
            if form != "features" and self.kernel.needs_features:
                continue
            inducing, data = (x.detach().clone().requires_grad_() for x in points)
            blocks = (
                _from_features(self.kernel, inducing, data)
                if form == "features"
                else _from_gram(self.kernel, *_gram(inducing, data))
            )
            total = torch.zeros((), dtype=self.dtype, device=self.device)
            for block in blocks:
                self.require(block.isfinite().all(), f"from {form} it is not finite where {where}")
                total = total + (self.normal(*block.shape) * block).sum()
            variables = [inducing, data, *parameters]
            for gradient in torch.autograd.grad(total, variables, allow_unused=True):
                self.require(
                    gradient is None or gradient.isfinite().all(),
                    f"from {form} its gradient is not finite where {where}",
                )
