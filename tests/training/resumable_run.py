"""Train a small model with frequent checkpoints; killed and started again by test_kill.py."""

import sys

import torch

import deepwishart as dw
from deepwishart.training import CheckpointStore, History, Protocol, train


def run(directory: str | None) -> tuple[dw.DeepKernelProcess, History]:
    """Train from the newest checkpoint in ``directory``, or in one go without a directory."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(30, 2, generator=generator, dtype=torch.float64)
    model = dw.build("dwp", X, X[:, 0].sin(), depth=2, num_inducing=6)
    protocol = Protocol(150, 1e-2, 1e-3, "cosine", kl_anneal=50, num_samples=2, batch_size=11)
    store = CheckpointStore(directory, every_steps=2) if directory else None
    history = train(model, X, X[:, 0].sin(), protocol, checkpoints=store, resume=bool(directory))
    return model, history


if __name__ == "__main__":
    print("ready", flush=True)
    run(sys.argv[1])
