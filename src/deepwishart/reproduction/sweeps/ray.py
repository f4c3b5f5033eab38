"""Runs on a cluster, with Ray (``pip install 'deepwishart[ray]'``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from deepwishart.reproduction.datasets import Dataset
from deepwishart.reproduction.sweeps.engine import Board, Broken, Engine, Finished, Lost, carry_out
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings
from deepwishart.reproduction.sweeps.store import ResultsStore


class RayEngine(Engine):
    """Ray tasks, one per run, on whatever nodes a cluster has.

    Data travel to the nodes, results travel back, and only this process writes them down. Nodes
    need this package, nothing else. A run whose node is lost is tried again; it resumes from its
    last checkpoint if the results directory is on a disk that nodes share, and starts from the
    beginning otherwise.

    Args:
        settings, execution: what all runs have in common; a run asks for as many CPUs as threads.
        store: where runs keep checkpoints.
        datasets: data sets by name.
        address: as for ``ray.init``; ``"auto"`` finds the cluster that this machine belongs to.
        num_workers: largest number of runs in flight; as many as the cluster holds if ``None``.
        gpus_per_run: GPUs that a run asks for; may be a fraction.

    Raises:
        ValueError: Ray is not installed.
    """

    def __init__(
        self,
        settings: Settings,
        store: ResultsStore,
        datasets: Mapping[str, Dataset],
        *,
        address: str | None = "auto",
        num_workers: int | None = None,
        execution: Execution | None = None,
        gpus_per_run: float = 0.0,
    ) -> None:
        super().__init__(settings, store, execution)
        self._datasets, self._gpus = datasets, gpus_per_run
        self._most = num_workers or math.inf  # Ray keeps what does not fit
        ray = _import_ray()
        self._leave_running = ray.is_initialized()
        if not self._leave_running:
            try:
                ray.init(address=address, log_to_driver=False)
            except ConnectionError as error:
                raise ValueError(
                    f"No Ray cluster was found at {address!r}: {error} Start one with 'ray start "
                    "--head', or name its address with --address."
                ) from error

    @property
    def num_workers(self) -> int:
        """Number of runs that the cluster can hold at present."""
        resources = _import_ray().cluster_resources()
        fitting = [resources.get("CPU", 0.0) / self._execution.threads]
        if self._gpus:
            fitting.append(resources.get("GPU", 0.0) / self._gpus)
        return int(min(max(1, min(fitting)), self._most))

    def _open(self) -> Board:
        """On this very node, as long as the sweep lives."""
        from ray.util.queue import Queue
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = _import_ray()
        self._data = {name: ray.put(dataset) for name, dataset in self._datasets.items()}
        self._task = ray.remote(_work).options(
            num_cpus=self._execution.threads, num_gpus=self._gpus, max_retries=0
        )
        self._flights: dict[Future[Any], Any] = {}
        node = ray.get_runtime_context().get_node_id()
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        self._board = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
        board: Board = self._board
        return board

    def _begin(self, spec: RunSpec) -> Future[Finished | Broken]:
        folder, data = self._store.checkpoint_dir(spec), self._data[spec.dataset]
        reference = self._task.remote(
            spec, self._settings, data, folder, self._execution, self._board
        )
        future: Future[Finished | Broken] = reference.future()
        self._flights[future] = reference
        return future

    def _end(self, flight: Future[Finished | Broken], spec: RunSpec) -> Finished | Lost | Broken:
        del self._flights[flight]
        try:
            return flight.result()
        except _import_ray().exceptions.RayError as error:  # its worker or node is gone
            return Lost(spec, f"{type(error).__name__} on the cluster")

    def _close(self) -> None:
        ray = _import_ray()
        for reference in self._flights.values():
            ray.cancel(reference, force=True)
        self._board.shutdown(force=True)
        if not self._leave_running:
            ray.shutdown()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            "The Ray engine needs Ray: pip install 'deepwishart[ray]', or use --engine local."
        ) from error
    return ray


def _work(
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    checkpoint_dir: Path,
    execution: Execution,
    board: Any,
) -> Finished | Broken:
    """One run, on a node of the cluster."""
    where = f"node {_import_ray().get_runtime_context().get_node_id()[:8]}"
    # Not board.put, which waits: Ray takes a run's CPU for another one while it waits.
    post = board.actor.put_nowait.remote
    return carry_out(spec, settings, dataset, checkpoint_dir, execution, where, post)
