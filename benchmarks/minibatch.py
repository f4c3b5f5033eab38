"""What closes the gap between minibatches and training on all rows, at equal time.

    DEEPWISHART_DATA=... python benchmarks/minibatch.py --seconds 60

On kin8nm and power (deep Wishart process, depth 2, split 0, seed 0), each way of training gets as
many steps as fit into the same processor time, judged by the pace of ten, and the protocol
``fast`` in all else. Said is the bound afterwards, with 300 fresh samples, on all rows.

- ``all rows``: collapsed output layer, two posterior samples, every row at every step;
- ``plain``: 1,000 rows and ten samples a step, pseudo-observations of the output that start from
  targets of random rows, one learning rate for all parameters;
- ``rates``: the same with the learning rates of ``fast``, higher for kernels and noise;
- ``start``: half of the time goes into a collapsed model of 2,000 rows; from its hidden layers, one
  pass over all rows gives the pseudo-observations that are best on average over posterior samples,
  and minibatches as in ``plain`` go on from there;
- ``finish``: the other way round, half of the time minibatches as in ``plain``; from these hidden
  layers and kernels a collapsed model goes on, with all rows and one posterior sample a step.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.machine import threads
from deepwishart.benchmark import environment
from deepwishart.datasets import load
from deepwishart.estimators import ScaledModel, estimate_elbo
from deepwishart.model import DeepKernelProcess
from deepwishart.numerics.gaussian import formed
from deepwishart.random import RowRandomness
from deepwishart.reproduction.published import published
from deepwishart.spec import ModelSpec
from deepwishart.start import build
from deepwishart.training import Protocol, adjust_protocol, train

WAYS = ("all rows", "plain", "rates", "start", "finish")
PACE_STEPS, FINAL_SAMPLES, SOME_ROWS, BEGIN_SAMPLES = 10, 300, 2_000, 20
Data = tuple[Tensor, Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description="Minibatches against all rows.")
    parser.add_argument("--datasets", nargs="+", default=["kin8nm", "power"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time of each way")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/minibatch.json"))
    options = parser.parse_args()
    record = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    record["environment"] = environment()
    print("| data set | published | way | visits | bound |\n|---|---|---|---|---|")
    with threads(1):
        for name in options.datasets:
            goal = published("elbo", name, "dwp", 2).mean
            for way in options.ways:
                found = record["cells"][f"{name}, {way}"] = measure(name, way, options.seconds)
                bound = f"{found['elbo']:.4f} ± {found['elbo_se']:.4f}"
                visits = f"{found['visits']:.1e}"
                print(f"| {name} | {goal} | {way} | {visits} | {bound} |")
                options.out.write_text(json.dumps(record, indent=1) + "\n")


def measure(name: str, way: str, seconds: float) -> dict[str, Any]:
    split = load(name).split(0)
    X, y = split.X_train, split.y_train[:, None]
    output = "collapsed" if way == "all rows" else "inducing"
    spec = ModelSpec(X.shape[1], output=output)
    scaled = ScaledModel.build(spec, X, y)
    data = scaled.standardise(X, y)
    protocol = adjust_protocol("fast", len(X), output=output)
    if way in ("plain", "start", "finish"):
        protocol = protocol.replace(factors={"scale": 0.0})
    before, visits = time.process_time(), 0
    if way == "start":
        visits += begin(scaled, X, y, seconds / 2)
    if way == "finish":
        visits += train_for(scaled.model, data, protocol, seconds / 2)
        scaled, trained = ScaledModel.build(spec.replace(output="collapsed"), X, y), scaled
        scaled.model.load_state_dict(trained.model.state_dict(), strict=False)
        protocol = protocol.replace(batch_size=None, num_samples=1, kl_anneal=0)
    visits += train_for(scaled.model, data, protocol, seconds - (time.process_time() - before))
    spent = time.process_time() - before
    generator = torch.Generator().manual_seed(1_000_003)
    bound = estimate_elbo(scaled.model, *data, num_samples=FINAL_SAMPLES, generator=generator)
    return {
        "elbo": bound.mean,
        "elbo_se": bound.standard_error,
        "visits": visits,
        "seconds": spent,
    }


def train_for(model: DeepKernelProcess, data: Data, protocol: Protocol, seconds: float) -> int:
    """Train for so many seconds of processor time; the rows times samples that were visited."""
    before = time.process_time()
    kept = copy.deepcopy(model.state_dict())
    began = time.process_time()
    train(model, *data, protocol.replace(max_iter=PACE_STEPS, kl_anneal=0))
    pace = (time.process_time() - began) / PACE_STEPS
    model.load_state_dict(kept)
    steps = max(10, math.floor((seconds - (time.process_time() - before)) / pace))
    fade_in = steps // 5 if protocol.kl_anneal else 0
    train(model, *data, protocol.replace(max_iter=steps, kl_anneal=fade_in))
    return steps * (protocol.batch_size or len(data[0])) * protocol.num_samples


def begin(scaled: ScaledModel, X: np.ndarray, y: np.ndarray, seconds: float) -> int:
    """Let a model start from a collapsed one that was trained on some of the rows."""
    some = np.random.default_rng(0).choice(len(X), SOME_ROWS, replace=False)
    points = scaled.model.inducing_inputs.detach().clone()
    data = scaled.standardise(X[some], y[some])
    collapsed = build("dwp", *data, depth=2, inducing_inputs=points, output="collapsed")
    protocol = adjust_protocol("fast", SOME_ROWS, output="collapsed")
    visits = train_for(collapsed, data, protocol, seconds)
    scaled.model.load_state_dict(collapsed.state_dict(), strict=False)
    pseudo_observe(scaled.model, *scaled.standardise(X, y))
    return visits


@torch.no_grad()
def pseudo_observe(model: DeepKernelProcess, X: Tensor, y: Tensor) -> None:
    """Pseudo-observations of the output that are best on average over posterior samples: for one,
    Lambda = K_ii^-1 K_it K_ti K_ii^-1 / s2 and Lambda v = K_ii^-1 K_it y / s2."""
    random = model.randomness(BEGIN_SAMPLES, torch.Generator().manual_seed(0))
    sample = model.sample(random)
    noise, layer = model.likelihood.noise.mean(), model.output
    inducing = sample.layers[-1].inducing
    kernel = layer.covariance(inducing, 1e-8)
    precision, products = torch.zeros_like(kernel), 0.0
    rows_random = RowRandomness(BEGIN_SAMPLES, seed=0, dtype=model.dtype)
    for begin in range(0, len(X), 1000):
        part = slice(begin, begin + 1000)
        rows = sample.last_rows(X[part], rows_random)
        cross = formed(layer.row_covariance(inducing, rows)[0])
        precision = precision + cross @ cross.mT
        products = products + cross @ y[part]
    inner = torch.linalg.solve(kernel, products).mean(0) / noise
    precision = torch.linalg.solve(kernel, torch.linalg.solve(kernel, precision).mT).mean(0) / noise
    precision = 0.5 * (precision + precision.mT)
    precision.diagonal().add_(1e-6 * precision.diagonal().mean())
    root = torch.linalg.cholesky(precision)
    scale = root.square().sum(-1, keepdim=True).sqrt()
    layer.pseudo.targets.copy_(torch.cholesky_solve(inner, root))
    layer.pseudo.log_precision.copy_(2.0 * scale.log())
    layer.pseudo.precision_shape.copy_(root / scale)


if __name__ == "__main__":
    main()
