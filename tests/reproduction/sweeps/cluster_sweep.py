"""A sweep on a Ray cluster of several nodes, one of which is killed; prints what happened as JSON.

A program of its own: Ray has its own ideas about warnings, signals and standard output.
"""

import json
import sys

from ray.cluster_utils import Cluster

from deepwishart.cli import app
from deepwishart.reproduction import datasets
from deepwishart.reproduction.sweeps import (
    Execution,
    RayEngine,
    ResultsStore,
    RunSpec,
    Settings,
    run_sweep,
)
from deepwishart.reproduction.sweeps.engine import Broken, Lost, Started, Stepped

SPECS = [RunSpec("yacht", split, "dgp", 2, protocol="fast") for split in range(3)]


def main(out: str) -> None:
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    by_name = {f"node {node.node_id[:8]}": node for node in nodes}
    where: dict[RunSpec, str] = {}
    killed: list[str] = []
    steps: dict[RunSpec, list[int]] = {}
    events = []

    def kill_one_node(event) -> None:
        events.append(event)
        if isinstance(event, Started):
            where[event.spec] = event.where
            steps[event.spec] = []
        if isinstance(event, Stepped):
            steps[event.spec].append(event.step)
            if not killed and event.step > 50:
                killed.append(where[event.spec])
                cluster.remove_node(by_name[killed[0]], allow_graceful=False)

    store = ResultsStore(out)
    with store.writing():
        engine = RayEngine(
            Settings({"num_inducing": 6}, max_iter=400, elbo_samples=20, test_samples=5),
            store,
            {"yacht": datasets.load("yacht")},
            address=cluster.address,
            execution=Execution(checkpoint_every=25),
        )
        num_workers = engine.num_workers
        outcome = run_sweep(SPECS, store, engine, kill_one_node)
    print(
        json.dumps(
            {
                "num_workers": num_workers,
                "killed": killed,
                "where": {spec.split: name for spec, name in where.items()},
                "lost": [event.spec.split for event in events if isinstance(event, Lost)],
                "broken": [event.reason for event in events if isinstance(event, Broken)],
                "first_steps": {spec.split: found[:1] for spec, found in steps.items()},
                "success": outcome.success,
                "command": command(cluster.address, f"{out}-command"),
            }
        )
    )
    cluster.shutdown()


def command(address: str, out: str) -> int:
    """Exit code of a small sweep from the command line, on the nodes that are left."""
    asked = ["--datasets", "yacht", "--processes", "dgp", "--depths", "1", "--splits", "0"]
    asked += ["--protocol", "fast", "--max-iter", "3", "--inducing", "6", "--elbo-samples", "20"]
    try:
        app(["uci", "run", *asked, "--engine", "ray", "--address", address, "--out", out])
    except SystemExit as end:
        return int(end.code or 0)
    return -1


if __name__ == "__main__":
    main(sys.argv[1])
