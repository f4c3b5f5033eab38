"""Two processes train the model that one process trains. This file is their script as well."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import deepwishart as dw
from deepwishart.bound import Processes
from deepwishart.likelihoods import Categorical, HeteroscedasticGaussian, Poisson
from deepwishart.model import ProcessSample
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.training import CheckpointStore, History, Protocol, train

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TIMEOUT = 600
CASES: dict[str, dict[str, Any]] = {
    "minibatches": {"process": "dwp", "batch_size": 7},
    "full batch": {"process": "diwp"},
    "collapsed": {"process": "dwp", "output": "collapsed"},
    "collapsed, own inducing points": {"process": "dsvi", "output": "collapsed"},
    "own inducing points": {"process": "dsvi", "batch_size": 8},
    "classes": {"process": "dwp", "batch_size": 7, "likelihood": Categorical(3)},
    "counts": {"process": "dwp", "batch_size": 7, "likelihood": Poisson()},
    "a part for each latent": {"process": "dsvi", "likelihood": HeteroscedasticGaussian()},
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
    protocol = Protocol(16, 1e-2, 1e-3, "flat", kl_anneal=8, num_samples=3)
    protocol = protocol.replace(batch_size=options.get("batch_size"))

    def new_model() -> dw.DeepKernelProcess:
        # Only the leader's model and seed count.
        chosen = {name: options[name] for name in ("output", "likelihood") if name in options}
        return dw.build(options["process"], X, y, depth=3, num_inducing=5, seed=rank, **chosen)

    store, length = None, options.get("stop_after")
    if length is not None:
        store = CheckpointStore(directory / f"{case} {world}")
        first = {"checkpoints": store, "should_stop": lambda history: len(history) == length}
        train(new_model(), X, y, protocol, **first)

    def stop(history: History) -> bool:
        return options["stop_rank"] == rank and len(history) == 6

    model, events = new_model(), []
    true_summarise = ProcessSample.summarise
    if "fault_at" in options and rank == world - 1:
        ProcessSample.summarise = faulty(true_summarise, options["fault_at"])
    history = train(
        model,
        X,
        y,
        protocol,
        seed=rank,
        checkpoints=store,
        resume=store is not None,
        progress=events.append,
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


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    children = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), "2", directory],
            env=environment(),
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    try:
        for child in children:
            _, errors = child.communicate(timeout=TIMEOUT)
            assert child.returncode == 0, errors.decode()
    finally:
        for child in children:
            child.kill()
    return [json.loads((directory / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one(ranks, case, tmp_path):
    alone = run(case, rank=0, world=1, directory=tmp_path)
    first, second = ranks[0][case], ranks[1][case]
    if case == "stopped by one rank":
        assert first["stopped_by"] == second["stopped_by"] == "early_stopping"
        assert len(first["elbo"]) == 6
        alone["elbo"], alone["parameters"] = alone["elbo"][:6], first["parameters"]
    else:
        assert first["stopped_by"] == second["stopped_by"] == "max_iter"
    # Sums in another order differ by rounding, which Adam's first steps enlarge.
    assert first["elbo"] == pytest.approx(alone["elbo"], abs=1e-8)
    assert first["parameters"] == pytest.approx(alone["parameters"], abs=1e-6)
    assert first["recoveries"] == second["recoveries"] == alone["recoveries"]
    # All ranks of a machine make the same of the same sums, or they would drift apart.
    assert second["elbo"] == first["elbo"] and second["digest"] == first["digest"]
    assert first["events"] > 0 and second["events"] == 0  # one bar is enough


def test_faults_were_recovered_and_runs_resumed(ranks):
    assert ranks[0]["a fault on one rank"]["recoveries"] == [4]
    assert ranks[0]["resumed"]["events"] == 16 - 9


@pytest.mark.parametrize(("num_rows", "world"), [(10, 3), (2, 4), (7, 7), (1, 2)])
def test_shares_cover_the_batch_and_differ_by_one_row_at_most(num_rows, world):
    """Processes that have no row of their own come last and follow the first row."""
    shares = [Processes(rank, world).rows(num_rows) for rank in range(world)]
    assert shares[num_rows:] == [slice(0, 1)] * (world - num_rows)
    rows = torch.arange(num_rows)
    assert torch.equal(torch.cat([rows[share] for share in shares[:num_rows]]), rows)
    sizes = [share.stop - share.start for share in shares[:num_rows]]
    assert max(sizes) - min(sizes) <= 1


def test_what_processes_cannot_share(data, make_model, protocol):
    options = {"num_data": len(data[0]), "joint": True, "processes": Processes(0, 2)}
    with pytest.raises(ValueError, match="in one process"):
        dw.elbo(make_model(), *data, **options)
    with pytest.raises(ValueError, match="init_process_group"):
        train(make_model(), *data, protocol, process_group=object())


def test_the_example_runs_under_torchrun(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    example = [ROOT / "examples" / "train_distributed.py", "--steps", "3"]
    finished = subprocess.run(
        [*torchrun, "--nproc_per_node", "2", *example, "--checkpoints", tmp_path],
        env=environment(),
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr.decode()
    assert finished.stdout.decode().count("ELBO per row after 3 steps") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000003.safetensors"]


if __name__ == "__main__":
    rank, world, directory = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    meeting_point = f"file://{directory / 'meeting_point'}"
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=world)
    results = {case: run(case, rank, world, directory) for case in CASES}
    (directory / f"rank{rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()
