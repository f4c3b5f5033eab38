r"""Layers of the deep Wishart process: what they share, the one with the paper's approximate
posterior, and the one whose posterior stays where its features were observed."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from deepwishart._support.arguments import check_choice
from deepwishart._support.parameters import Declaration, Declarations
from deepwishart.distributions import Wishart
from deepwishart.kernels import Kernel
from deepwishart.layers.base import Inducing, Layer
from deepwishart.layers.gaussian import ConditionalSample, PseudoObservations
from deepwishart.numerics import linalg
from deepwishart.numerics.anchored import draw_anchored
from deepwishart.numerics.wishart import draw_wishart
from deepwishart.random import Randomness, factor_noise

LEAST_NOISE = 0.03  # of a start, relative to the prior's variance
POSTERIORS = ("bartlett", "rows", "columns", "rows_columns")


class BartlettLayer(Layer):
    r""":math:`P(G_\ell \mid G_{\ell-1}) = \mathcal W(\tfrac1\nu K(G_{\ell-1}), \nu)`, with a
    posterior in which :math:`G_{ii} = L A (L A)^\top` and :math:`A_{jj}^2` is
    :math:`\text{Gamma}(\alpha_j, \beta_j)`, at first the prior's.

    Args:
        kernel: kernel applied to the previous layer.
        width: degrees of freedom :math:`\nu`.
        num_inducing: number of inducing points P.
        sticking_the_landing: score the posterior with its parameters detached (Roeder et al. 2017),
            which leaves the gradient unbiased and takes away the noise that the score's own
            dependence on them would add.
        dtype: of the parameters.
        **options: ``name`` and ``jitter`` of :class:`~deepwishart.layers.Layer`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> WishartLayer(SquaredExponential(), 3, num_inducing=5).prior(torch.eye(4)).rank
    3
    """

    def __init__(
        self,
        kernel: Kernel,
        width: int,
        num_inducing: int,
        *,
        sticking_the_landing: bool = True,
        dtype: torch.dtype = torch.float64,
        **options: Any,
    ) -> None:
        super().__init__(kernel, width, **options)
        self.sticking_the_landing = sticking_the_landing
        self.rank = min(width, num_inducing)
        alpha = 0.5 * (width - torch.arange(self.rank, dtype=dtype))
        self.log_concentration = nn.Parameter(alpha.log())
        self.log_rate = nn.Parameter(torch.full_like(alpha, math.log(0.5)))

    def prior(self, kernel_matrix: Tensor) -> Wishart:
        what = f"the prior of {self.name}"
        lower = linalg.cholesky(kernel_matrix * self.variance, jitter=self.jitter, what=what)
        return Wishart(self.width, scale_tril=lower)

    def observed_factor(
        self, inducing: Inducing, features: Tensor, noise: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""The scale's :math:`L`, the features :math:`F U`, rotated so that they are lower
        trapezoidal, and the factor that observing them with noise of variance
        :math:`\tau^2 = \lambda/\nu` leads to expect,

        .. math:: A = (L^\top L + \tau^2 I)^{-1} L^\top F U,

        with the squared diagonal at least :math:`\lambda/(1 + \lambda)` times its mean under the
        prior. The posterior's squares get that diagonal's as their mean.
        """
        covariance = self.covariance(inducing)
        lower = linalg.cholesky(covariance, what=f"the kernel matrix of {self.name}")
        rotated = features @ torch.linalg.qr(features[: self.rank].mT).Q
        rotated = (rotated * torch.where(rotated.diagonal() < 0, -1.0, 1.0).to(rotated)).tril()
        eye = torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
        inner = lower.mT @ lower + noise * self.variance * eye
        inner = linalg.cholesky(inner, what=f"the start of {self.name}")
        factor = torch.cholesky_solve(lower.mT @ rotated, inner).tril()
        least = (2.0 * self.log_concentration.exp() * noise / (1.0 + noise)).sqrt()
        factor.diagonal().copy_(torch.maximum(factor.diagonal(), least))
        self.log_rate.copy_(self.log_concentration - 2.0 * factor.diagonal().log())
        return lower, rotated, factor

    def padded(self, root: Tensor) -> Tensor:
        """A root with zero columns, where the layer is wider than there are inducing points."""
        return nn.functional.pad(root, (0, self.width - self.rank))


class WishartLayer(BartlettLayer):
    r""":math:`P(G_\ell \mid G_{\ell-1}) = \mathcal W(\tfrac1\nu K(G_{\ell-1}), \nu)`, posterior

    .. math:: Q(G_\ell \mid G_{\ell-1}) = \mathcal W\big((1-q)\tfrac1\nu K(G_{\ell-1}) + q V V^\top,
              \nu, \alpha, \beta, \mu, \sigma\big)

    (paper, Eq. def:ap). The sample is the root :math:`F_i = L A` with
    :math:`G_{ii} = F_i F_i^\top`, padded with zero columns when :math:`\nu > P`; rows follow the
    matrix normal of Eq. (Ft|Fi), which depends on :math:`F_i` only through :math:`G_{ii}`.

    The rows and columns of the Bartlett factor may be mixed, :math:`A = R T C` with learned
    unit lower-triangular :math:`R` and :math:`C` (Ober et al. 2023), which start at the identity.

    Args:
        kernel, width, num_inducing, dtype: as in :class:`BartlettLayer`.
        posterior: ``"bartlett"`` is the paper's; ``"rows"``, ``"columns"`` and ``"rows_columns"``
            mix what they say.
        initial_mixing: initial :math:`q`. The paper's experiments start at 0.018; with 0 there is
            no learned scale, and training is faster (docs, "Choosing").
        **options: ``sticking_the_landing``, ``name`` and ``jitter``, likewise.

    >>> from deepwishart.kernels import SquaredExponential
    >>> generator = torch.Generator().manual_seed(0)
    >>> layer = WishartLayer(SquaredExponential(), 3, num_inducing=5)
    >>> points = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    >>> sample = layer.sample(points, Randomness(10, generator))
    >>> sample.inducing.shape, sample.log_ratio.shape
    (torch.Size([10, 5, 3]), torch.Size([10]))
    """

    declares: ClassVar[Declarations] = dict.fromkeys(
        ("learned_root", "mixing_logit"), Declaration("scale")
    )
    mixing_logit: nn.Parameter | None
    learned_root: nn.Parameter | None
    rows_mixing: nn.Parameter | None
    columns_mixing: nn.Parameter | None

    def __init__(
        self,
        kernel: Kernel,
        width: int,
        num_inducing: int,
        *,
        posterior: str = "bartlett",
        initial_mixing: float = 0.0,
        dtype: torch.dtype = torch.float64,
        **options: Any,
    ) -> None:
        super().__init__(kernel, width, num_inducing, dtype=dtype, **options)
        rank = self.rank
        self.mean = nn.Parameter(torch.zeros(num_inducing, rank, dtype=dtype))
        self.log_deviation = nn.Parameter(torch.full((num_inducing, rank), -3.0, dtype=dtype))
        self.mixing_logit = self.learned_root = None
        if initial_mixing:
            logit = math.log(initial_mixing / (1.0 - initial_mixing))
            self.mixing_logit = nn.Parameter(torch.tensor(logit, dtype=dtype))
            self.learned_root = nn.Parameter(torch.eye(num_inducing, dtype=dtype))
        check_choice("posterior", posterior, POSTERIORS)
        for name, size in (("rows", num_inducing), ("columns", rank)):
            mixed = name in posterior
            zero = nn.Parameter(torch.zeros(size, size, dtype=dtype)) if mixed else None
            self.register_parameter(f"{name}_mixing", zero)

    def posterior_scale(self, covariance: Tensor) -> Tensor | None:
        r""":math:`(1 - q) \Sigma_{ii} + q V V^\top`; ``None`` where nothing is learned, and it is
        :math:`\Sigma_{ii}`."""
        if self.learned_root is None or self.mixing_logit is None:
            return None
        learned = self.learned_root @ self.learned_root.mT
        return torch.lerp(covariance, learned, self.mixing_logit.sigmoid())

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> ConditionalSample:
        covariance = self.covariance(inducing)
        alpha = self.log_concentration.exp()
        gamma, epsilon = factor_noise(
            torch.Size([random.num_samples]), covariance.shape[-1], alpha, random.generator
        )
        log_ratio, given = draw_wishart(
            covariance,
            self.posterior_scale(covariance),
            gamma,
            alpha,
            self.log_rate.exp(),
            self.mean,
            self.log_deviation.exp(),
            epsilon,
            self.width,
            sticking=self.sticking_the_landing,
            rows=_unit_lower(self.rows_mixing),
            columns=_unit_lower(self.columns_mixing),
            what=self.name,
        )
        return ConditionalSample(self, inducing, log_ratio, given.widened(self.width))

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor, noise: float = 0.03) -> Tensor:
        r"""Start as if ``features`` :math:`F` had been observed with noise of variance
        :math:`\tau^2 = \lambda/\nu`, :math:`\lambda \ge 0.03`, coordinate by coordinate:

        .. math:: A = (L^\top L + \tau^2 I)^{-1} L^\top F U, \qquad
                  \sigma_{ij}^2 = \big(1 + |L_{:i}|^2/\tau^2\big)^{-1}, \qquad V V^\top = \Sigma,

        with :math:`U` the rotation that makes :math:`F U` lower trapezoidal. Entries of redundant
        inducing points, of which :math:`F` says nothing, start at the prior and cost nothing. The
        squared diagonal of :math:`A` is at least its prior mean times
        :math:`\lambda/(1 + \lambda)`.
        """
        noise = max(LEAST_NOISE, noise)
        lower, _, centre = self.observed_factor(inducing, features, noise)
        self.mean.copy_(centre)
        signal = lower.square().sum(0) / (noise * self.variance)
        self.log_deviation.copy_(-0.5 * signal.log1p().unsqueeze(-1))
        if self.learned_root is not None:
            self.learned_root.copy_(lower)
        return self.padded(lower @ centre)


class AnchoredLayer(BartlettLayer):
    r""":math:`P(G_\ell \mid G_{\ell-1}) = \mathcal W(\tfrac1\nu K(G_{\ell-1}), \nu)`, the prior of
    :class:`~deepwishart.layers.WishartLayer`, with the posterior
    :class:`~deepwishart.distributions.AnchoredWishart`:

    .. math:: G_{ii} = F_i F_i^\top, \quad F_i = L A, \quad A_{jj}^2 \sim \text{Gamma}(\alpha_j,
              \beta_j), \quad A_{i > j} \mid A_{jj} \sim
              P\big(\,\cdot \mid M^\top v_j = M^\top F_{:j} + \text{noise}\big).

    The pseudo-observations :math:`M^\top v` hold the features themselves, in the gauge in which
    they are lower trapezoidal, whatever the layers below do. Both scales are
    :math:`\Sigma = K/\nu`, so all Jacobians cancel, and with the noise :math:`\epsilon` of the draw
    (:mod:`deepwishart.numerics.anchored`)

    .. math:: \log\frac PQ = \sum_j \log \frac{\text{Gamma}(A_{jj}^2; \frac{\nu-j+1}2, \frac12)}
              {\text{Gamma}(A_{jj}^2; \alpha_j, \beta_j)} + \sum_{i > j} \Big(
              \tfrac12 \big(\epsilon_{ij}^2 - A_{ij}^2\big) - \log U_{ii}\Big).

    The second sum has no score term: sticking the landing (Roeder et al. 2017) concerns
    :math:`\alpha, \beta` alone.

    Args:
        kernel, width, num_inducing, dtype: as in :class:`BartlettLayer`.
        **options: ``sticking_the_landing``, ``name`` and ``jitter``, likewise.

    >>> from deepwishart.kernels import SquaredExponential
    >>> layer = AnchoredLayer(SquaredExponential(dtype=torch.float64), 3, num_inducing=5)
    >>> points = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> sample = layer.sample(points, Randomness(10))
    >>> sample.inducing.shape, sample.log_ratio.shape
    (torch.Size([10, 5, 3]), torch.Size([10]))
    """

    def __init__(
        self,
        kernel: Kernel,
        width: int,
        num_inducing: int,
        *,
        dtype: torch.dtype = torch.float64,
        **options: Any,
    ) -> None:
        super().__init__(kernel, width, num_inducing, dtype=dtype, **options)
        zero = torch.zeros(num_inducing, self.rank, dtype=dtype)
        self.pseudo = PseudoObservations(zero, precision=width / LEAST_NOISE)

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> ConditionalSample:
        covariance = self.covariance(inducing)
        alpha, targets = self.log_concentration.exp(), self.pseudo.targets
        batch = torch.Size([random.num_samples])
        gamma, epsilon = factor_noise(batch, len(targets), alpha, random.generator)
        log_ratio, given = draw_anchored(
            covariance,
            gamma,
            alpha,
            self.log_rate.exp(),
            targets,
            self.pseudo.root,
            epsilon,
            self.width,
            sticking=self.sticking_the_landing,
            what=self.name,
        )
        return ConditionalSample(self, inducing, log_ratio, given.widened(self.width))

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor, noise: float = 0.03) -> Tensor:
        r"""Observe ``features`` :math:`F`, rotated so that they are lower trapezoidal, with noise
        of variance :math:`\tau^2 = \lambda/\nu`, :math:`\lambda \ge 0.03`.

        Gamma-distributed squares of the diagonal have their mean at the square of what the
        observations expect, and at least at :math:`\lambda/(1 + \lambda)` times the prior's.
        """
        noise = max(LEAST_NOISE, noise)
        lower, rotated, centre = self.observed_factor(inducing, features, noise)
        self.pseudo.set(rotated, 1.0 / (noise * self.variance))
        return self.padded(lower @ centre)


def _unit_lower(below: Tensor | None) -> Tensor | None:
    """The lower triangle of a matrix, with ones on the diagonal."""
    if below is None:
        return None
    return below.tril(-1) + torch.eye(len(below), dtype=below.dtype, device=below.device)
