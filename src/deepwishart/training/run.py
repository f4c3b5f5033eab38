"""How long and how to train, and the training run itself."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from deepwishart.model import DeepKernelProcess
from deepwishart.training.checkpoint import CheckpointStore
from deepwishart.training.deterministic import is_deterministic, train_deterministic
from deepwishart.training.early_stopping import Plateau
from deepwishart.training.history import History
from deepwishart.training.loop import train
from deepwishart.training.protocol import Protocol

COLLAPSED_ROWS = 20_000  # all rows win at 10,741 and lose at 41,157: benchmarks/minibatch.py
_WORK = 1e8  # samples times inducing points squared times rows of a step on all rows
_PAPER_MIXING = 0.018  # sigmoid(-4), where the paper's experiments start


def model_options(protocol: Protocol | str, num_rows: int, output: str = "auto") -> dict[str, Any]:
    """Options of :func:`deepwishart.build` that go with a protocol.

    The paper's protocol has the paper's output layer and starting value of q. Otherwise the output
    layer, if ``"auto"``, is collapsed as long as all rows are visited at every step.

    >>> model_options("fast", 500), model_options("paper", 500)["output"]
    ({'output': 'collapsed'}, 'inducing')
    """
    paper = protocol == "paper"
    if output == "auto":
        small = num_rows <= COLLAPSED_ROWS
        whole = not isinstance(protocol, Protocol) or (protocol.batch_size or num_rows) >= num_rows
        output = "collapsed" if small and whole and not paper else "inducing"
    return {"output": output, "mixing": _PAPER_MIXING} if paper else {"output": output}


def adjust_protocol(
    protocol: Protocol | str,
    num_rows: int,
    *,
    max_iter: int | None = None,
    learning_rate: float | None = None,
    batch_size: int | str | None = "auto",
    kl_anneal: int | None = None,
    num_samples: int | None = None,
    output: str = "inducing",
    num_inducing: int = 100,
) -> Protocol:
    """A protocol for ``num_rows`` rows with some of its numbers changed.

    What is ``None`` stays as the protocol has it. With another ``max_iter`` the annealing, and
    with another ``learning_rate`` the final learning rate, keep their proportion to it.

    Args:
        protocol: a protocol, or the name of a ready-made one.
        num_rows: number of training rows.
        batch_size: rows per step; ``"auto"``: the protocol's; ``None``: all.
        num_samples: posterior samples per step. A named protocol on all rows of a large data set,
            or with many inducing points, takes fewer than its own, since these make up for samples.
        output: the model's output layer; ``"collapsed"`` needs all rows at every step.
        num_inducing: the model's inducing points.

    >>> adjust_protocol("paper", 300, max_iter=2000).kl_anneal
    100
    """
    base = Protocol.named(protocol, num_rows) if isinstance(protocol, str) else protocol
    changes: dict[str, Any] = {}
    if output == "collapsed":
        base, batch_size = base.replace(batch_size=None), None
        if isinstance(protocol, str):  # fewer samples of more rows: about as much work per step
            affordable = int(_WORK / (num_rows * max(num_inducing, 1) ** 2))
            even = affordable - affordable % 2  # threads share samples: no odd one out
            changes["num_samples"] = min(base.num_samples, max(2, even))
    if max_iter is not None:
        anneal = round(base.kl_anneal * max_iter / base.max_iter)
        changes |= {"max_iter": max_iter, "kl_anneal": anneal}
    if learning_rate is not None:
        final = base.final_learning_rate * learning_rate / base.learning_rate
        changes |= {"learning_rate": learning_rate, "final_learning_rate": final}
    given = {"kl_anneal": kl_anneal, "num_samples": num_samples}
    changes |= {name: value for name, value in given.items() if value is not None}
    size = base.batch_size if isinstance(batch_size, str) else batch_size
    changes["batch_size"] = None if size is None or size >= num_rows else size
    return base.replace(**changes)


def run_training(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    protocol: Protocol,
    *,
    checkpoints: CheckpointStore | None = None,
    early_stopping: bool = False,
    deterministic: bool = False,
    **options: Any,
) -> History:
    """Train ``model`` in place, from the newest checkpoint if there is one.

    Data are ``(N, num_features)`` and ``(N, D)``, standardised; other arguments are those of
    :func:`deepwishart.training.train`. With ``early_stopping``, the learning rate falls, and
    training ends, when the bound has stopped rising. With ``deterministic``, a model in which
    nothing is random is trained by L-BFGS, which takes seconds and has no checkpoints.

    >>> import torch
    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> len(run_training(model, X, X.sin(), adjust_protocol("fast", len(X), max_iter=3)))
    3
    """
    if deterministic and is_deterministic(model):
        kept = {name: options[name] for name in ("history", "progress") if name in options}
        return train_deterministic(model, X, y, max_iter=min(protocol.max_iter, 500), **kept)
    options["plateau"] = Plateau() if early_stopping else None
    return train(
        model, X, y, protocol, checkpoints=checkpoints, resume=checkpoints is not None, **options
    )


def checkpoint_store(
    directory: str | os.PathLike[str],
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    protocol: Protocol,
    seed: int,
) -> CheckpointStore:
    """A directory of its own for every combination of data, initial model, protocol and seed: the
    same run started again resumes, a different one cannot pick its checkpoints up by mistake.

    >>> import torch
    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model, protocol = dw.build("dwp", X, X, num_inducing=5), adjust_protocol("fast", len(X))
    >>> first, other = (checkpoint_store("runs", model, X, X, protocol, s) for s in (0, 1))
    >>> first.directory == other.directory
    False
    """
    digest = hashlib.sha256(repr((sorted(asdict(protocol).items()), seed)).encode())
    for name, tensor in [("X", X), ("y", y), *model.state_dict().items()]:
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return CheckpointStore(Path(directory) / digest.hexdigest()[:16])
