"""The paper's toy comparison: what a deep GP and a deep Wishart process believe where there are no
data (appendix "Toy comparison of DGP and DWP posteriors")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.machine import threads
from deepwishart.estimators import ScaledModel, estimate_elbo
from deepwishart.posterior import FunctionSamples
from deepwishart.spec import ModelSpec
from deepwishart.training import Protocol, make_progress, run_training

PROCESSES = ("dwp", "dgp")
NEAREST, FARTHEST = 2.0, 4.0  # data have |x| between these


@dataclass(frozen=True)
class ToySettings:
    """What all runs of the comparison have in common.

    Args:
        seeds: each seed makes its own data, initial model and training noise, the same for both
            processes.
        max_iter: training steps; the other numbers are those of the ``"fast"`` protocol, but for a
            first learning rate of 1e-2.
        width: features of the hidden layer.
        depth: layers, the output layer included.
        grid_points: inputs on [-6, 6] at which posteriors are looked at.
        num_samples: posterior samples behind every number.
        elbo_samples: posterior samples behind the ELBO.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    max_iter: int = 4000
    num_inducing: int = 20
    width: int = 2
    depth: int = 2
    grid_points: int = 121
    num_samples: int = 200
    elbo_samples: int = 1000

    @property
    def protocol(self) -> Protocol:
        """How every model is trained."""
        fast = Protocol.named("fast", num_rows=40)
        return fast.replace(max_iter=self.max_iter, learning_rate=1e-2)

    @property
    def grid(self) -> np.ndarray:
        """Inputs to look at, in the units of the data."""
        return np.linspace(-6.0, 6.0, self.grid_points)


class ToyData(NamedTuple):
    """One-dimensional data: inputs ``x`` and targets ``y``, ``(N,)`` each, in original units."""

    x: np.ndarray
    y: np.ndarray


def toy_data(seed: int = 0, num_rows: int = 40) -> ToyData:
    r""":math:`y = x^3 + 3\epsilon` with :math:`\epsilon \sim \mathcal N(0, 1)`, half of the inputs
    uniform on [-4, -2] and half on [2, 4] (Ober & Aitchison 2021, ICML).

    >>> data = toy_data(seed=0)
    >>> len(data.x), int((data.x < 0).sum()), bool((abs(data.x) >= 2).all())
    (40, 20, True)
    """
    generator = np.random.default_rng(seed)
    x = generator.uniform(NEAREST, FARTHEST, num_rows)
    x[: num_rows // 2] -= NEAREST + FARTHEST
    return ToyData(x, x**3 + 3.0 * generator.standard_normal(num_rows))


@dataclass(frozen=True)
class ToyRun:
    """One trained model, what it believes on the grid, and the numbers.

    Args:
        process: ``"dwp"`` or ``"dgp"``.
        seed: of data, model and training.
        scaled: the trained model, and how it standardises the data.
        samples: functions and features drawn jointly over the grid.
        mean: predictive mean on the grid, ``(M,)``, in standard deviations of y.
        stddev: predictive standard deviation likewise, observation noise included.
        numbers: see :func:`measure`.
    """

    process: str
    seed: int
    data: ToyData = field(repr=False)
    scaled: ScaledModel = field(repr=False)
    samples: FunctionSamples = field(repr=False)
    mean: np.ndarray = field(repr=False)
    stddev: np.ndarray = field(repr=False)
    numbers: dict[str, float]


def variety(matrices: Tensor) -> tuple[float, float]:
    r"""How different sampled matrices are from each other, and how large they are:

    .. math:: \frac{2}{S(S-1)} \sum_{s < t} \frac{\|G_s - G_t\|_F}{N}, \qquad
              \Big(\frac1S \sum_s \frac{\|G_s\|_F^2}{N^2}\Big)^{1/2}

    for matrices ``(S, N, N)``.
    """
    flat = matrices.flatten(1) / matrices.shape[-1]
    return float(torch.nn.functional.pdist(flat).mean()), float(flat.square().sum(1).mean().sqrt())


def measure(
    grid: np.ndarray, stddev: np.ndarray, grams: Tensor, kernels: Tensor
) -> dict[str, float]:
    """The numbers under the pictures. None of them depends on how features are rotated or scaled;
    the last one does not depend on what is added to all of them either.

    Args:
        grid: inputs ``(M,)`` in original units.
        stddev: predictive standard deviation there, ``(M,)``.
        grams: sampled Gram matrices of the hidden layer, ``(S, M, M)``.
        kernels: correlations that the output layer gives them, ``(S, M, M)``.
    """
    size = np.abs(grid)
    distance, norm = variety(grams)
    return {
        "stddev_gap": float(stddev[size < NEAREST].mean()),
        "stddev_data": float(stddev[(size >= NEAREST) & (size <= FARTHEST)].mean()),
        "stddev_outside": float(stddev[size > FARTHEST].mean()),
        "gram_distance": distance / norm,
        "kernel_distance": variety(kernels)[0],
    }


def run_one(process: str, seed: int, settings: ToySettings, verbose: int = 0) -> ToyRun:
    """Train one model and look at its posterior."""
    data = toy_data(seed)
    x, y = data.x[:, None], data.y[:, None]
    sizes: dict[str, Any] = {n: getattr(settings, n) for n in ("depth", "width", "num_inducing")}
    scaled = ScaledModel.build(ModelSpec(1, process=process, **sizes), x, y, seed=seed)
    model, rows = scaled.model, scaled.standardise(x, y)
    with make_progress(verbose, settings.max_iter, f"{process}, seed {seed}") as progress:
        history = run_training(model, *rows, settings.protocol, seed=seed, progress=progress)
    if history.stopped_by == "interrupt":
        raise KeyboardInterrupt
    generator = torch.Generator().manual_seed(seed)
    bound = estimate_elbo(model, *rows, num_samples=settings.elbo_samples, generator=generator)
    inputs = scaled.tensor(scaled.inputs.forward(settings.grid[:, None]))
    prediction = model.predict(inputs, settings.num_samples, generator)
    samples = model.sample_functions(inputs, settings.num_samples, generator)
    mean, stddev = prediction.mean.numpy(), prediction.stddev.numpy()
    # Gram matrices of the last hidden layer, and the output layer's correlations given them.
    features = samples.layers[-1]
    with torch.no_grad():
        kernels = model.output.priors[0].kernel.square(features)
    numbers = {
        "elbo": bound.mean,
        "elbo_se": bound.standard_error,
        "noise": history.noise[-1],
        **measure(settings.grid, stddev, features @ features.mT, kernels / kernels[:, :1, :1]),
    }
    return ToyRun(process, seed, data, scaled, samples, mean, stddev, numbers)


def run_toy(settings: ToySettings, *, verbose: int = 0) -> list[ToyRun]:
    """Every process with every seed, in the order of seeds, on one thread: matrices this small gain
    nothing from a second one. From ``verbose=1`` on, training shows its progress.

    >>> quick = ToySettings(seeds=(0,), max_iter=2, num_inducing=5, num_samples=4, elbo_samples=20)
    >>> [run.process for run in run_toy(quick)]
    ['dwp', 'dgp']
    """
    with threads(1):
        return [
            run_one(process, seed, settings, verbose)
            for seed in settings.seeds
            for process in PROCESSES
        ]
