"""Train on two processes; started twice by test_distributed.py, once per rank."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import deepwishart as dw
from deepwishart.likelihoods import Categorical, HeteroscedasticGaussian, Poisson
from deepwishart.model import ProcessSample
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.training import CheckpointStore, History, Protocol, train

CASES: dict[str, dict[str, Any]] = {
    "minibatches": {"process": "dwp", "batch_size": 7},
    "full batch": {"process": "diwp", "batch_size": None},
    "collapsed": {"process": "dwp", "batch_size": None, "output": "collapsed"},
    "collapsed, own inducing points": {
        "process": "dsvi",
        "batch_size": None,
        "output": "collapsed",
    },
    "own inducing points": {"process": "dsvi", "batch_size": 8},
    "classes": {"process": "dwp", "batch_size": 7, "likelihood": Categorical(3)},
    "counts": {"process": "dwp", "batch_size": 7, "likelihood": Poisson()},
    "input-dependent noise": {
        "process": "dsvi",
        "batch_size": 8,
        "likelihood": HeteroscedasticGaussian(),
    },
    "a rank without rows": {"process": "dwp", "batch_size": 1},
    "a rank without rows now and then": {"process": "dwp", "batch_size": 2},
    "resumed": {"process": "dwp", "batch_size": 7, "stop_after": 9},
    "a fault on one rank": {"process": "dgp", "batch_size": 7, "fault_at": 5},
    "stopped by one rank": {"process": "dgp", "batch_size": 7, "stop_rank": 1},
}


def run(case: str, rank: int, world: int, directory: Path) -> dict[str, Any]:
    """Train one case and tell what came out on this rank."""
    options = CASES[case]
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(15, 2, generator=generator, dtype=torch.float64)
    y = X[:, 0].sin()
    if "likelihood" in options:
        y = (y > -0.4).double() + (y > 0.4).double()
    protocol = Protocol(16, 1e-2, 1e-3, "cosine", kl_anneal=8, num_samples=3)
    protocol = protocol.replace(batch_size=options["batch_size"])

    def new_model() -> dw.DeepKernelProcess:
        # Only the leader's model and seed count.
        chosen = {name: options[name] for name in ("output", "likelihood") if name in options}
        return dw.build(options["process"], X, y, depth=3, num_inducing=5, seed=rank, **chosen)

    store = CheckpointStore(directory / f"{case} {world}") if "stop_after" in options else None
    if store is not None:
        train(
            new_model(),
            X,
            y,
            protocol,
            checkpoints=store,
            should_stop=lambda history: len(history) == options["stop_after"],
        )

    def stop(history: History) -> bool:
        return options["stop_rank"] == rank and len(history) == 6

    model = new_model()
    true_summarise = ProcessSample.summarise
    if "fault_at" in options and rank == world - 1:
        ProcessSample.summarise = faulty(true_summarise, options["fault_at"])
    events: list[int] = []
    history = train(
        model,
        X,
        y,
        protocol,
        seed=rank,
        checkpoints=store,
        resume=store is not None,
        progress=lambda event: events.append(event.step),
        should_stop=stop if "stop_rank" in options else None,
    )
    ProcessSample.summarise = true_summarise
    values = torch.cat([p.detach().flatten() for p in model.parameters()])
    return {
        "elbo": history.elbo,
        "stopped_by": history.stopped_by,
        "recoveries": history.recoveries,
        "events": len(events),
        "digest": hashlib.sha256(values.numpy().tobytes()).hexdigest(),
        "parameters": values.tolist(),
    }


def faulty(true_summarise: Any, call: int) -> Any:
    calls: list[int] = []

    def summarise(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        value = true_summarise(*arguments, **options)
        if len(calls) == call:
            raise CholeskyError("the kernel matrix of layer 1 is not positive definite.")
        return value

    return summarise


if __name__ == "__main__":
    rank, world, directory = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    meeting_point = f"file://{directory / 'meeting_point'}"
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=world)
    results = {case: run(case, rank, world, directory) for case in CASES}
    (directory / f"rank{rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()
