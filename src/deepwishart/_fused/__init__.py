r"""Hand-written gradients for the operations that carry the cost of training.

Each class states its derivation and its cost. They are reached only through
:mod:`deepwishart.linalg` and agree with ordinary autograd (tests compare the two). On CPUs they
call :mod:`deepwishart._native`, which works sample by sample in a core's own cache; elsewhere, and
where there is no compiler, the PyTorch code below does the same. All inputs have one batch
dimension.
"""

from deepwishart._fused.factors import (
    Cholesky,
    CholeskyWithInverse,
    cholesky_ex,
    triangular_inverse,
)
from deepwishart._fused.inducing import DrawRoot, Observe
from deepwishart._fused.rows import (
    Condition,
    GaussianCondition,
    GaussianSample,
    GaussianSquare,
)

__all__ = [
    "Cholesky",
    "CholeskyWithInverse",
    "Condition",
    "DrawRoot",
    "GaussianCondition",
    "GaussianSample",
    "GaussianSquare",
    "Observe",
    "cholesky_ex",
    "triangular_inverse",
]
