r"""A draw from the approximate posterior of a Wishart layer, scored by posterior and prior."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart import native
from deepwishart.distributions import GeneralisedSingularWishart, Wishart
from deepwishart.distributions.bartlett import factor_noise
from deepwishart.native.fakes import fake
from deepwishart.numerics import linalg
from deepwishart.numerics.batches import contiguous, flatten
from deepwishart.numerics.draw_rows import Conditional
from deepwishart.numerics.first_order import Operation, first_order

__all__ = ["draw_and_score"]


def draw_and_score(
    posterior: GeneralisedSingularWishart,
    prior: Wishart,
    num_samples: int,
    *,
    sticking_the_landing: bool = True,
    generator: torch.Generator | None = None,
    what: str = "matrix",
) -> tuple[Tensor, Conditional]:
    r"""Draw :math:`\Lambda` with :math:`G = \Lambda \Lambda^\top \sim q` and evaluate
    :math:`\log p(G) - \log q(G)` there.

    Both distributions are given by their scale matrices, ``(P, P)`` shared by all samples or
    ``(S, P, P)``. The plain path is
    :meth:`~deepwishart.distributions.GeneralisedSingularWishart.rsample_root_with_log_prob` of the
    one and :meth:`~deepwishart.distributions.Wishart.log_prob_root` of the other; the compiled one
    does the same in one operation. Matrices that do not factorise get jitter on the plain path.

    Args:
        posterior: :math:`q`.
        prior: :math:`p`, of the same degrees of freedom.
        num_samples: S.
        sticking_the_landing: score :math:`q` with the parameters of its Bartlett factor detached.
        generator: source of randomness; PyTorch's default generator if ``None``.
        what: what error messages call the layer.

    Returns:
        The ratio ``(S,)``, and the root with the prior's scale, for rows to be conditioned on.

    >>> from deepwishart.distributions import Wishart
    >>> alpha, beta, zero, one = torch.ones(1), torch.ones(1), torch.zeros(2, 1), torch.ones(2, 1)
    >>> q = GeneralisedSingularWishart(1, alpha, beta, zero, one, covariance_matrix=torch.eye(2))
    >>> ratio, given = draw_and_score(q, Wishart(1, covariance_matrix=torch.eye(2)), num_samples=3)
    >>> given.root.shape, ratio.shape
    (torch.Size([3, 2, 1]), torch.Size([3]))
    """
    options: Any = {"sticking_the_landing": sticking_the_landing, "generator": generator}
    if posterior.has_simple_factor and native.operations(prior.covariance_matrix) is not None:
        before = None if generator is None else generator.get_state()
        draw = _compiled(posterior, prior, num_samples, **options)
        if draw is not None:
            return draw
        if generator is not None and before is not None:
            generator.set_state(before)
    return plain_draw_and_score(posterior, prior, num_samples, what=what, **options)


def plain_draw_and_score(
    posterior: GeneralisedSingularWishart,
    prior: Wishart,
    num_samples: int,
    *,
    sticking_the_landing: bool = True,
    generator: torch.Generator | None = None,
    what: str = "matrix",
) -> tuple[Tensor, Conditional]:
    """The same with the distributions' own code."""
    lower, inverse = linalg.factor(prior.covariance_matrix, what=f"the kernel matrix of {what}")
    mixed = linalg.cholesky(posterior.covariance_matrix, what=f"the posterior scale of {what}")
    root, log_q = posterior.with_scale_tril(mixed).rsample_root_with_log_prob(
        () if mixed.ndim > 2 else (num_samples,),
        sticking_the_landing=sticking_the_landing,
        generator=generator,
    )
    given = Conditional.of(prior.covariance_matrix, inverse, root)
    log_p = prior.with_scale_tril(lower).log_prob_root(root, whitened=given.weights)
    return log_p - log_q, given


def _compiled(
    posterior: GeneralisedSingularWishart,
    prior: Wishart,
    num_samples: int,
    sticking_the_landing: bool,
    generator: torch.Generator | None,
) -> tuple[Tensor, Conditional] | None:
    scale = prior.covariance_matrix
    mixed = posterior.mixed_scale
    if mixed is not None and mixed.matrices is not scale:  # of something else than the prior's
        mixed = None
    gamma, epsilon = factor_noise(
        torch.Size([num_samples]), posterior.dimension, posterior.concentration, generator
    )
    root, log_ratio, inverse, weights, form, solved, _, _, _, failed = ScoredDraw.apply(
        flatten(scale),
        flatten(posterior.covariance_matrix) if mixed is None else mixed.root.contiguous(),
        None if mixed is None else mixed.weight,
        gamma.contiguous(),
        posterior.concentration.contiguous(),
        posterior.rate.contiguous(),
        posterior.loc.contiguous(),
        posterior.scale.contiguous(),
        epsilon.contiguous(),
        contiguous(posterior.row_mixing),
        contiguous(posterior.column_mixing),
        float(prior._df),
        sticking_the_landing,
    )
    if failed.any():
        return None
    log_ratio = log_ratio - prior.log_normaliser()
    constants = (None, None) if scale.ndim == 2 else (form, solved)
    return log_ratio, Conditional(scale, inverse.reshape(scale.shape), root, weights, *constants)


class ScoredDraw(Operation):
    r"""From noise and two scale matrices :math:`\Sigma = L L^\top` (prior) and
    :math:`\Sigma_q = R R^\top` (posterior) to a root and its score. The latter is given, or mixed
    on the way, :math:`\Sigma_q = (1 - q)\, \Sigma + q\, V V^\top`.

    A Bartlett factor :math:`T_{i>j} = \mu_{ij} + \sigma_{ij} \epsilon_{ij}`,
    :math:`T_{jj} = \sqrt{g_j / \beta_j}`, gives :math:`A = R_\text{mix} T C_\text{mix}` (:math:`T`
    itself without mixing) and :math:`F = R A`, :math:`w = L^{-1} F`. In the two densities of
    :math:`G = F F^\top` (paper, Definition 1 and Appendix D) the powers of :math:`R_{jj}` add up to
    :math:`|R|^\nu` for every rank, and those of :math:`T_{jj}` join the gamma density's, so that
    with :math:`p_j = 2(\alpha_j - 1) - (P - j) - (\nu - P - 1)`

    .. math:: \log\frac pq = \nu \log\frac{|R|}{|L|} - \tfrac12 |w|^2
              - \sum_j \big[p_j \log T_{jj} - g_j + \alpha_j \log\beta_j - \log\Gamma(\alpha_j)\big]
              + \sum_{i>j} \big[\tfrac12 \epsilon_{ij}^2 + \log\sigma_{ij}
              + \tfrac12 \log 2\pi\big] - \text{const}.

    **Gradients** for incoming :math:`\bar F` and :math:`d = \overline{\log p/q}`. With
    :math:`C = \Sigma^{-1}`, :math:`-\tfrac12|w|^2 - \nu\log|L|` has the slope :math:`-C F` in
    :math:`F` and :math:`\tfrac12 C F F^\top C - \tfrac\nu2 C` in :math:`\Sigma`. Along the root,
    :math:`\bar F' = \bar F + L^{-\top} \bar w - d\, C F` and :math:`\bar A = R^\top \bar F'`. With
    :math:`\Phi` as in :class:`~deepwishart.numerics.cholesky.CholeskyInverse`, :math:`R` receives
    :math:`\bar F' A^\top` and :math:`\nu d` over its diagonal, and :math:`L` what reaches
    :math:`H = L^{-1}` directly or through :math:`w`:

    .. math:: M_R = R^\top \bar R = \bar A A^\top + \nu d\, I, \qquad
              M_L = -\bar H H^\top - \bar w w^\top,

    whitened outer products in place of :math:`P^3` products; :math:`M_L` is zero in training, where
    rows bypass :math:`H` and :math:`w` (:class:`~deepwishart.numerics.draw_rows.GaussianDraw`).
    Both end as :math:`\bar\Sigma = L^{-\top} \tfrac12(\Phi(M) + \Phi(M)^\top) L^{-1}`. Where
    scales are mixed, :math:`(1 - q)\, \bar\Sigma_q` goes on to :math:`\Sigma`,
    :math:`2 q \sum_s \bar\Sigma_q V` to :math:`V` and
    :math:`\sum_s \langle \bar\Sigma_q, V V^\top - \Sigma \rangle` to :math:`q`. A mixed factor
    passes :math:`\bar T = R_\text{mix}^\top \bar A C_\text{mix}^\top` on, and for the factor

    .. math:: \bar\mu = \bar T + d\, \epsilon/\sigma, \quad
              \bar\sigma = \bar T \epsilon + d\, \epsilon^2/\sigma, \quad
              h_j = \tfrac12 \bar T_{jj} T_{jj} - d\,(\tfrac12 p_j - g_j), \quad
              \bar g_j = h_j / g_j, \quad \bar\beta_j = -h_j / \beta_j

    is all there is when sticking the landing. Otherwise the density's own dependence on its
    parameters is added: :math:`-d\,\epsilon/\sigma` to :math:`\bar\mu`,
    :math:`d\,(1 - \epsilon^2)/\sigma` to :math:`\bar\sigma`, :math:`d\,(g_j - \alpha_j)/\beta_j` to
    :math:`\bar\beta_j` and :math:`d\,(\psi(\alpha_j) - \log g_j)` to :math:`\bar\alpha_j`. The
    gamma variable :math:`g_j` carries its implicit gradient in :math:`\alpha_j` by itself.

    Mixing matrices have ones on their diagonals, so that their volumes vanish. Stuck to the
    landing, the density is that of :math:`T = R_\text{mix}^{-1} A C_\text{mix}^{-1}`, both held
    fixed (``GeneralisedSingularWishart.rsample_root_with_log_prob``): its
    slope :math:`t` in :math:`T` reaches :math:`A` as
    :math:`R_\text{mix}^{-\top} t\, C_\text{mix}^{-\top}`, and the mixing matrices through
    :math:`A`.

    Scales without sample dimension are factorised once, with all samples as columns. The constant
    is left to the prior.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return torch.ops.deepwishart.wishart_draw_forward(*inputs[:-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        prior, posterior, weight, gamma, concentration, rate, _, deviation, *others = inputs
        epsilon, rows, columns, *rest = others
        _, _, inverse, weights, form, solved, bartlett, factor, mixed, failed = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(form, solved, bartlett, factor, mixed, failed)
        ctx.degrees, ctx.sticking = rest
        scales = (None, None, None) if weight is None else (prior, posterior, weight)
        parameters = (*scales, gamma, concentration, rate, deviation, epsilon, rows, columns)
        kept = (inverse, weights, form, solved, bartlett, factor if factor.numel() else None, mixed)
        ctx.save_for_backward(*parameters, *kept)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        root, ratio, inverse, weights = map(contiguous, gradients[:4])
        saved = ctx.saved_tensors
        parameters, kept, own_weights = saved[:10], saved[10:], saved[11]
        weight, (epsilon, rows, columns) = parameters[2], parameters[7:]
        to_inputs = torch.ops.deepwishart.wishart_draw_backward(
            *parameters,
            ctx.degrees,
            ctx.sticking,
            *kept,
            torch.zeros_like(own_weights) if root is None else root,
            epsilon.new_zeros(epsilon.shape[0]) if ratio is None else ratio,
            inverse,
            weights,
        )
        prior, posterior, grad_weight, *factor, grad_rows, grad_columns = to_inputs
        scales = (prior, posterior, None if weight is None else grad_weight)
        mixing = (None if rows is None else grad_rows, None if columns is None else grad_columns)
        return *scales, *factor, None, *mixing, None, None


@fake("wishart_draw_forward")
def _(prior: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    samples, size, rank = rest[7].shape  # of the noise
    batch = prior.shape[0]
    columns = samples * rank if batch == 1 else rank
    narrow, own = (samples, size, rank), (batch, size, columns)
    same = batch > 1 and rest[8] is None and rest[9] is None  # A is T
    kept = (prior.shape, own, narrow, (0,) if same else own, prior.shape)
    shapes = (narrow, (samples,), prior.shape, narrow, *kept)
    failed = prior.new_empty(batch, dtype=torch.int32)
    return *(prior.new_empty(shape) for shape in shapes), failed


@fake("wishart_draw_backward")
def _(*saved: Any) -> tuple[Tensor, ...]:
    _, learned, weight, gamma, concentration, rate, deviation, _, *mixing = saved[:10]
    scale, none = saved[12], rate.new_empty(0)
    posterior, weight = (scale, none) if weight is None else (learned, weight)
    found = (scale, posterior, weight, gamma, concentration, rate, deviation, deviation)
    mixing = [rate.new_empty(0) if m is None else m for m in mixing]
    return tuple(torch.empty_like(t) for t in (*found, *mixing))
