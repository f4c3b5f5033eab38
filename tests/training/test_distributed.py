"""Two processes train the model that one process trains."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from deepwishart.training.distributed import Parallel

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("distributed_run.py")
ROOT = SCRIPT.parents[2]
CASES, RUN = (runpy.run_path(str(SCRIPT))[name] for name in ("CASES", "run"))
TIMEOUT = 600


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    children = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(rank), "2", directory],
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
    alone = RUN(case, rank=0, world=1, directory=tmp_path)
    first, second = ranks[0][case], ranks[1][case]
    if case == "stopped by one rank":
        assert first["stopped_by"] == second["stopped_by"] == "early_stopping"
        assert len(first["elbo"]) == 6
        alone["elbo"], alone["parameters"] = alone["elbo"][:6], first["parameters"]
    else:
        assert first["stopped_by"] == second["stopped_by"] == "max_iter"
    assert first["elbo"] == pytest.approx(alone["elbo"], abs=1e-8)
    assert first["parameters"] == pytest.approx(alone["parameters"], abs=1e-6)
    assert first["recoveries"] == second["recoveries"] == alone["recoveries"]
    assert second["elbo"] == first["elbo"] and second["digest"] == first["digest"]
    assert first["events"] > 0 and second["events"] == 0  # one bar is enough


def test_faults_were_recovered_and_runs_resumed(ranks):
    assert ranks[0]["a fault on one rank"]["recoveries"] == [4]
    assert ranks[0]["resumed"]["events"] == 16 - 9


@pytest.mark.parametrize(("num_rows", "world"), [(10, 3), (2, 4), (7, 7), (1, 2)])
def test_shares_cover_the_batch_and_differ_by_one_row_at_most(num_rows, world):
    shares = [Parallel(rank, world).rows(num_rows) for rank in range(world)]
    rows = torch.arange(num_rows)
    assert torch.equal(torch.cat([rows[share] for share in shares]), rows)
    sizes = [share.stop - share.start for share in shares]
    assert max(sizes) - min(sizes) <= 1


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
