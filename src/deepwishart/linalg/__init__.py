"""The numerical seam: what layers and distributions state, computed safely and fast.

Layers and distributions state mathematics; this package decides how it is computed. The
operations that carry the cost of training have hand-written gradients in
:mod:`deepwishart._fused`, with compiled loops behind them on CPUs; setting ``plain=True`` on them
selects ordinary autograd through :mod:`torch.linalg`, which tests use as the reference.
"""

from deepwishart.linalg.factors import (
    LARGEST_JITTER,
    CholeskyError,
    Factor,
    add_jitter,
    cholesky,
    default_jitter,
    factor,
    log_det,
    solve_lower,
    solve_upper,
)
from deepwishart.linalg.inducing import Observations, RootDraw, draw_root, observe
from deepwishart.linalg.rows import (
    ClosedForm,
    GaussianKernel,
    closed_form,
    condition,
    draw_rows,
    gaussian_square,
)

__all__ = [
    "LARGEST_JITTER",
    "CholeskyError",
    "ClosedForm",
    "Factor",
    "GaussianKernel",
    "Observations",
    "RootDraw",
    "add_jitter",
    "cholesky",
    "closed_form",
    "condition",
    "default_jitter",
    "draw_root",
    "draw_rows",
    "factor",
    "gaussian_square",
    "log_det",
    "observe",
    "solve_lower",
    "solve_upper",
]
