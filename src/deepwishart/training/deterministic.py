"""Training where nothing is random: L-BFGS on the bound of a single layer."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from deepwishart.bound import elbo
from deepwishart.layers import CollapsedOutputLayer
from deepwishart.model import DeepKernelProcess
from deepwishart.training.distributed import NUMERICAL_ERRORS
from deepwishart.training.guard import interrupts_noted
from deepwishart.training.history import COLUMNS, History
from deepwishart.training.progress import ProgressEvent

_MEMORY = 20  # of L-BFGS
_LOWEST, _HIGHEST = np.log(1e-12), np.log(1e6)  # of kernels' parameters and the noise
_FAILED = 1e10  # minus the bound, where it cannot be computed


def is_deterministic(model: DeepKernelProcess) -> bool:
    """Whether the bound is a plain function of the parameters: one layer, integrated out.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> is_deterministic(dw.build("dwp", X, X.sin(), depth=1, output="collapsed"))
    True
    """
    return not model.hidden and isinstance(model.output, CollapsedOutputLayer)


def train_deterministic(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    *,
    max_iter: int = 500,
    tolerance: float = 1e-7,
    history: History | None = None,
    progress: Callable[[ProgressEvent], None] | None = None,
) -> History:
    r"""Maximise the bound of a model with one layer,
    :math:`\theta \leftarrow \theta + \eta\, H \nabla_\theta \text{ELBO}(\theta)`, by L-BFGS.

    Where all distinct rows are inducing points, these stay where they are, and the bound is the
    exact Gaussian process's evidence but for the jitter. Not the evidence itself is maximised: with
    less noise than jitter, where its optimum may be, bound and predictions are far from it. In
    double precision, whatever the model's own; Ctrl-C keeps the last finished step. ``model``,
    ``X``, ``y``, ``history`` and ``progress`` are as in :func:`train`.

    Args:
        max_iter: largest number of steps.
        tolerance: rise of the bound per row that is not worth another step.

    Returns:
        The history, with one entry for each step of L-BFGS; its ``stopped_by`` is ``"converged"``,
        ``"max_iter"`` or ``"interrupt"``.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=1, output="collapsed")
    >>> train_deterministic(model, X, X.sin()).stopped_by
    'converged'
    """
    if not is_deterministic(model):
        raise ValueError("L-BFGS needs a model of one layer with output='collapsed'.")
    history = History() if history is None else history
    history.stopped_by = None
    dtype = model.dtype
    model.double()
    X, y = model.check_data(X, y)
    model.remember(X, y)
    objective = _Objective(model, X, y)
    began = time.perf_counter() - (history.seconds[-1] if history.seconds else 0.0)
    first = len(history)
    try:
        with interrupts_noted() as interrupts:

            def finished(intermediate_result: OptimizeResult) -> None:
                objective.best = intermediate_result.x.copy()
                noise = model.likelihood.summary().get("noise", 0.0)
                row = (-intermediate_result.fun, 1.0, 1.0, noise, time.perf_counter() - began)
                history.append(history.step[-1] + 1 if history.step else 0, *row)
                if progress is not None:
                    latest = (getattr(history, name)[-1] for name in COLUMNS[1:])
                    progress(ProgressEvent(len(history) - first - 1, max_iter, *latest))
                if interrupts:
                    raise StopIteration

            found = minimize(
                objective,
                objective.best,
                jac=True,
                method="L-BFGS-B",
                bounds=objective.bounds,
                callback=finished,
                options={"maxiter": max_iter, "maxcor": _MEMORY, "ftol": tolerance, "gtol": 1e-6},
            )
            ended = "max_iter" if found.nit >= max_iter else "converged"
            history.stopped_by = "interrupt" if interrupts else ended
    except KeyboardInterrupt:
        history.stopped_by = "interrupt"
    finally:
        objective.release()
        model.to(dtype)
    return history


class _Objective:
    """Minus the bound and its gradient as functions of a flat array."""

    def __init__(self, model: DeepKernelProcess, X: Tensor, y: Tensor) -> None:
        self.model, self.X, self.y = model, X, y
        self.exact = _all_rows_induce(model, X)
        self._kept = [
            p.requires_grad_(False)
            for name, p in model.named_parameters()
            if self.exact and name.endswith("inducing_inputs") and p.requires_grad
        ]
        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self.parameters = [p for _, p in trained]
        self.best = torch.cat([p.detach().ravel() for p in self.parameters]).cpu().numpy()
        self.bounds = [
            (_LOWEST, _HIGHEST) if n.rpartition(".")[2].startswith("log_") else (None, None)
            for n, p in trained
            for _ in range(p.numel())
        ]

    def __call__(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        self._set(values)
        try:
            bound = self._bound()
            slopes = torch.autograd.grad(-bound, self.parameters, materialize_grads=True)
        except NUMERICAL_ERRORS:
            return _FAILED, np.zeros_like(values)
        gradient = torch.cat([slope.ravel() for slope in slopes]).cpu().numpy()
        if not (np.isfinite(bound.item()) and np.isfinite(gradient).all()):
            return _FAILED, np.zeros_like(values)
        return -bound.item(), gradient

    def _bound(self) -> Tensor:
        return elbo(self.model, self.X, self.y, num_data=len(self.X), num_samples=1)

    @torch.no_grad()
    def _set(self, values: np.ndarray) -> None:
        parts = torch.from_numpy(values.copy()).split([p.numel() for p in self.parameters])
        for p, part in zip(self.parameters, parts, strict=True):
            p.copy_(part.view_as(p))

    def release(self) -> None:
        """Leave the model at the best values."""
        self._set(self.best)
        for p in self._kept:
            p.requires_grad_(True)


@torch.no_grad()
def _all_rows_induce(model: DeepKernelProcess, X: Tensor) -> bool:
    """Whether the inducing points are the distinct rows."""
    rows = torch.unique(model.scale_inputs(X), dim=0)
    if len(rows) != model.num_inducing:
        return False
    own = getattr(model.output, "inducing_inputs", None)
    points = model.first_inducing() if own is None else own
    return len(torch.unique(torch.cat([rows, points]), dim=0)) == len(rows)
