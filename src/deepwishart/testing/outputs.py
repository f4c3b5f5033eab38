"""The contract of output layers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from deepwishart.layers.base import (
    GaussianSample,
    OutputLayer,
    OutputSample,
    Summary,
    add_summaries,
)
from deepwishart.likelihoods import Likelihood
from deepwishart.predict import draw_targets
from deepwishart.testing.requirements import MANY_SAMPLES, ROWS, SAMPLES, SamplingRequirements


def check_output_layer(
    layer: OutputLayer,
    inducing: Tensor,
    likelihood: Likelihood,
    *,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> None:
    r"""Check all that a model takes for granted about an output layer.

    That its sums over rows add up over parts of the rows, and that they are enough: the data term
    and the predictor follow from them. That data term and :math:`\log p - \log q` have one value
    per posterior sample, and the same mean whether or not inducing variables are integrated out.
    That the function's moments row by row are those of all rows together. That a first layer does
    what a later one would, that gradients are finite and reach every parameter, that the dtype is
    kept, all randomness comes from the caller, and nothing is stored on the layer.

    Args:
        layer: the layer to check.
        inducing: features of the inducing points, ``(P, D)``, few and distinct.
        likelihood: one that the layer is for, with as many latent columns as the layer has.

    >>> from deepwishart.kernels import SquaredExponential
    >>> from deepwishart.layers import GPOutputLayer
    >>> from deepwishart.likelihoods import Gaussian
    >>> points = torch.linspace(-1, 1, 5).unsqueeze(-1)
    >>> layer = GPOutputLayer(SquaredExponential(), points.sin())
    >>> check_output_layer(layer, points, Gaussian(1))
    """
    check = _OutputCheck(likelihood, layer, inducing, dtype, seed)
    check.shapes()
    check.whatever_the_layer()
    check.parts_of_the_rows()
    check.moments()
    check.rows_it_needs()
    check.integration()


class _OutputCheck(SamplingRequirements):
    subject: OutputLayer

    def __init__(self, likelihood: Likelihood, layer: OutputLayer, *options: Any) -> None:
        super().__init__(layer, *options)
        if layer.width != likelihood.num_latents:
            raise ValueError(
                f"The layer has {layer.width} columns, but {type(likelihood).__name__} needs "
                f"{likelihood.num_latents} latent functions."
            )
        self.likelihood = copy.deepcopy(likelihood).to(self.dtype)
        latents = self.normal(ROWS, likelihood.num_latents)
        self.targets = draw_targets(self.likelihood, latents, self.seed)

    def summarise(self, sample: OutputSample, rows: Tensor, targets: Tensor) -> Summary:
        return sample.summarise(rows, targets, self.likelihood)

    def data_term(self, sample: OutputSample, rows: Tensor, targets: Tensor) -> Tensor:
        return sample.data_term(self.summarise(sample, rows, targets), self.likelihood)

    def predictor(self, sample: OutputSample, rows: Tensor) -> GaussianSample:
        summary = self.summarise(sample, rows, self.targets) if self.subject.needs_rows else None
        return sample.predictor(summary, self.likelihood)

    def outcome(self, inducing: Tensor, rows: Tensor) -> dict[str, Tensor]:
        sample = self.subject.sample(inducing, self.random())
        mean, variance = self.predictor(sample, rows).moments(rows)
        return {
            "log p - log q": sample.log_ratio,
            "data_term": self.data_term(sample, rows, self.targets),
            "the predictor's mean": mean,
            "the predictor's variance": variance,
        }

    def shapes(self) -> None:
        for sample in self.both_samples(OutputSample):
            term = self.data_term(sample, self.rows, self.targets)
            self.require_value("data_term", term, (), (SAMPLES,))
            drawn = self.predictor(sample, self.rows).rows(self.rows, self.row_random(), joint=True)
            wanted = (SAMPLES, ROWS, self.subject.width)
            self.require_value("a joint sample of the predictor's rows", drawn, wanted)

    def parts_of_the_rows(self) -> None:
        sample = self.sample()
        whole = self.summarise(sample, self.rows, self.targets)
        parts = add_summaries(
            self.summarise(sample, self.rows[chosen], self.targets[chosen])
            for chosen in (slice(0, 1), slice(1, ROWS))
        )
        for found, expected in zip(parts, whole, strict=True):
            self.require_close(found, expected, "summaries of parts do not add up to the whole's")

    @torch.no_grad()
    def moments(self) -> None:
        for integrate in (True, False):
            predictor = self.predictor(self.sample(integrate=integrate), self.rows)
            mean, variance = predictor.moments(self.rows)
            joint = predictor.joint_moments(self.rows)
            self.require((variance > 0).all(), "the predictor has a variance that is not positive")
            what = "moments and joint_moments of the predictor differ in mean"
            self.require_close(mean, joint.mean, what, broadcast=True)
            own = joint.covariance.diagonal(dim1=-2, dim2=-1).mT
            what = "variances are not the diagonal of the covariance of joint_moments"
            self.require_close(variance, own, what, broadcast=True)
            what = "the joint covariance is not symmetric"
            self.require_close(joint.covariance, joint.covariance.mT, what)

    def rows_it_needs(self) -> None:
        try:
            self.sample().predictor(None, self.likelihood)
            needs_rows = False
        except ValueError:
            needs_rows = True
        what = f"needs_rows is {self.subject.needs_rows}, but its predictor says {needs_rows}"
        self.require(self.subject.needs_rows == needs_rows, what)

    @torch.no_grad()
    def integration(self) -> None:
        one, two = (self.data_term(s, self.rows, self.targets) for s in self.divergence())
        gap = (two - one).expand(MANY_SAMPLES)
        self.require_zero_mean(gap, "data_term with integrate=True and False differ in mean")
