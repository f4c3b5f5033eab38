r"""From a trained model to one with another layer, at the same bound.

Where all layers see the inputs, :math:`K_\ell = k_G(G_{\ell-1}) \odot k_X(X)`, a model of any depth
is one of a layer more whose new first layer nobody looks at: with a flat :math:`k_G` the second
layer is the first one of the shallower model, and at its prior the new layer costs nothing.
"""

from __future__ import annotations

import math

import torch

from deepwishart._support.arguments import number
from deepwishart.model import DeepKernelProcess
from deepwishart.start import starting_features

__all__ = ["grow"]


@torch.no_grad()
def grow(model: DeepKernelProcess, *, departure: float = 1e-3, seed: int = 0) -> DeepKernelProcess:
    r"""A model of one layer more that is the given one, up to ``departure``.

    The kernel on the new layer has the lengthscale :math:`\epsilon^{-1/2}`, and the new layer
    starts as if its inputs had been observed with noise of variance :math:`1/\epsilon`, relative to
    the prior's: kernel matrices change by about :math:`\epsilon`, relative to their diagonals. With
    less the bound is closer to the old one, with more the new layer starts to learn earlier.

    Args:
        model: a trained ``dwp`` or ``dgp`` of one layer, or whose layers all see the inputs.
        departure: :math:`\epsilon`.
        seed: of the little noise that keeps the new layer's columns apart.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=1, num_inducing=5, output="collapsed")
    >>> deeper = grow(model, departure=1e-8)
    >>> bounds = [dw.elbo(each, X, X.sin(), num_data=20).item() for each in (model, deeper)]
    >>> deeper.depth, abs(bounds[0] - bounds[1]) < 1e-4
    (2, True)
    """
    departure = number("departure", departure, high=1.0)
    spec = model.spec
    if spec is None or spec.process not in ("dwp", "dgp") or not spec.ard:
        raise ValueError("Only models of 'dwp' and 'dgp' by name, with ard=True, can be grown.")
    if spec.depth > 1 and spec.inputs != "all":
        raise ValueError(
            "A model grows where every layer sees the inputs: build it with inputs='all'."
        )
    width = spec.width if not isinstance(spec.width, tuple) else (spec.width[0], *spec.width)
    output = "collapsed" if spec.output == "exact" else spec.output
    wanted = spec.replace(depth=spec.depth + 1, inputs="all", width=width, output=output)
    deeper = wanted.make().to(model.device)
    tensors = {k: v for k, v in model.state_dict().items() if not k.startswith("layers.")}
    for index, layer in enumerate(model.hidden, 1):
        tensors |= {f"layers.{index}.{k}": v for k, v in layer.state_dict().items()}
    # The layer that saw the inputs alone sees them beside a flat kernel on the new one.
    kernel = "output.kernel" if spec.depth == 1 else "layers.1.kernel"
    lengthscale = tensors[f"{kernel}.log_lengthscale"]
    tensors[f"{kernel}.log_input_lengthscale"] = lengthscale
    tensors[f"{kernel}.log_lengthscale"] = lengthscale.new_tensor(-0.5 * math.log(departure))
    tensors |= {f"layers.0.{k}": v for k, v in deeper.hidden[0].state_dict().items()}
    deeper.load_tensors(tensors)
    points = deeper.first_inducing()
    generator = torch.Generator().manual_seed(seed)
    features = starting_features(points.cpu(), wanted.widths[0], generator).to(points)
    deeper.hidden[0].start_from(points, features, 1.0 / departure)
    return deeper
