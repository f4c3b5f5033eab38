"""The anchored Wishart distribution against dense formulas, a numerical Jacobian and its prior."""

import math

import pytest
import torch

from deepwishart.distributions import AnchoredWishart, Wishart
from deepwishart.distributions.bartlett import concentrations

P = 4
WIDTHS = [1, 2, 4, 6]  # singular, square, and wider than there are rows


def parameters(width: int, dtype: torch.dtype = torch.float64, batch: tuple[int, ...] = ()):
    generator = torch.Generator().manual_seed(width)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    rank = min(P, width)
    root = 0.3 * normal(*batch, P, P).tril(-1) + torch.eye(P, dtype=torch.float64)
    alpha = concentrations(width, rank, root) * (1.2 + 0.1 * normal(rank))
    beta = 0.5 * (0.2 * normal(rank)).exp()
    given = alpha, beta, normal(P, rank), normal(P, P), root
    alpha, beta, targets, precision_root, root = (t.to(dtype) for t in given)
    return (width, alpha, beta, targets, precision_root), root


def law(width: int, **options) -> AnchoredWishart:
    given, root = parameters(width, **options)
    return AnchoredWishart(*given, scale_tril=root, validate_args=True)


def draw(distribution: AnchoredWishart, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return distribution.rsample_root_with_log_prob(shape, generator=generator)


@pytest.mark.parametrize("width", WIDTHS)
def test_columns_have_the_law_of_an_observed_gaussian(width):
    """Column by column with dense matrices, without the shared factorisation."""
    given, L = parameters(width)
    _, alpha, beta, v, M = given
    root, _ = draw(law(width), 1)
    A = torch.linalg.solve_triangular(L, root[0], upper=False)
    N = torch.eye(P, dtype=L.dtype) + L.mT @ M @ M.mT @ L
    expected = -sum(
        min(i + 1, width) * math.log(L[i, i]) for i in range(P)
    )  # Definition 1's powers of L
    for j in range(min(P, width)):
        square = A[j, j].square()
        expected += torch.distributions.Gamma(alpha[j], beta[j]).log_prob(square)
        expected -= (P - j - 1) * A[j, j].log() + (P - j) * L[j, j].log()
        below = slice(j + 1, P)
        if j + 1 < P:
            r = L.mT @ M @ M.mT @ (v[:, j] - L[:, j] * A[j, j])
            precision = N[below, below]
            mean = torch.linalg.solve(precision, r[below])
            normal = torch.distributions.MultivariateNormal(mean, precision_matrix=precision)
            expected += normal.log_prob(A[below, j])
    torch.testing.assert_close(law(width).log_prob_root(root)[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", WIDTHS)
def test_density_is_that_of_the_noise_over_the_jacobian(width):
    """The map from squared diagonals and noise to the free elements of G, by autograd."""
    distribution, rank = law(width), min(P, width)
    alpha, beta = distribution.concentration, distribution.rate
    known = distribution._anchor()
    rows, columns = torch.tril_indices(P, rank)
    below = rows > columns
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(int(below.sum()), generator=generator, dtype=torch.float64)
    squares = (alpha / beta) * (1.0 + 0.1 * torch.arange(rank))

    def free_elements(squares: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        epsilon = torch.zeros(P, rank, dtype=torch.float64)
        epsilon = epsilon.index_put((rows[below], columns[below]), noise)
        root = distribution.scale_tril @ known.draw(squares.sqrt(), epsilon)
        return (root @ root.mT)[rows, columns]

    parts = torch.autograd.functional.jacobian(free_elements, (squares, noise))
    log_volume = torch.linalg.slogdet(torch.cat(parts, dim=1)).logabsdet
    of_noise = torch.distributions.Gamma(alpha, beta).log_prob(squares).sum()
    of_noise += torch.distributions.Normal(0.0, 1.0).log_prob(noise).sum()
    epsilon = torch.zeros(P, rank, dtype=torch.float64)
    epsilon[rows[below], columns[below]] = noise
    root = distribution.scale_tril @ known.draw(squares.sqrt(), epsilon)
    torch.testing.assert_close(
        distribution.log_prob_root(root), of_noise - log_volume, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("width", WIDTHS)
def test_density_of_own_draws_is_the_density_of_their_roots_and_gram_matrices(width, batch):
    distribution = law(width, batch=batch)
    root, log_prob = draw(distribution, 5)
    assert root.shape == (5, *batch, P, min(P, width))
    torch.testing.assert_close(log_prob, distribution.log_prob_root(root), rtol=1e-8, atol=1e-8)
    gram = root @ root.mT
    torch.testing.assert_close(log_prob, distribution.log_prob(gram), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("width", WIDTHS)
def test_prior_over_posterior_has_the_expectation_one(width):
    distribution = law(width)
    prior = Wishart(width, scale_tril=distribution.scale_tril)
    # Observations that hold on to little, gammas with wider tails: weights of finite variance.
    distribution.precision_root = 0.2 * distribution.precision_root
    distribution.targets = 0.3 * distribution.targets
    distribution.concentration = concentrations(width, min(P, width), distribution.rate)
    distribution.rate = torch.full_like(distribution.rate, 0.45)
    root, log_q = draw(distribution, 400_000)
    weight = (prior.log_prob_root(root) - log_q).exp()
    error = float(weight.std() / len(weight) ** 0.5)
    assert abs(float(weight.mean()) - 1.0) < 4.0 * error and error < 0.01


@pytest.mark.parametrize("width", WIDTHS)
def test_without_observations_it_is_the_prior(width):
    distribution = law(width)
    rank = min(P, width)
    distribution.precision_root = torch.zeros_like(distribution.precision_root)
    distribution.concentration = concentrations(width, rank, distribution.rate)
    distribution.rate = torch.full_like(distribution.rate, 0.5)
    root, log_prob = draw(distribution, 20)
    prior = Wishart(width, scale_tril=distribution.scale_tril)
    torch.testing.assert_close(log_prob, prior.log_prob_root(root), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", WIDTHS)
def test_certain_observations_are_what_is_drawn(width):
    """Least squares on all rows, with the diagonal that was drawn."""
    distribution = law(width)
    distribution.precision_root = 1e5 * torch.eye(P, dtype=torch.float64)
    root, _ = draw(distribution, 1)
    L = distribution.scale_tril
    A = torch.linalg.solve_triangular(L, root[0], upper=False)
    for j in range(min(P, width)):
        left = distribution.targets[:, j] - L[:, j] * A[j, j]
        expected = torch.linalg.lstsq(L[:, j + 1 :], left.unsqueeze(-1)).solution.squeeze(-1)
        torch.testing.assert_close(A[j + 1 :, j], expected, rtol=0, atol=1e-3)
