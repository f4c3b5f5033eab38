"""Several processes
=================

Train one model on several processes, each with a share of every batch. ::

    torchrun --nproc_per_node 2 examples/train_distributed.py --steps 500

Every process runs this script. The result is that of a single process, up to rounding. With
--checkpoints, running the same command again continues where the last run stopped.
"""

import argparse
import os

import torch
import torch.distributed as dist

import deepwishart as dw
from deepwishart.training import CheckpointStore, Protocol, make_progress, train


def make_data(num_rows: int = 4_000) -> tuple[torch.Tensor, torch.Tensor]:
    """A smooth function of five columns with noise; every process makes the same."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(num_rows, 5, generator=generator, dtype=torch.float64)
    noise = torch.randn(num_rows, 1, generator=generator, dtype=torch.float64)
    y = (2 * X[:, :1]).sin() * X[:, 1:2] + X[:, 2:3].abs() + 0.1 * noise
    return X, (y - y.mean()) / y.std()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--checkpoints", help="directory to save the run in")
    options = parser.parse_args()

    if "WORLD_SIZE" in os.environ:  # set by torchrun
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank() if dist.is_initialized() else 0
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))

    X, y = (values.to(device) for values in make_data())
    model = dw.build("dwp", X, y, depth=2, num_inducing=50)
    protocol = Protocol.named("fast", len(X)).replace(max_iter=options.steps)
    store = CheckpointStore(options.checkpoints) if options.checkpoints else None
    with make_progress(verbose=int(rank == 0), total=options.steps) as progress:
        history = train(
            model, X, y, protocol, checkpoints=store, resume=store is not None, progress=progress
        )

    if rank == 0:
        print(f"ELBO per row after {len(history)} steps: {history.elbo_smoothed(100)[-1]:.3f}")
    if dist.is_initialized():
        dist.barrier()  # no process leaves while another still waits for it
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
