"""The contract of kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError
from torch.func import functional_call

from deepwishart.blocks import Blocks, Features
from deepwishart.kernels.base import Kernel
from deepwishart.testing.requirements import Requirements

__all__ = ["check_kernel"]

_ANY_NUMBER_OF_FEATURES = 3


def check_kernel(kernel: Kernel, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> None:
    r"""Check all that the rest of the package takes for granted about a kernel.

    That it is a kernel: symmetric, positive semi-definite, its diagonal the limit of its entries.
    That its forms agree: ``square``, ``cross`` and ``diagonal``, with and without batch dimensions,
    from features and, unless it needs features, from Gram matrices. That its gradients are right at
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
    check.batches()
    check.positive()
    check.gram_form()
    check.gradients_are_finite()
    check.gradients_are_right()


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
        features = Features(self.points(5), self.points(4))
        everything = self.kernel.square(torch.cat(features))
        for joint in (False, True):
            blocks = self.kernel(features, joint)
            self.require(blocks.joint == joint, f"the blocks say joint={blocks.joint}, not {joint}")
            self.require_close(blocks.ii, everything[:5, :5], "ii is not a block of square")
            self.require_close(blocks.it, everything[:5, 5:], "cross is not a block of square")
            tt = everything[5:, 5:]
            self.require_close(
                blocks.tt,
                tt if joint else tt.diagonal(),
                f"tt with joint={joint} is not a block of square",
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
            features = Features(self.points(*shape, 5), self.points(*shape, 4))
            for joint in (False, True):
                gram = Blocks.from_features(features, joint)
                if self.kernel.needs_features:
                    self._require_refusal(gram)
                    continue
                blocks, expected = self.kernel(gram), self.kernel(features, joint)
                self.require(blocks.joint == joint, f"from_gram turns joint={joint} into the other")
                for name in ("ii", "it", "tt"):
                    actual: Tensor = getattr(blocks, name)
                    violation = f"the {name} block from features and from a Gram matrix differ"
                    self.require_close(actual, getattr(expected, name), violation)
                    self.require(actual.dtype == self.dtype, f"{violation} in dtype")
                self.require(
                    torch.equal(blocks.ii, blocks.ii.mT),
                    "square_from_gram is not exactly symmetric",
                )

    def _require_refusal(self, gram: Blocks) -> None:
        try:
            self.kernel(gram)
        except ValueError:
            return
        self.require(False, "it says that it needs features, but accepts a Gram matrix")

    def gradients_are_right(self) -> None:
        kernel = copy.deepcopy(self.kernel).double()
        parameters = {name: p.detach() for name, p in kernel.named_parameters()}
        features = self.points(4, dtype=torch.float64), self.points(3, dtype=torch.float64)

        def from_features(inducing: Tensor, data: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
            source = Features(inducing, data)
            named = dict(zip(parameters, values, strict=True))
            blocks: Blocks = functional_call(kernel, named, (source, True))
            return blocks.ii, blocks.it, blocks.tt

        def from_gram(ii: Tensor, it: Tensor, tt: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
            named = dict(zip(parameters, values, strict=True))
            blocks: Blocks = functional_call(kernel, named, (Blocks(ii, it, tt, True),))
            return blocks.ii, blocks.it, blocks.tt

        self._gradcheck(from_features, (*features, *parameters.values()), "features")
        if not kernel.needs_features:
            gram = Blocks.from_features(Features(*features), joint=True)
            inputs = (gram.ii, gram.it, gram.tt, *parameters.values())
            self._gradcheck(from_gram, inputs, "the Gram matrix")

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
        self._require_finite(Features(inducing, data), "two points coincide or one is zero")
        self._require_finite(Features(0.0 * inducing, 0.0 * data), "all points are zero")

    def _require_finite(self, points: Features, where: str) -> None:
        parameters = [p for p in self.kernel.parameters() if p.requires_grad]
        for form in ("features", "a Gram matrix"):
            if form != "features" and self.kernel.needs_features:
                continue
            features = Features(*(x.detach().clone().requires_grad_() for x in points))
            gram = Blocks.from_features(features, joint=True)
            blocks = self.kernel(features, True) if form == "features" else self.kernel(gram)
            total = torch.zeros((), dtype=self.dtype, device=self.device)
            for block in (blocks.ii, blocks.it, blocks.tt):
                self.require(block.isfinite().all(), f"from {form} it is not finite where {where}")
                weights = torch.randn(block.shape, generator=self.generator, dtype=torch.float64)
                total = total + (weights.to(block) * block).sum()
            variables = [*features, *parameters]
            for gradient in torch.autograd.grad(total, variables, allow_unused=True):
                self.require(
                    gradient is None or gradient.isfinite().all(),
                    f"from {form} its gradient is not finite where {where}",
                )
