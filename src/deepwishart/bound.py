"""The bounds: plain functions from a model and data to a scalar."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from deepwishart._support.arguments import number, whole_number
from deepwishart.layers.gaussian import InducingOutputSample
from deepwishart.likelihoods import Gaussian
from deepwishart.model import DeepKernelProcess, ProcessSample
from deepwishart.numerics import linalg
from deepwishart.random import RowRandomness

__all__ = ["Processes", "elbo", "importance_weighted_bound"]

#: What a bound raises where a matrix cannot be factorised.
NUMERICAL_ERRORS = (linalg.CholeskyError, torch.linalg.LinAlgError)


def elbo(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    *,
    num_data: int,
    num_samples: int = 10,
    kl_weight: float = 1.0,
    generator: torch.Generator | None = None,
    joint: bool = False,
    processes: Processes | None = None,
) -> Tensor:
    r"""Evidence lower bound per data point, estimated from a minibatch (paper, Algorithm 1).

    .. math:: \frac1{N_\text{batch}} \sum_{n \in \text{batch}} \mathbb E_Q \log p(y_n \mid f_n)
              + \frac{w}{N} \sum_\ell \mathbb E_Q \log \frac{P(G^\ell_{ii} \mid G^{\ell-1}_{ii})}
              {Q(G^\ell_{ii} \mid G^{\ell-1}_{ii})}

    Unbiased in the minibatch, since the second sum involves inducing points only. A model with a
    collapsed output layer has another data term
    (:mod:`deepwishart.layers.collapsed_output`), which needs all rows.

    Args:
        model: any process.
        X: inputs ``(N_batch, num_features)``.
        y: targets ``(N_batch, D)`` or ``(N_batch,)``.
        num_data: number of rows N of the whole data set.
        num_samples: posterior samples S; they share one minibatch.
        kl_weight: factor :math:`w` on the second term, below 1 while annealing.
        generator: randomness; PyTorch's default generator if ``None``.
        joint: sample the hidden layers at all rows jointly, at a cost that is cubic in their
            number. An inducing output layer's expectation needs marginals only; a collapsed
            one's is a bound on the evidence of the process itself with joint rows, and otherwise
            of the process whose rows are independent given the inducing points.
        processes: that share the rows, all with generators in the same state; one alone if
            ``None``. Each returns the bound of all rows, whose gradient is the mean of theirs.

    Returns:
        A scalar tensor to be maximised.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> dw.elbo(model, X, X.sin(), num_data=20).shape
    torch.Size([])
    """
    X, y = model.check_data(X, y)
    _check_num_data(model, len(X), num_data)
    kl_weight = number("kl_weight", kl_weight, low=-math.inf)
    random = model.randomness(num_samples, generator)
    processes = processes or Processes()
    own = processes.rows(len(X))
    if joint and processes.world > 1:
        raise ValueError("joint=True samples all rows together, in one process; leave it out.")

    with processes.together():
        sample = model.sample(random)  # G_ii ~ Q, layer by layer, with log P - log Q
        rows = random.rows().part(own.start, len(X))
        summary = sample.summarise(X[own], y[own], rows, joint=joint)  # F_t ~ P( . | F_i), summed
    summary = processes.sum(summary, len(X))
    data_term = sample.output.data_term(summary, model.likelihood)  # E log p(y | f)
    return (data_term / len(X) + kl_weight * sample.log_ratio / num_data).mean()


def _check_num_data(model: DeepKernelProcess, num_rows: int, num_data: int) -> None:
    """Raise ``ValueError`` where a batch cannot belong to a data set of that size, or may not."""
    what = f"num_data is the number of rows of the whole data set, of which X has {num_rows}; it"
    whole_number(what, num_data, num_rows, most=2**62)  # what tensors can be divided by
    if model.output.needs_rows and num_rows != num_data:
        raise ValueError(
            f"This model's output layer is collapsed and needs all {num_data} rows at every step, "
            f"but X has {num_rows}. Use build(..., output='inducing') for minibatches."
        )


def importance_weighted_bound(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    *,
    num_importance: int,
    num_replicates: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Importance-weighted lower bound on the log evidence per data point, for small data sets.

    .. math:: \frac1N \mathbb E \log \frac1K \sum_{k=1}^K
              p(y \mid F^{(k)}_t)\, \frac{P}{Q}\Big|_{\text{sample } k}

    Inducing variables are sampled and rows are sampled jointly through the hidden layers. Under
    Gaussian noise the output is integrated out under its prior,
    :math:`p(y \mid F_t) = \mathcal N(y; 0, K_{tt} + \sigma^2 I)`; otherwise it is sampled as well.
    The bound rises with K towards the log evidence.

    Args:
        model: any process.
        X: all inputs ``(N, num_features)``; the cost is cubic in N.
        y: all targets ``(N, D)`` or ``(N,)``.
        num_importance: K.
        num_replicates: independent estimates.
        generator: randomness; PyTorch's default generator if ``None``.

    Returns:
        ``(num_replicates,)`` estimates whose mean is the bound.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 10, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> importance_weighted_bound(model, X, X.sin(), num_importance=8, num_replicates=3).shape
    torch.Size([3])
    """
    X, y = model.check_data(X, y)
    whole_number("num_importance", num_importance)
    whole_number("num_replicates", num_replicates)
    random = model.randomness(num_importance * num_replicates, generator)
    sample = model.sample(random, integrate=False)
    log_weight = sum((layer.log_ratio for layer in sample.layers), start=y.new_zeros(()))
    if isinstance(model.likelihood, Gaussian):
        log_weight = log_weight + _integrated(sample, model.likelihood, X, y, random.rows())
    else:
        log_weight = log_weight + _sampled(sample, X, y, random.rows())
    log_weight = log_weight.expand(num_importance * num_replicates)
    per_replicate = log_weight.reshape(num_replicates, num_importance).logsumexp(-1)
    return (per_replicate - math.log(num_importance)) / X.shape[0]


def _integrated(
    sample: ProcessSample, likelihood: Gaussian, X: Tensor, y: Tensor, random: RowRandomness
) -> Tensor:
    r""":math:`\sum_d \log \mathcal N(y_d; 0, K_{tt} + \sigma_d^2 I)`."""
    rows = sample.last_rows(X, random, joint=True)
    kernel = sample.model.output.priors[0].kernel.square(rows).unsqueeze(-3)
    eye = torch.eye(len(X), dtype=y.dtype, device=y.device)
    marginal = kernel + likelihood.noise[:, None, None] * eye
    lower = linalg.cholesky(marginal, what="the marginal covariance of y")
    whitened = linalg.solve_lower(lower, y.mT.unsqueeze(-1).expand(*lower.shape[:-1], 1))
    constant = len(X) * math.log(2 * math.pi)
    terms = whitened.square().sum((-2, -1)) + linalg.log_det(lower) + constant
    return -0.5 * terms.sum(-1)


def _sampled(sample: ProcessSample, X: Tensor, y: Tensor, random: RowRandomness) -> Tensor:
    r""":math:`\log p(y \mid f)` with :math:`f` drawn jointly, and :math:`\log p(u)/q(u)`."""
    output = sample.output
    if not isinstance(output, InducingOutputSample):
        raise ValueError("Only Gaussian noise goes with a collapsed output layer.")
    rows = sample.last_rows(X, random, joint=True)
    latents = output.function.rows(rows, random.at(len(sample.layers)), joint=True)
    # What a likelihood expects of latents without variance has exposures and class weights in it.
    density = sample.model.likelihood.expected_log_prob(y, latents, torch.zeros_like(latents))
    return output.log_ratio + density.sum(-1)


@dataclass(frozen=True)
class Processes:
    """Processes of a ``torch.distributed`` group that compute one function of sums over rows, each
    with a share of these; a single one by default.

    Each adds up its own rows and gets the sums of all (:meth:`sum`). All then have the same value,
    and the mean over processes of the gradients that they find is its gradient (:meth:`mean_`).

    >>> Processes(rank=1, world=2).rows(5)
    slice(3, 5, None)
    """

    rank: int = 0  # number of this process; the first writes files and shows progress
    world: int = 1  # number of processes
    group: Any = None  # the process group, None for the default one
    device: torch.device | None = None  # of what is exchanged

    @classmethod
    def detect(cls, process_group: Any, device: torch.device) -> Processes:
        """The given process group, else the default one if it has been initialised."""
        if not (dist.is_available() and dist.is_initialized()):
            if process_group is not None:
                raise ValueError(
                    "process_group was given, but torch.distributed is not initialised; "
                    "call torch.distributed.init_process_group() first."
                )
            return cls()
        rank, world = dist.get_rank(process_group), dist.get_world_size(process_group)
        if rank < 0:
            raise ValueError("This process does not belong to process_group; do not call train.")
        return cls(rank, world, process_group, device)

    def rows(self, num_rows: int) -> slice:
        """This process's share of so many rows, give or take one. With fewer rows than processes
        some have none to add: they follow the first, which shows them the shapes of the sums."""
        share, rest = divmod(num_rows, self.world)
        start = self.rank * share + min(self.rank, rest)
        stop = start + share + (self.rank < rest)
        return slice(start, stop) if start < stop else slice(0, 1)

    @contextmanager
    def together(self) -> Iterator[None]:
        """A numerical error that one process meets inside is one for all of them: nobody may wait
        for sums that will not come."""
        own: Exception | None = None
        try:
            yield
        except NUMERICAL_ERRORS as error:
            own = error
        if self.largest(int(own is not None)):
            raise own or linalg.CholeskyError("Another process has failed.")

    def sum(self, parts: tuple[Tensor, ...], num_rows: int) -> tuple[Tensor, ...]:
        """Sums over all processes of what each has added up over its rows, of ``num_rows``."""
        if self.world == 1:
            return parts
        own = parts if self.rank < num_rows else tuple(torch.zeros_like(part) for part in parts)
        return tuple(_Sum.apply(part, self) for part in own)

    def mean_(self, values: Tensor) -> None:
        """Replace ``values`` by their mean over processes."""
        if self.world > 1:
            dist.all_reduce(values, group=self.group)
            values.div_(self.world)

    def largest(self, number: int) -> int:
        """The largest of the processes' numbers."""
        if self.world == 1:
            return number
        value = torch.tensor(number, device=self.device)
        dist.all_reduce(value, op=dist.ReduceOp.MAX, group=self.group)
        return int(value)

    def from_leader(self, content: bytes) -> bytes:
        """The leader's ``content``, on every process."""
        source = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        shared = [content]
        dist.broadcast_object_list(shared, source, group=self.group, device=self.device)
        return shared[0]


class _Sum(torch.autograd.Function):
    """The sum over processes. All find the same slope in it, so that of one process's part is their
    number times as much, once gradients are averaged."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, processes: Processes) -> Tensor:
        ctx.world = processes.world
        total = part.detach().clone()
        dist.all_reduce(total, group=processes.group)
        return total

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return ctx.world * slope, None
