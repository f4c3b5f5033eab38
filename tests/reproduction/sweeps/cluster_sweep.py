"""A sweep on a Ray cluster of several nodes, one of which is killed: ``cluster_sweep.py OUT``.

A program of its own: Ray has its own ideas about warnings, signals and standard output.
"""

import sys
import threading
import time
from pathlib import Path

from ray.cluster_utils import Cluster

from deepwishart.cli import app

ASKED = [
    *("--datasets", "yacht", "--processes", "dgp", "--depths", "2", "--splits", "0-2"),
    *("--protocol", "fast", "--max-iter", "800", "--inducing", "6", "--checkpoint-every", "25"),
    *("--elbo-samples", "20", "--test-samples", "5", "--engine", "ray"),
]


def main(out: str) -> None:
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]

    def kill_one_node() -> None:
        """As soon as a run on each of the nodes has a checkpoint."""
        while len(list(Path(out).glob("checkpoints/*/step-*25.safetensors"))) < 2:
            time.sleep(0.02)
        cluster.remove_node(nodes[0], allow_graceful=False)

    threading.Thread(target=kill_one_node, daemon=True).start()
    try:
        app(["uci", "run", *ASKED, "--address", cluster.address, "--out", out])
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
