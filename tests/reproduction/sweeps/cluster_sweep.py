"""A sweep on a Ray cluster of several nodes, one of which is killed; prints what happened as JSON.

A program of its own: Ray has its own ideas about warnings, signals and standard output.
"""

import json
import sys
import threading
import time

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
from deepwishart.reproduction.sweeps.engine import Lost

SPECS = [RunSpec("yacht", split, "dgp", 2, protocol="fast") for split in range(3)]


def main(out: str) -> None:
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    store, events = ResultsStore(out), []

    def kill_one_node() -> None:
        """As soon as a run on each of the nodes has a checkpoint."""
        while len(list(store.directory.glob("checkpoints/*/step-*25.safetensors"))) < 2:
            time.sleep(0.02)
        cluster.remove_node(nodes[0], allow_graceful=False)

    threading.Thread(target=kill_one_node, daemon=True).start()
    with store.writing():
        engine = RayEngine(
            Settings({"num_inducing": 6}, max_iter=800, elbo_samples=20, test_samples=5),
            store,
            {"yacht": datasets.load("yacht")},
            address=cluster.address,
            execution=Execution(checkpoint_every=25),
        )
        missing = run_sweep(SPECS, store, engine, events.append)
    lost = [event.spec.split for event in events if isinstance(event, Lost)]
    command = run_command(cluster.address, f"{out}-command")
    print(json.dumps({"lost": lost, "missing": list(missing.values()), "command": command}))
    cluster.shutdown()


def run_command(address: str, out: str) -> int:
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
