r"""Densities of Gram matrices through their roots, and a draw from the approximate posterior of a
Wishart layer, scored by posterior and prior.

A Gram matrix is :math:`G = F F^\top` with a lower-trapezoidal root :math:`F = L A`, where
:math:`\Sigma = L L^\top` is a scale and :math:`A` the (generalised, possibly singular) Bartlett
factor

.. math:: A \in \mathbb{R}^{P \times m}, \quad A_{jj}^2 \sim \text{Gamma}(\alpha_j, \beta_j), \quad
          A_{i>j} \sim \mathcal{N}(\mu_{ij}, \sigma_{ij}^2), \quad A_{i<j} = 0

with :math:`m = \min(P, \nu)` (Ober & Aitchison 2021, Sec. 3.1). The Wishart is the special case
:math:`\alpha_j = (\nu - j + 1)/2, \beta_j = 1/2, \mu = 0, \sigma = 1`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart.numerics import linalg
from deepwishart.numerics.mixing import log_mixing_volume, log_scale_volume, mix, unmix
from deepwishart.numerics.operation import compiled, contiguous, operation
from deepwishart.numerics.rows import Conditional, known_form

__all__ = [
    "bartlett_factor",
    "draw_wishart",
    "log_density_of_factor",
    "log_density_of_root",
    "log_multivariate_gamma",
    "scored_root",
]


def bartlett_factor(
    gamma: Tensor,
    rate: float | Tensor,
    loc: float | Tensor,
    deviation: float | Tensor,
    epsilon: Tensor,
) -> Tensor:
    r""":math:`A_{jj} = \sqrt{\gamma_j/\beta_j}`, :math:`A_{i>j} = \mu_{ij} + \sigma_{ij}
    \epsilon_{ij}`.

    Squares that underflow are raised to the smallest normal number of the dtype, so that
    :math:`\log A_{jj}` is finite.

    Args:
        gamma: standard gamma draws, ``(..., m)``, with their gradient in :math:`\alpha`.
        rate: :math:`\beta`, ``(..., m)``.
        loc: :math:`\mu`, ``(..., P, m)``.
        deviation: :math:`\sigma`, likewise.
        epsilon: standard normal, likewise.

    >>> bartlett_factor(torch.ones(1), 0.25, 3.0, 1.0, torch.ones(2, 1))
    tensor([[2.],
            [4.]])
    """
    squares = gamma / rate
    # On the detached tensor: the clamp changes the value and leaves the gradient alone.
    squares.detach().clamp_(min=torch.finfo(squares.dtype).tiny)
    lower = (loc + deviation * epsilon).tril(-1)
    return torch.diagonal_scatter(lower, squares.sqrt(), dim1=-2, dim2=-1)


def log_density_of_factor(
    factor: Tensor, concentration: Tensor, rate: Tensor, loc: Tensor, deviation: Tensor
) -> Tensor:
    r"""Log density of :math:`A A^\top` on its free elements (Definition 1 with :math:`L = I`).

    .. math:: \sum_{j \le m} \Big[\log \text{Gamma}(A_{jj}^2; \alpha_j, \beta_j)
              - (P - j) \log A_{jj}\Big]
              + \sum_{j \le m,\, i > j} \log \mathcal{N}(A_{ij}; \mu_{ij}, \sigma_{ij}^2)

    Args:
        factor: :math:`A`, ``(..., P, m)``.
        concentration: :math:`\alpha`, ``(..., m)``.
        rate: :math:`\beta`, likewise.
        loc: :math:`\mu`, ``(..., P, m)``.
        deviation: :math:`\sigma`, likewise; what is not below the diagonal is not read.

    >>> one = torch.ones(1)
    >>> log_density_of_factor(one[None], one, one, one[None], one[None])  # an exponential, at 1
    tensor(-1.)
    """
    num_rows, rank = factor.shape[-2:]
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    # (A_jj^2)^(alpha_j - 1) / A_jj^(P - j) is one power of A_jj.
    beyond = torch.arange(num_rows - 1, num_rows - 1 - rank, -1, device=factor.device)
    power = 2.0 * (concentration - 1.0) - beyond
    gamma = torch.addcmul(power * diagonal.log(), rate, diagonal.square(), value=-1)
    gamma = gamma + (concentration * rate.log() - concentration.lgamma())
    whitened = ((factor - loc) / deviation).tril(-1)
    volume = deviation.log().tril(-1).sum((-2, -1))
    num_normal = num_rows * rank - rank * (rank + 1) // 2
    normal = -0.5 * whitened.square().sum((-2, -1)) - volume
    return gamma.sum(-1) + normal - 0.5 * num_normal * math.log(2.0 * math.pi)


def log_density_of_root(
    root: Tensor, whitened: Tensor, log_det: Tensor, degrees: float | Tensor
) -> Tensor:
    r"""The Wishart's log density of :math:`G = F F^\top`, singular or not.

    .. math:: (\nu - P - 1) \sum_j \log F_{jj} - \tfrac12 |L^{-1} F|^2
              - \tfrac\nu2 \log|\Sigma| - \text{const}

    (Appendix D with a general scale), since :math:`\operatorname{tr}(\Sigma^{-1} G) = |L^{-1} F|^2`
    and :math:`\log|G_{:m,:m}| = 2 \sum_j \log F_{jj}`.

    Args:
        root: :math:`F`, ``(..., P, m)``.
        whitened: :math:`L^{-1} F`, likewise.
        log_det: :math:`\log|\Sigma|`, ``(...)``.
        degrees: :math:`\nu`.

    >>> one = torch.ones(1, 1)
    >>> log_density_of_root(one, one, torch.tensor(0.0), 2)  # an exponential of rate 1/2, at 1
    tensor(-1.1931)
    """
    num_rows, rank = root.shape[-2:]
    log_diagonal = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    power = (degrees - num_rows - 1) * log_diagonal
    quadratic = whitened.square().sum((-2, -1)) + degrees * log_det
    constant = 0.5 * num_rows * math.log(2.0) + 0.5 * (num_rows - rank) * math.log(math.pi)
    normaliser = degrees * constant + log_multivariate_gamma(degrees, rank)
    return power - 0.5 * quadratic - normaliser


def log_multivariate_gamma(df: float | Tensor, rank: int) -> float | Tensor:
    r""":math:`\log \Gamma_m(\nu / 2) = \tfrac{m (m-1)}4 \log\pi
    + \sum_{j \le m} \log\Gamma(\tfrac{\nu - j + 1}2)`.
    """
    if isinstance(df, Tensor):
        return torch.special.multigammaln(0.5 * df, rank)
    gammas = sum(math.lgamma(0.5 * (df - j)) for j in range(rank))
    return 0.25 * rank * (rank - 1) * math.log(math.pi) + gammas


def scored_root(
    lower: Tensor,
    gamma: Tensor,
    concentration: Tensor,
    rate: Tensor,
    loc: Tensor,
    deviation: Tensor,
    epsilon: Tensor,
    sticking: bool,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The root :math:`F = L R T C` of the paper's family, with mixed rows and columns if wanted,
    and :math:`\log q(F F^\top)` there (Definition 1). :math:`T` is at hand: no factorisation.

    *Sticking the landing* scores with :math:`\alpha, \beta, \mu, \sigma, R, C` detached, so that
    their gradients flow along the sample only; what this leaves out has expectation zero. For
    :math:`R` and :math:`C`, the density is that of :math:`T = \bar R^{-1} A \bar C^{-1}`,
    :math:`A = R T C`, with bars for what is detached: it is :math:`G` that is held fixed, and not
    :math:`T` (:doc:`/theory`). :math:`L` is never detached: lower layers reach the density through
    it.

    >>> one = torch.ones(1, 1)
    >>> scored_root(2.0 * one, one[0], one[0], one[0], one, one, one, sticking=False)
    (tensor([[2.]]), tensor(-2.3863))
    """
    factor = bartlett_factor(gamma, rate, loc, deviation, epsilon)
    mixed = mix(factor, rows, columns)
    num_rows, rank = factor.shape[-2:]
    parameters = [concentration, rate, loc, deviation]
    if sticking:
        parameters = [parameter.detach() for parameter in parameters]
        rows, columns = (None if m is None else m.detach() for m in (rows, columns))
        if mixed is not factor:
            # The value of T is known without the error of the solves; only their gradient
            # is wanted.
            again = unmix(mixed, rows, columns)
            factor = factor.detach() + (again - again.detach())
    log_q = log_density_of_factor(factor, *parameters) - log_scale_volume(lower, rank)
    return lower @ mixed, log_q - log_mixing_volume(rows, columns, num_rows, rank)


def draw_wishart(
    scale: Tensor,
    posterior_scale: Tensor | None,
    gamma: Tensor,
    concentration: Tensor,
    rate: Tensor,
    loc: Tensor,
    deviation: Tensor,
    epsilon: Tensor,
    degrees: float,
    *,
    sticking: bool = True,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    what: str = "matrix",
) -> tuple[Tensor, Conditional]:
    r"""The root :math:`F` of a draw :math:`G = F F^\top \sim q` and
    :math:`\log p(G) - \log q(G)` there, with :math:`p` the Wishart of scale :math:`\Sigma`.

    A scale that does not factorise gets jitter, and the same noise.

    Args:
        scale: :math:`\Sigma`, of the prior, ``(P, P)`` shared by all samples or ``(S, P, P)``.
        posterior_scale: of :math:`q`, likewise; that of the prior if ``None``.
        gamma: standard gamma draws, ``(S, m)``, with their gradient in :math:`\alpha`.
        concentration: :math:`\alpha`, ``(m,)``.
        rate: :math:`\beta`, ``(m,)``.
        loc: :math:`\mu`, ``(P, m)``.
        deviation: :math:`\sigma`, ``(P, m)``.
        epsilon: standard normal, ``(S, P, m)``.
        degrees: :math:`\nu`.
        sticking: score as :func:`scored_root` does.
        rows: :math:`R`, ``(P, P)``, or ``None``.
        columns: :math:`C`, ``(m, m)``, or ``None``.
        what: how error messages call the layer.

    Returns:
        The ratio ``(S,)``, and the root with the prior's scale, for rows to be conditioned on.

    >>> one, eye = torch.ones(3, 2, 1), torch.eye(2)
    >>> parameters = one[:, 0], one[0, 0], one[0, 0], one[0], one[0]
    >>> log_ratio, given = draw_wishart(eye, None, *parameters, one, degrees=1)
    >>> log_ratio.shape, given.root.shape
    (torch.Size([3]), torch.Size([3, 2, 1]))
    """
    if posterior_scale is not None:
        (posterior_scale,) = linalg.with_jitter(
            lambda matrix: (matrix, linalg.cholesky_inverse(matrix.detach())[2]),
            posterior_scale,
            what=f"the posterior scale of {what}",
        )
    rest = (gamma, concentration, rate, loc, deviation, epsilon, degrees, sticking, rows, columns)
    root, log_ratio, *found = linalg.with_jitter(
        lambda matrix: wishart_draw(matrix, posterior_scale, *rest),
        scale,
        what=f"the kernel matrix of {what}",
    )
    inverse, weights, form, solved = found
    return log_ratio, Conditional(scale, inverse, root, weights, form, solved)


def plain_wishart_draw(
    scale: Tensor,
    posterior_scale: Tensor | None,
    gamma: Tensor,
    concentration: Tensor,
    rate: Tensor,
    loc: Tensor,
    deviation: Tensor,
    epsilon: Tensor,
    degrees: float,
    sticking: bool,
    rows: Tensor | None,
    columns: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The root, the ratio, what else :class:`~deepwishart.numerics.rows.Conditional` holds, and 0
    or the pivot of the prior's scale that failed."""
    lower, inverse, failed = linalg.cholesky_inverse(scale)
    own = lower if posterior_scale is None else linalg.cholesky_inverse(posterior_scale)[0]
    parameters = (gamma, concentration, rate, loc, deviation, epsilon)
    root, log_q = scored_root(own, *parameters, sticking, rows, columns)
    weights = inverse @ root
    log_p = log_density_of_root(root, weights, linalg.log_det(lower), degrees)
    return root, log_p - log_q, inverse, weights, *known_form(inverse, weights), failed


wishart_draw = operation(plain_wishart_draw)


@compiled(plain_wishart_draw)
def _(scale: Tensor, posterior_scale: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    *tensors, degrees, sticking, rows, columns = rest
    if not (posterior_scale is rows is columns is None):
        return _in_double(scale, posterior_scale, *rest)
    *found, failed = WishartDraw.apply(
        linalg.flatten(scale), *(t.contiguous() for t in tensors), degrees, sticking
    )
    root, log_ratio, inverse, weights, form, solved = found
    inverse, form = inverse.reshape(scale.shape), form.reshape(scale.shape)
    return root, log_ratio, inverse, weights, form, solved, failed.reshape(scale.shape[:-2])


def _in_double(*arguments: Any) -> tuple[Tensor, ...]:
    """The definition with two scales or mixing, in double precision. In single precision the
    factors' rounding is as large as the jitter, and the ratio depends on every small pivot."""
    dtype = arguments[0].dtype
    exact: Any = [t.double() if isinstance(t, Tensor) else t for t in arguments]
    *found, failed = plain_wishart_draw(*exact)
    found = [t.to(dtype) for t in found]
    return *found[:4], *known_form(found[2], found[3]), failed


class WishartDraw(torch.autograd.Function):
    r"""Where both scales are :math:`\Sigma = L L^\top`, the root is :math:`F = L A` and whitened
    :math:`w = L^{-1} F = A`. In the two densities of :math:`G = F F^\top` (paper, Definition 1 and
    Appendix D) all powers of :math:`L_{jj}` cancel, and those of :math:`A_{jj}` join, so that with
    :math:`g_j = \beta_j A_{jj}^2` and :math:`p_j = 2 \alpha_j - \nu + j - 1`

    .. math:: \log\frac pq = - \tfrac12 |A|^2
              - \sum_j \big[p_j \log A_{jj} - g_j + \alpha_j \log\beta_j - \log\Gamma(\alpha_j)\big]
              + \sum_{i>j} \big[\tfrac12 \epsilon_{ij}^2 + \log\sigma_{ij}
              + \tfrac12 \log 2\pi\big] - \text{const}.

    **Gradients** for incoming :math:`\bar F`, :math:`\bar w` and :math:`d = \overline{\log p/q}`:
    :math:`\bar A = L^\top \bar F + \bar w - d A`, and :math:`L` receives :math:`\bar F A^\top` and
    what reaches :math:`H = L^{-1}`. With :math:`\Phi` as in
    :class:`~deepwishart.numerics.linalg.CholeskyInverse`,

    .. math:: M = (L^\top \bar F) A^\top - \bar H H^\top, \qquad
              \bar\Sigma = L^{-\top} \tfrac12(\Phi(M) + \Phi(M)^\top) L^{-1},

    a whitened outer product in place of a :math:`P^3` product; :math:`\bar H` and :math:`\bar w`
    are missing in training, where rows bypass them
    (:class:`~deepwishart.numerics.rows.GaussianRows`). For the factor

    .. math:: \bar\mu = \bar A + d\, \epsilon/\sigma, \quad
              \bar\sigma = \bar A \epsilon + d\, \epsilon^2/\sigma, \quad
              h_j = \tfrac12 \bar A_{jj} A_{jj} - d\,(\tfrac12 p_j - g_j), \quad
              \bar g_j = h_j / g_j, \quad \bar\beta_j = -h_j / \beta_j

    is all there is when sticking the landing. Otherwise the density's own dependence on its
    parameters is added: :math:`-d\,\epsilon/\sigma` to :math:`\bar\mu`,
    :math:`d\,(1 - \epsilon^2)/\sigma` to :math:`\bar\sigma`, :math:`d\,(g_j - \alpha_j)/\beta_j` to
    :math:`\bar\beta_j` and :math:`d\,(\psi(\alpha_j) - \log g_j)` to :math:`\bar\alpha_j`. The
    gamma variable :math:`g_j` carries its implicit gradient in :math:`\alpha_j` by itself.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        _, gamma, concentration, rate, _, deviation, epsilon, *ctx.options = inputs
        *found, lower, failed = torch.ops.deepwishart.wishart_draw_forward(*inputs[:-1])
        _, _, inverse, weights, form, solved = found
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(form, solved, failed)
        parameters = (gamma, concentration, rate, deviation, epsilon)
        ctx.save_for_backward(*parameters, inverse, lower, weights)
        return *found, failed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        parameters, kept = saved[:5], saved[5:]
        found = torch.ops.deepwishart.wishart_draw_backward(
            *parameters, *ctx.options, *kept, *root_gradients(gradients, kept[-1])
        )
        return *found, None, None, None


def root_gradients(gradients: Sequence[Tensor | None], weights: Tensor) -> list[Tensor | None]:
    """Incoming gradients of the root, the ratio, the inverse factor and the weights, of which the
    last two may be missing."""
    root, ratio, inverse, white = map(contiguous, gradients[:4])
    root = torch.zeros_like(weights) if root is None else root
    ratio = weights.new_zeros(len(weights)) if ratio is None else ratio
    return [root, ratio, inverse, white]
