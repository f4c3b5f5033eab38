"""What a model is: every structural choice, its allowed values and its JSON."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from deepwishart import kernels, likelihoods
from deepwishart._support.arguments import check_choice, number, shown, whole_number
from deepwishart.kernels import Kernel
from deepwishart.layers import (
    AnchoredLayer,
    CollapsedOutputLayer,
    DoublyStochasticLayer,
    DoublyStochasticOutputLayer,
    ExactOutputLayer,
    GlobalInducingLayer,
    GPOutputLayer,
    InverseWishartLayer,
    Layer,
    OutputLayer,
    StackedOutputLayer,
    WishartLayer,
)
from deepwishart.layers.base import BOUNDS
from deepwishart.layers.wishart import POSTERIORS as MIXINGS
from deepwishart.likelihoods import Gaussian, Likelihood
from deepwishart.model import DeepKernelProcess
from deepwishart.numerics import linalg

__all__ = ["CHOICES", "OUTPUTS", "PROCESSES", "ModelSpec"]

PROCESSES = ("dwp", "dgp", "dsvi", "diwp")
OUTPUTS = ("inducing", "collapsed", "exact")
INPUTS = ("first", "all")
POSTERIORS = (*MIXINGS, "anchored")
DTYPES = {"float64": torch.float64, "float32": torch.float32}
#: Allowed values of the choices by name.
CHOICES: dict[str, tuple[str, ...]] = {
    "process": PROCESSES,
    "output": OUTPUTS,
    "posterior": POSTERIORS,
    "bound": BOUNDS,
    "inputs": INPUTS,
    "dtype": tuple(DTYPES),
    "kernel": kernels.names(),
    "likelihood": tuple(likelihoods.NAMES),
}
# Jitter is variance that nothing explains, and the collapsed bound divides it by the noise.
_COLLAPSED_JITTER, _SINGLE_LAYER_JITTER = 1e-8, 1e-10
_EXACT_JITTER = 1e-14  # of the size of rounding, beside noise that may be as small
LARGEST_JITTER = 0.1


def choice(default: Any, help: str) -> Any:
    """A field, with the sentence that the command line shows of it."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class ModelSpec:
    r"""The structure of a deep kernel process; :meth:`make` builds it without data.

    Everything on which the number, shape or meaning of a model's parameters depends is here, and
    nothing else is: :func:`deepwishart.build` chooses a specification, makes the model and lets it
    start from data; estimators, the command line, sweeps and files hold one.

    Args:
        num_features: number of input columns.
        num_outputs: number of target columns.
        process: ``"dwp"``, ``"dgp"``, ``"dsvi"`` or ``"diwp"``.
        depth: number of layers, the output layer included.
        width: degrees of freedom :math:`\nu` of the hidden layers, one number or one for each; the
            number of features if ``None``.
        num_inducing: number of inducing points P.
        kernel: a name, a kernel to copy for each layer, or one of these for each layer.
        ard: a lengthscale for each input in the first layer of kernels by name.
        inputs: ``"first"``: only the first layer sees the inputs, as in the paper; ``"all"``: every
            layer does, :math:`K_\ell = k_G(G_{\ell-1}) \odot k_X(X)`, which is another prior.
        likelihood: a name, or a likelihood to copy.
        likelihood_options: arguments of a likelihood by name.
        output: ``"inducing"``, ``"collapsed"``, or ``"exact"`` for one layer whose inducing points
            are all distinct rows.
        posterior: family of the posterior of a ``dwp`` layer.
        bound: ``"titsias2009"``, the paper's, or ``"tight"``
            (:mod:`deepwishart.layers.collapsed_output`).
        mixing: initial weight :math:`q` of the learned scale :math:`V V^\top` in the posterior of a
            ``dwp`` layer; with 0 there is none.
        jitter: relative jitter on kernel matrices; the dtype's default if ``None``.
        dtype: ``"float64"`` or ``"float32"``.

    >>> spec = ModelSpec(num_features=3, depth=3, num_inducing=10)
    >>> spec.make().depth, ModelSpec.from_dict(spec.to_dict()) == spec
    (3, True)
    """

    num_features: int
    num_outputs: int = 1
    process: str = choice(
        "dwp",
        "dwp (deep Wishart process), dgp (deep GP, same prior), dsvi (doubly stochastic deep GP) "
        "or diwp (deep inverse Wishart process).",
    )
    depth: int = choice(2, "Layers, output layer included.")
    width: int | tuple[int, ...] | None = choice(None, "Width of hidden layers; number of inputs.")
    num_inducing: int = choice(100, "Inducing points.")
    kernel: str | Kernel | tuple[str | Kernel, ...] = choice(
        "squared_exponential", f"One of {', '.join(kernels.names())}."
    )
    ard: bool = choice(True, "A lengthscale for each input in the first layer, or one for all.")
    inputs: str = choice(
        "first", "Which layers see the inputs: the first, or all, beside the layer below them."
    )
    likelihood: str | Likelihood = choice("gaussian", "How targets scatter.")
    likelihood_options: Mapping[str, Any] = field(default_factory=dict)
    output: str = choice(
        "inducing", "collapsed (all rows at every step) or inducing (for minibatches)."
    )
    posterior: str = choice(
        "bartlett", "Posterior of a dwp layer: bartlett, rows, columns, rows_columns or anchored."
    )
    bound: str = choice(
        "titsias2009", "titsias2009 (the paper's) or tight (what is unexplained, as a logarithm)."
    )
    mixing: float = choice(0.0, "Initial weight of the learned scale of a dwp layer.")
    jitter: float | None = choice(None, "Relative jitter on kernel matrices; the dtype's.")
    dtype: str = choice("float64", "float64 or float32.")

    def __post_init__(self) -> None:
        for name in ("num_features", "num_outputs", "depth", "num_inducing"):
            self._set(name, whole_number(name, getattr(self, name)))
        for name in ("process", "output", "inputs", "posterior", "bound", "dtype"):
            check_choice(name, getattr(self, name), CHOICES[name])
        if self.width is not None and not _several(self.width):
            raise ValueError("width is empty; give one number, one for each hidden layer, or None.")
        if self.width is not None:
            widths = [whole_number("width", each) for each in _several(self.width)]
            self._set("width", tuple(widths) if len(widths) > 1 else widths[0])
        _per_layer("width", _several(self.width or 1), self.depth - 1)
        each = _per_layer("kernel", _several(self.kernel), self.depth)
        for one in each:
            if not isinstance(one, Kernel):
                check_choice("kernel", one, CHOICES["kernel"])
        if not isinstance(self.kernel, str | Kernel):
            self._set("kernel", tuple(self.kernel))
        if not isinstance(self.likelihood, Likelihood):
            check_choice("likelihood", self.likelihood, CHOICES["likelihood"])
        if self.mixing:
            self._set("mixing", number("mixing", self.mixing, high=1.0))
        if not isinstance(self.ard, bool | np.bool_):
            raise ValueError(f"ard must be True or False, got {shown(self.ard)}.")
        if self.jitter is not None:
            self._set("jitter", number("jitter", self.jitter, high=LARGEST_JITTER))
        if self.inputs == "all" and self.process == "diwp":
            raise ValueError(
                "inputs='all' joins inputs to features, and the layers of 'diwp' have none; use "
                "'dwp', 'dgp' or 'dsvi'."
            )
        if self.output == "exact" and (self.depth > 1 or self.process == "dsvi"):
            raise ValueError(
                "output='exact' is a Gaussian process on all rows, of one layer and no 'dsvi'; "
                "use 'collapsed' or 'inducing'."
            )
        if self.output != "inducing" and not issubclass(self.likelihood_class, Gaussian):
            name = self.likelihood_class.__name__
            raise ValueError(
                f"output={self.output!r} integrates Gaussian noise; {name} needs output='inducing'."
            )

    @property
    def likelihood_class(self) -> type[Likelihood]:
        """The class of the likelihood."""
        if isinstance(self.likelihood, Likelihood):
            return type(self.likelihood)
        return likelihoods.NAMES[self.likelihood]

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return tuple(_per_layer("width", _several(self.width or self.num_features), self.depth - 1))

    @property
    def torch_dtype(self) -> torch.dtype:
        """The floating point type of all parameters."""
        return DTYPES[self.dtype]

    @property
    def plain_jitter(self) -> float:
        """Relative jitter on the kernel matrices of hidden layers."""
        return linalg.default_jitter(self.torch_dtype) if self.jitter is None else self.jitter

    @property
    def output_jitter(self) -> float:
        """Relative jitter on the kernel matrix of the output layer."""
        if self.jitter is not None or self.output == "inducing" or self.dtype != "float64":
            return self.plain_jitter
        if self.output == "exact":
            return _EXACT_JITTER
        return _SINGLE_LAYER_JITTER if self.depth == 1 else _COLLAPSED_JITTER

    def make(self, layers: Sequence[Layer] | None = None) -> DeepKernelProcess:
        """A model of this structure that no data have touched; ready ``layers`` take the place of
        the process's own."""
        ready = layers is not None
        if layers is None:
            layers = [self._make_layer(index) for index in range(self.depth - 1)]
        own = [isinstance(layer, DoublyStochasticLayer) for layer in layers]
        own = own or [self.process == "dsvi" and not ready]
        likelihood = self.make_likelihood()
        points = torch.zeros(self.num_inducing, self.num_features, dtype=self.torch_dtype)
        return DeepKernelProcess(
            "custom" if ready else self.process,
            layers,
            self._make_output(likelihood, self._points(self.depth - 1) if own[-1] else None),
            likelihood,
            inducing_inputs=None if all(own) else points,
            num_features=self.num_features,
            num_inducing=self.num_inducing,
            joins_inputs=self.inputs == "all",
            spec=self,
        )

    def make_kernel(self, index: int) -> Kernel:
        """ARD in the first layer, where features exist; isotropic on the layer below after it."""
        options: dict[str, Any] = {"dtype": self.torch_dtype}
        if index == 0 and self.ard:
            options["num_features"] = self.num_features
        if index and self.inputs == "all":
            options["num_inputs"] = self.num_features
        kernel = _per_layer("kernel", _several(self.kernel), self.depth)[index]
        made = kernels.make(kernel, **options)
        if index == 0 and isinstance(kernel, str) and isinstance(made, kernels.Stationary):
            # Standardised rows of D columns are about sqrt(2 D) apart, where a kernel of
            # lengthscale 1 is zero and has no slope.
            made.log_lengthscale.data.fill_(math.log(max(1.0, math.sqrt(self.num_features) - 3.0)))
        return made

    def make_likelihood(self) -> Likelihood:
        """How targets arise, in the model's precision."""
        if isinstance(self.likelihood, Likelihood):
            return copy.deepcopy(self.likelihood).to(self.torch_dtype)
        options = {"num_outputs": self.num_outputs, **self.likelihood_options}
        if self.likelihood == "categorical":
            del options["num_outputs"]
        try:
            made: Likelihood = self.likelihood_class(**options).to(self.torch_dtype)
        except TypeError as error:
            raise ValueError(f"likelihood_options of {self.likelihood!r}: {error}.") from None
        return made

    def replace(self, **changes: Any) -> ModelSpec:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; ``ValueError`` for a kernel or likelihood that is an object, since
        to rebuild it would mean to run code from a file."""
        found = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        for name in ("kernel", "likelihood"):
            for each in _several(found[name]):
                if not isinstance(each, str):
                    raise ValueError(
                        f"A model with {name}={type(each).__name__}(...), an object, cannot be "
                        f"written as JSON: use one of the names {', '.join(CHOICES[name])}."
                    )
        found["likelihood_options"] = dict(self.likelihood_options)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelSpec:
        """The specification that :meth:`to_dict` wrote; ``ValueError`` for anything else."""
        names = [each.name for each in dataclasses.fields(cls)]
        if not isinstance(values, Mapping) or set(values) != set(names):
            raise ValueError(f"a model is described by {', '.join(names)}, got {shown(values)}")
        given: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        return cls(**given)

    def _points(self, index: int) -> torch.Tensor:
        """Inducing points of a layer that has its own."""
        columns = self.widths[index - 1] if index else 0
        columns += self.num_features if not index or self.inputs == "all" else 0
        return torch.zeros(self.num_inducing, columns, dtype=self.torch_dtype)

    def _make_output(self, likelihood: Likelihood, own: torch.Tensor | None) -> OutputLayer:
        """The output layer, of one part for each group of latent functions."""
        parts: list[OutputLayer] = []
        groups = likelihood.latent_groups
        for number_, columns in enumerate(groups, 1):
            kernel = self.make_kernel(self.depth - 1)
            if self.output == "exact":
                return ExactOutputLayer(kernel, columns, jitter=self.output_jitter)
            if self.output == "collapsed":
                return CollapsedOutputLayer(
                    kernel,
                    columns,
                    inducing_inputs=own,
                    bound=self.bound,
                    jitter=self.output_jitter,
                )
            name = "the output layer" if len(groups) == 1 else f"part {number_} of the output layer"
            zero = torch.zeros(self.num_inducing, columns, dtype=self.torch_dtype)
            options: dict[str, Any] = {"name": name, "bound": self.bound}
            options["jitter"] = self.plain_jitter
            if own is None:
                parts.append(GPOutputLayer(kernel, zero, **options))
            else:
                parts.append(DoublyStochasticOutputLayer(kernel, own, columns, **options))
        return parts[0] if len(parts) == 1 else StackedOutputLayer(parts)

    def _make_layer(self, index: int) -> Layer:
        """A hidden layer of the process."""
        kernel, width = self.make_kernel(index), self.widths[index]
        common: dict[str, Any] = {"name": f"layer {index + 1}", "jitter": self.plain_jitter}
        if self.process == "dgp":
            targets = torch.zeros(self.num_inducing, width, dtype=self.torch_dtype)
            return GlobalInducingLayer(kernel, targets, **common)
        if self.process == "dsvi":
            return DoublyStochasticLayer(kernel, self._points(index), width, **common)
        common["dtype"] = self.torch_dtype
        if self.process == "diwp":
            return InverseWishartLayer(kernel, self.num_inducing, **common)
        if self.posterior == "anchored":
            return AnchoredLayer(kernel, width, self.num_inducing, **common)
        common |= {"posterior": self.posterior, "initial_mixing": self.mixing}
        return WishartLayer(kernel, width, self.num_inducing, **common)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _several(value: Any) -> Sequence[Any]:
    """What was given for all layers at once, as for each."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _per_layer(name: str, values: Sequence[Any], count: int) -> Sequence[Any]:
    if len(values) == 1:
        return [*values] * count
    if len(values) != count:
        raise ValueError(
            f"{name} has {len(values)} entries for {count} layers; give one value for all of "
            "them, or one for each."
        )
    return values
