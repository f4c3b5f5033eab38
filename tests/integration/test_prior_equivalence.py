"""The deep Wishart process and the deep GP have one prior, and rows follow it given any root."""

import pytest
import torch
from scipy import stats

import deepwishart as dw
from deepwishart.layers.gaussian import ConditionalSample
from deepwishart.numerics.draw_rows import Conditional
from deepwishart.random import Randomness, RowRandomness

SAMPLES = 4000


def inputs(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64)


def same_law(first: torch.Tensor, second: torch.Tensor, level: float = 1e-3) -> None:
    result = stats.ks_2samp(first.flatten().numpy(), second.flatten().numpy())
    assert result.pvalue > level, result


def statistics(gram: torch.Tensor) -> list[torch.Tensor]:
    """Several functions of a Gram matrix ``(S, N, N)``, one number per sample each."""
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=gram.dtype)[: gram.shape[-1]]
    return [
        gram[:, 0, 0],
        gram[:, 0, 1],
        gram[:, 2, 1],
        gram.diagonal(dim1=-2, dim2=-1).sum(-1),
        gram.square().sum((-2, -1)),
        gram @ signs @ signs,
        torch.linalg.eigvalsh(gram)[:, -1],
    ]


@pytest.mark.parametrize("kernel", ["squared_exponential", "arc_cosine1"])
@pytest.mark.parametrize("width", [2, 6])
def test_three_layer_priors_agree_layer_by_layer(width, kernel):
    X, y = inputs(4, 3), inputs(4, 1)
    draws = []
    for process, seed in (("dwp", 1), ("dgp", 2)):
        model = dw.build(process, X, y, depth=3, width=width, num_inducing=4, kernel=kernel)
        generator = torch.Generator().manual_seed(seed)
        draws.append(dw.sample_prior(model, X, SAMPLES, generator))
    wishart, features = draws
    for layer in range(2):
        pairs = zip(
            statistics(wishart.grams[layer]), statistics(features.grams[layer]), strict=True
        )
        for first, second in pairs:
            same_law(first, second)
    for row in range(4):
        same_law(wishart.outputs[:, row], features.outputs[:, row])


def test_columns_with_kernels_of_their_own_have_them_in_the_prior():
    X, y = inputs(4, 3), inputs(4, 1)
    model = dw.build("dwp", X, y, num_inducing=4, likelihood="heteroscedastic")
    _, noises = model.output.priors
    noises.kernel.log_height.data.fill_(2.0).log_()
    drawn = dw.sample_prior(model, X, SAMPLES, torch.Generator().manual_seed(1)).outputs
    same_law(drawn[:, 0, 0], drawn[:, 0, 1] / 2.0**0.5)
    assert stats.ks_2samp(drawn[:, 0, 0].numpy(), drawn[:, 0, 1].numpy()).pvalue < 1e-3
    assert float(torch.corrcoef(drawn[:, 0].mT)[0, 1].abs()) < 5 / SAMPLES**0.5


def prior_layer(process: str, width: int, X: torch.Tensor):
    """The first hidden layer of a model whose approximate posterior is its prior."""
    model = dw.build(process, X, X[:, :1], depth=2, width=width, num_inducing=len(X), jitter=1e-10)
    layer = model.layers[0]
    with torch.no_grad():
        model.inducing_inputs.copy_(X)
        if process == "dwp":
            layer.log_concentration.copy_(
                (torch.arange(width, width - layer.mean.shape[1], -1) / 2).log()
            )
            layer.log_rate.fill_(0.5).log_()
            layer.mean.zero_()
            layer.log_deviation.zero_()
        elif process == "dgp":
            layer.pseudo.log_precision.fill_(-80.0)
        else:
            layer.learned_root.zero_()
            layer.log_extra_degrees.fill_(-80.0)
    return model, layer


def joint_gram(model, layer, rows: torch.Tensor, *, joint: bool, seed: int) -> torch.Tensor:
    """Gram matrices over inducing points and rows, sampled as in Algorithm 1."""
    random = Randomness(SAMPLES, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        sample = layer.sample(model.first_inducing(), random)
        ratio = sample.log_ratio
        torch.testing.assert_close(ratio, torch.zeros_like(ratio), atol=1e-5, rtol=0)
        sampled = sample.rows(model.scale_inputs(rows), random.rows(), joint)
    if isinstance(sampled, torch.Tensor):
        features = torch.cat([sample.inducing, sampled], dim=1)
        return features @ features.mT
    own = sampled.own if joint else torch.diag_embed(sampled.own)
    top = torch.cat([sample.inducing.gram, sampled.cross], dim=-1)
    return torch.cat([top, torch.cat([sampled.cross.mT, own], dim=-1)], dim=-2)


@pytest.mark.parametrize(
    "process, width", [("dwp", 2), ("dwp", 3), ("dwp", 7), ("dgp", 2), ("diwp", 3)]
)
@pytest.mark.parametrize("joint", [False, True])
def test_posterior_equal_to_prior_extends_the_prior_to_rows(process, width, joint):
    # Independent sampling is exact for one row; joint sampling for several.
    X, rows = inputs(3, 2), inputs(2 if joint else 1, 2, seed=5)
    model, layer = prior_layer(process, width, X)
    sampled = joint_gram(model, layer, rows, joint=joint, seed=3)
    union = torch.cat([X, rows])
    direct = dw.sample_prior(model, union, SAMPLES, torch.Generator().manual_seed(4)).grams[0]
    checks = [(sampled[:, -1, -1], direct[:, -1, -1]), (sampled[:, 0, -1], direct[:, 0, -1])]
    checks += list(
        zip(statistics(sampled[:, -4:, -4:]), statistics(direct[:, -4:, -4:]), strict=True)
    )
    for first, second in checks:
        same_law(first, second)


@pytest.mark.parametrize("width", [2, 3, 6])
def test_rows_do_not_depend_on_the_choice_of_root(width):
    X, rows = inputs(3, 2), inputs(2, 2, seed=5)
    model, layer = prior_layer("dwp", width, X)
    one = Randomness(1, torch.Generator().manual_seed(0))
    with torch.no_grad():
        sample = layer.sample(model.first_inducing(), one)
    rotation = torch.linalg.qr(inputs(width, width, seed=8)).Q
    results = []
    for turn, seed in ((torch.eye(width, dtype=torch.float64), 1), (rotation, 2)):
        root = (sample.inducing @ turn).expand(SAMPLES, -1, -1)
        given = Conditional.of(sample.given.covariance, sample.given.inverse, root)
        turned = ConditionalSample(layer, sample.inputs, sample.log_ratio, given)
        with torch.no_grad():
            sampled = turned.rows(model.scale_inputs(rows), RowRandomness(SAMPLES, seed))
        results.append((root @ sampled.mT, sampled @ sampled.mT))
    (cross, own), (cross_turned, own_turned) = results
    for i in range(3):
        same_law(cross[:, i, 0], cross_turned[:, i, 0])
    for i, j in ((0, 0), (0, 1), (1, 1)):
        same_law(own[:, i, j], own_turned[:, i, j])
    # The choice matters for features themselves, so the test above could have failed.
    first = stats.ks_2samp((sampled[:, 0, 0]).numpy(), (sampled @ rotation.mT)[:, 0, 0].numpy())
    assert first.pvalue < 1e-3
