"""The contract of hidden layers."""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart.kernels import GramInducing, GramRows, Inducing, Rows
from deepwishart.layers.base import Layer, LayerSample
from deepwishart.testing.requirements import MANY_SAMPLES, ROWS, SAMPLES, SamplingRequirements


def check_layer(
    layer: Layer, inducing: Tensor, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> None:
    r"""Check all that a model takes for granted about a hidden layer.

    That :math:`\log p - \log q` has one value per posterior sample and a mean that is not positive,
    being :math:`-\mathrm{KL}(q \| p)`, whether or not inducing variables are integrated out. That a
    row depends on nothing but the inducing points and its own randomness: not on the other rows,
    not on how a batch is cut into pieces; that rows sampled jointly have the same marginal
    distribution, and that rows at the inducing points are the inducing points. That a first layer,
    whose inputs have no samples, does what a later one would. That gradients are finite and reach
    every parameter; that the dtype is kept, all randomness comes from the caller, and nothing is
    stored on the layer.

    It cannot know whether the density is right. Test that where posterior and prior coincide, or
    against :mod:`scipy.stats`.

    Args:
        layer: a hidden layer.
        inducing: features of the inducing points, ``(P, D)``; few points make the check fast, and
            distinct ones keep it meaningful.

    >>> from deepwishart.kernels import SquaredExponential
    >>> from deepwishart.layers import GlobalInducingLayer
    >>> points = torch.linspace(-1, 1, 5).unsqueeze(-1)
    >>> check_layer(GlobalInducingLayer(SquaredExponential(), points.sin()), points)
    """
    check = _LayerCheck(layer, inducing, dtype, seed)
    check.shapes()
    check.whatever_the_layer()
    check.rows_are_alone()
    check.start()
    check.divergence()
    check.rows_at_inducing_points()
    check.joint_rows()


class _LayerCheck(SamplingRequirements):
    subject: Layer

    def outcome(self, inducing: Tensor, rows: Tensor) -> dict[str, Tensor]:
        sample = self.subject.sample(inducing, self.random())
        found = {"log p - log q": sample.log_ratio}
        for joint in (False, True):
            drawn = sample.rows(rows, self.row_random(), joint)
            for index, part in enumerate(_tensors(drawn)):
                found[f"part {index} of rows with joint={joint}"] = part
        return found

    def shapes(self) -> None:
        for sample in self.both_samples(LayerSample):
            for joint in (False, True):
                drawn = sample.rows(self.rows, self.row_random(), joint)
                found = [tuple(part.shape) for part in _tensors(drawn)]
                wanted: list[tuple[int, ...]] = [(SAMPLES, ROWS, *found[0][2:3])]
                if isinstance(drawn, GramRows):
                    own = (ROWS, ROWS) if joint else (ROWS,)
                    wanted = [(SAMPLES, len(self.inducing), ROWS), (SAMPLES, *own)]
                what = f"rows with joint={joint} have shapes {found} instead of {wanted}"
                self.require(found == wanted, what)
            inducing, gram = _values(sample.inducing), isinstance(drawn, GramRows)
            if inducing.shape[-2] == 0:  # a layer with inducing points of its own hands none on
                continue
            what = "of inducing points and rows, one is features and the other a Gram matrix"
            self.require(isinstance(sample.inducing, GramInducing) == gram, what)
            width = len(self.inducing) if gram else found[0][-1]
            self.require_value("inducing", inducing, (SAMPLES, len(self.inducing), width))

    def rows_are_alone(self) -> None:
        """Of rows with one noise for all, and of pieces of a batch with one for each."""
        sample = self.sample()
        for shared, violation in (
            (True, "a row depends on the other rows of its batch"),
            (False, "pieces of a batch differ from the batch (RowRandomness.part)"),
        ):
            random = self.row_random(shared=shared)
            whole = sample.rows(self.rows, random)
            for chosen in (slice(0, 1), slice(1, ROWS)):
                part = random if shared else random.part(chosen.start, ROWS)
                found = _tensors(sample.rows(self.rows[chosen], part))
                for piece, expected in zip(found, _tensors(_pick(whole, chosen)), strict=True):
                    self.require_close(piece, expected, violation)

    def start(self) -> None:
        width = self.subject.width
        features = self.normal(len(self.inducing), width) / width**0.5
        other = _LayerCheck(self.subject, self.inducing, self.dtype, self.seed)
        values = _values(other.subject.start_from(self.inducing, features))
        finite = isinstance(values, Tensor) and bool(values.isfinite().all())
        self.require(finite, "start_from returns no finite starting values for the next layer")
        outcome = other.outcome(self.inducing, self.rows)
        finite = all(value.isfinite().all() for value in outcome.values())
        self.require(finite, "after start_from, samples are not finite")

    @torch.no_grad()
    def rows_at_inducing_points(self) -> None:
        sample = self.sample(integrate=False)
        expected = _values(sample.inducing)
        if expected.shape[-2] == 0:
            return
        drawn, *_ = _tensors(sample.rows(self.inducing, self.row_random()))
        violation = "rows at the inducing points are not the inducing points"
        tolerance = 30.0 * max(self.subject.jitter, self.eps) ** 0.5
        self.require_close(drawn, expected, violation, tolerance)

    @torch.no_grad()
    def joint_rows(self) -> None:
        sample = self.sample(MANY_SAMPLES)
        pair = []
        for offset, joint in ((1, False), (2, True)):
            drawn = sample.rows(self.rows, self.row_random(MANY_SAMPLES, offset), joint)
            pair.append(_tensors(_pick(drawn, slice(0, 1), joint)))
        for alone, together in zip(*pair, strict=True):
            for power, name in ((1, "means"), (2, "mean squares")):
                what = f"a row sampled alone and jointly with others has two different {name}"
                gap = alone**power - together**power
                # Joint covariances need jitter.
                self.require_zero_mean(gap, what, allowance=self.subject.jitter)


def _values(inducing: Inducing) -> Tensor:
    return inducing.gram if isinstance(inducing, GramInducing) else inducing


def _tensors(rows: Rows) -> tuple[Tensor, ...]:
    return (rows,) if isinstance(rows, Tensor) else tuple(rows)


def _pick(rows: Rows, chosen: slice, joint: bool = False) -> Rows:
    if isinstance(rows, Tensor):
        return rows[..., chosen, :]
    own = rows.own.diagonal(dim1=-2, dim2=-1) if joint else rows.own
    return GramRows(rows.cross[..., chosen], own[..., chosen])
