"""Training where nothing is random: L-BFGS on the bound of a single layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from deepwishart._support.parameters import declared
from deepwishart.bound import elbo
from deepwishart.model import DeepKernelProcess
from deepwishart.training.history import History, ProgressEvent
from deepwishart.training.protocol import Protocol, is_deterministic
from deepwishart.training.state import TrainingState, interrupts_noted, minibatches

_OPTIONS = {"maxcor": 20, "gtol": 1e-6}  # of L-BFGS
_FAILED = 1e10  # minus the bound, where it cannot be computed


def train_deterministic(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    *,
    max_iter: int = 500,
    tolerance: float = 1e-7,
    history: History | None = None,
    progress: Callable[[ProgressEvent], None] | None = None,
    log_prior: Callable[[DeepKernelProcess], Tensor] | None = None,
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
        log_prior: log density of the parameters, which is added to the bound of all rows.

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
    dtype = model.dtype
    model.double()
    X, y = model.check_data(X, y)
    model.remember(X, y)
    factors = {"inducing": 0.0} if _all_rows_induce(model, X) else {}
    protocol = Protocol(max_iter, 1.0, 1.0, "constant", kl_anneal=0, factors=factors)
    history = History() if history is None else history
    history.stopped_by = "interrupt"
    state = TrainingState(model, minibatches(X, y, None), protocol, history=history)
    best = parameters_to_vector(state.parameters.values()).detach().cpu().numpy()

    def bound() -> Tensor:
        found = elbo(model, X, y, num_data=len(X), num_samples=1)
        return found if log_prior is None else found + log_prior(model) / len(X)

    try:
        with interrupts_noted() as interrupts:

            def finished(intermediate_result: OptimizeResult) -> None:
                nonlocal best
                best = intermediate_result.x.copy()
                state.step += 1
                state.record(-intermediate_result.fun, 1.0, 1.0)
                if progress is not None:
                    progress(ProgressEvent(state.step - 1, max_iter, history))
                if interrupts:
                    raise StopIteration

            found = minimize(
                _minus,
                best,
                (bound, state),
                jac=True,
                method="L-BFGS-B",
                bounds=_limits(state),
                callback=finished,
                options={"maxiter": max_iter, "ftol": tolerance, **_OPTIONS},
            )
            if not interrupts:
                history.stopped_by = "max_iter" if found.nit >= max_iter else "converged"
    except KeyboardInterrupt:
        pass
    finally:
        _set_parameters(best, state)
        state.release_gradients()
        model.to(dtype)
    return history


def _minus(
    values: np.ndarray, bound: Callable[[], Tensor], state: TrainingState
) -> tuple[float, np.ndarray]:
    """Minus the bound, and its gradient, as functions of a flat array."""
    _set_parameters(values, state)
    state.differentiate(bound)
    found = state.buffer.cpu().numpy()
    if not np.isfinite(found).all():
        return _FAILED, np.zeros_like(values)
    return -float(found[-1]), found[:-1].copy()


@torch.no_grad()
def _set_parameters(values: np.ndarray, state: TrainingState) -> None:
    trained = list(state.parameters.values())
    parts = torch.from_numpy(values.copy()).split([p.numel() for p in trained])
    for p, part in zip(trained, parts, strict=True):
        p.copy_(part.view_as(p))


def _limits(state: TrainingState) -> list[tuple[float, float]]:
    """The lowest and the highest value of every number that is trained."""
    known = {name: (about.low, about.high) for name, _, about in declared(state.model)}
    return [known[name] for name, p in state.parameters.items() for _ in range(p.numel())]


@torch.no_grad()
def _all_rows_induce(model: DeepKernelProcess, X: Tensor) -> bool:
    """Whether the inducing points are the distinct rows."""
    rows = torch.unique(model.scale_inputs(X), dim=0)
    if len(rows) != model.num_inducing:
        return False
    own = getattr(model.output, "inducing_inputs", None)
    points = model.first_inducing() if own is None else own
    return len(torch.unique(torch.cat([rows, points]), dim=0)) == len(rows)
