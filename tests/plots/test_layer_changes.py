"""Divergences are those of the ELBO; Bartlett parameters are compared with the right prior."""

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart import plots


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_divergences_are_what_the_elbo_subtracts(models, data, process):
    """With the same noise, ELBO(weight 0) - ELBO(weight 1) is their sum over N."""
    model, (X, y) = models[process], data
    layers = plots.learned_divergences(
        model, num_samples=400, generator=torch.Generator().manual_seed(1)
    )
    assert list(layers) == ["layer 1", "layer 2", "output"]
    bounds = [
        dw.elbo(
            model,
            X,
            y,
            num_data=len(X),
            num_samples=400,
            kl_weight=weight,
            generator=torch.Generator().manual_seed(2),
        ).item()
        for weight in (0.0, 1.0)
    ]
    total = sum(mean for mean, _ in layers.values())
    error = sum(one for _, one in layers.values())
    assert abs(total - len(X) * (bounds[0] - bounds[1])) <= 4 * 2**0.5 * error + 1e-9
    if process == "dsvi":  # its divergence is exact
        assert error == pytest.approx(0.0, abs=1e-12)


def test_a_posterior_at_the_prior_has_no_divergence(data):
    model = dw.build("dwp", *data, depth=2, num_inducing=6)
    layer = model.layers[0]
    with torch.no_grad():
        layer.loc.zero_()
        layer.log_scale.zero_()
        layer.log_rate.fill_(np.log(0.5))
        layer.mixing_logit.fill_(-60.0)
    mean, error = plots.learned_divergences(model, num_samples=20)["layer 1"]
    assert abs(mean) < 1e-9 and error < 1e-9
    (change,) = plots.bartlett_changes(model).values()
    assert change.mixing < 1e-20
    assert np.allclose(change.concentration, 1) and np.allclose(change.rate, 1)
    assert not change.loc.any() and np.array_equal(change.scale, np.ones_like(change.scale))


def test_divergence_bars(models):
    found = {
        process: plots.learned_divergences(model, num_samples=5)
        for process, model in models.items()
    }
    (axes,) = plots.layer_divergences(found).axes
    assert axes.get_xlabel() == "layer" and axes.get_ylabel().endswith("(nats)")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["layer 1", "layer 2", "output"]
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == [mean for layers in found.values() for mean, _ in layers.values()]


def test_models_of_different_depth_share_the_output(models, data):
    shallow = dw.build("dgp", *data, depth=1, num_inducing=6)
    found = {
        "shallow": plots.learned_divergences(shallow, num_samples=2),
        "deep": plots.learned_divergences(models["dgp"], num_samples=2),
    }
    (axes,) = plots.layer_divergences(found).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["layer 1", "layer 2", "output"]
    assert len(axes.patches) == 4
    assert axes.patches[0].get_x() > 1.5  # the shallow model's one bar is at "output"


def test_bartlett_changes_are_relative_to_the_prior(data):
    """Width 4 has prior shapes 2, 3/2, 1, 1/2 and rate 1/2."""
    model = dw.build("dwp", *data, depth=2, width=4, num_inducing=5)
    layer = model.layers[0]
    with torch.no_grad():
        layer.log_concentration.copy_(torch.tensor([4.0, 4.5, 4.0, 2.5]).log())
        layer.log_rate.copy_(torch.tensor([0.5, 1.0, 1.5, 2.0]).log())
        layer.log_scale.fill_(np.log(0.25))
    (change,) = plots.bartlett_changes(model).values()
    assert change.concentration == pytest.approx([2, 3, 4, 5], rel=1e-6)
    assert change.rate == pytest.approx([1, 2, 3, 4], rel=1e-6)
    below = layer.loc.detach()[torch.ones(5, 4).tril(-1).bool()].numpy()
    assert np.array_equal(change.loc, below) and change.scale == pytest.approx([0.25] * 10)

    panels = plots.bartlett_parameters({"layer 1": change}).axes
    assert [axes.get_xlabel() for axes in panels] == ["hidden layer"] * 5
    assert all(axes.get_ylabel() for axes in panels)
    assert panels[0].lines[0].get_ydata() == [change.mixing]
    for axes, values in zip(panels[1:], change[1:], strict=True):
        assert np.array_equal(axes.lines[1].get_ydata(), values)
    priors = [axes.lines[0].get_ydata()[0] for axes in panels[1:]]
    assert priors == [1.0, 1.0, 0.0, 1.0]


def test_one_inducing_point_has_no_off_diagonal(data):
    change = plots.bartlett_changes(dw.build("dwp", *data, depth=2, num_inducing=1))
    assert change["layer 1"].loc.shape == (0,)
    assert len(plots.bartlett_parameters(change).axes) == 5


@pytest.mark.parametrize("process", ["dgp", "dsvi", "diwp"])
def test_only_wishart_layers_have_bartlett_parameters(models, process):
    with pytest.raises(ValueError, match=f"this {process} has no Bartlett parameters"):
        plots.bartlett_changes(models[process])


def test_what_does_not_apply(models, data):
    with pytest.raises(ValueError, match="depth 1"):
        plots.bartlett_changes(dw.build("dwp", *data, depth=1, num_inducing=6))
    with pytest.raises(ValueError, match="two or more samples"):
        plots.learned_divergences(models["dwp"], num_samples=1)
