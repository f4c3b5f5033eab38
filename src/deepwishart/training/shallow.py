"""Where a deep model starts: at the Gaussian process that it contains."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor

from deepwishart.bound import elbo
from deepwishart.kernels.stationary import Stationary
from deepwishart.layers import CollapsedOutputLayer
from deepwishart.model import DeepKernelProcess
from deepwishart.numerics.linalg import linear_map
from deepwishart.start import start_noise
from deepwishart.training.protocol import Protocol

__all__ = ["start_from_shallow"]

_ROWS = 2_000  # that the single layer is trained on
_LARGEST = 1e3  # of a distance between features in lengthscales, and its inverse
_TIE_BREAK = 1e-3
_NOISE_FACTORS = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4)


def start_from_shallow(
    model: DeepKernelProcess, X: Tensor, y: Tensor, *, steps: int = 150, process_group: Any = None
) -> bool:
    r"""Train a single layer with the model's inducing points, and let the model start there.

    A Gaussian process with lengthscales :math:`\ell_\lambda` on the inputs is a deep one whose
    hidden layer hands on the features :math:`x_\lambda / (c\, \ell_\lambda)` and whose output layer
    has the lengthscale :math:`1/c`; :math:`c` gives features a mean squared norm of one, as they
    have under the prior. The hidden layer starts close to these features
    (:meth:`deepwishart.layers.Layer.start_from`), its kernel with the lengthscales
    :math:`c\, \ell_\lambda`.

    Nothing happens to a model without hidden layers or with several: at depth 5 training went on
    faster from the start of :func:`deepwishart.build` (docs, "Choosing"). Nor to one whose output
    layer is learned, whose layers have inducing points of their own, or whose kernels have no
    lengthscales.

    Args:
        model: changed in place.
        X: all inputs ``(N, num_features)``, standardised.
        y: all targets ``(N, D)``, standardised.
        steps: training steps of the single layer, on at most 2,000 rows.
        process_group: processes that train together.

    The hidden layer starts with noise of its own, which a single layer does not know: the noise of
    the targets starts at what is best for both, and a start whose bound is below the model's
    present one is undone.

    Returns:
        Whether the model has been changed.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5, output="collapsed")
    >>> start_from_shallow(model, X, X.sin(), steps=50)
    True
    """
    from deepwishart.training.loop import train

    kernels, points = _lengthscale_kernels(model), model.inducing_inputs
    if kernels is None or points is None:
        return False
    first, last = kernels
    single, own = copy.deepcopy(model), copy.deepcopy(first)
    single.layers, single.output.kernel = torch.nn.ModuleList(), own
    protocol = Protocol(steps, 1e-1, 1e-3, "flat", 0, num_samples=1, betas=(0.9, 0.99))
    every = math.ceil(len(X) / _ROWS)
    some = X[::every], y[::every]
    train(single, *some, protocol, process_group=process_group)
    kept, before = copy.deepcopy(model.state_dict()), _bound(model, *some)
    with torch.no_grad():
        features = single.first_inducing() / own.lengthscale
        features = features - features.mean(0)
        norm = features.square().sum(-1).mean().sqrt().clamp(1 / _LARGEST, _LARGEST)
        points.copy_(torch.as_tensor(single.inducing_inputs))
        model.likelihood.load_state_dict(single.likelihood.state_dict())
        first.log_lengthscale.copy_((own.lengthscale * norm).log())
        layer = model.hidden[0]
        width = layer.width
        noise = start_noise(len(X), len(features) * width)
        layer.start_from(model.first_inducing(), _columns(features / norm, width), noise)
        last.log_lengthscale.copy_(-norm.log())
        last.log_height.copy_(own.log_height)
    better = _settle_noise(model, *some) > before
    if not better:
        model.load_state_dict(kept)
    return better


def _lengthscale_kernels(model: DeepKernelProcess) -> tuple[Stationary, Stationary] | None:
    """Both kernels of a model of two layers that can start from a single one."""
    if not (len(model.hidden) == 1 and isinstance(model.output, CollapsedOutputLayer)):
        return None
    first, last = getattr(model.hidden[0], "kernel", None), model.output.kernel
    if not (isinstance(first, Stationary) and isinstance(last, Stationary)):
        return None
    fits = first.num_features == model.num_features and last.num_features is None
    fits = fits and last.num_inputs is None
    return (first, last) if fits else None


@torch.no_grad()
def _bound(model: DeepKernelProcess, X: Tensor, y: Tensor) -> float:
    generator = torch.Generator(model.device).manual_seed(0)
    return float(elbo(model, X, y, num_data=len(X), num_samples=10, generator=generator))


def _settle_noise(model: DeepKernelProcess, X: Tensor, y: Tensor) -> float:
    """Multiply the noise variance by the best of a few factors; the bound with it."""
    log_noise = torch.as_tensor(model.likelihood.log_noise)
    first, found = log_noise.detach().clone(), []
    for factor in _NOISE_FACTORS:
        log_noise.data.copy_(first + math.log(factor))
        found.append(_bound(model, X, y))
    best = max(range(len(found)), key=found.__getitem__)
    log_noise.data.copy_(first + math.log(_NOISE_FACTORS[best]))
    return found[best]


def _columns(features: Tensor, width: int) -> Tensor:
    """Features in ``width`` columns, with a little noise so that no two are tied."""
    generator = torch.Generator().manual_seed(0)
    linear = features @ linear_map(features, width)
    noise = torch.randn(linear.shape, generator=generator, dtype=linear.dtype)
    return linear + _TIE_BREAK * noise.to(linear.device)
