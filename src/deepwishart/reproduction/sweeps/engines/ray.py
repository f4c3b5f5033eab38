"""Runs on a cluster, with Ray (``pip install 'deepwishart[ray]'``)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepwishart.reproduction.datasets import Dataset
from deepwishart.reproduction.sweeps.engines.events import Broken, Event, Finished, Lost, count_loss
from deepwishart.reproduction.sweeps.engines.worker import carry_out
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings
from deepwishart.reproduction.sweeps.store import ResultsStore

_POLL_SECONDS = 0.5


class RayEngine:
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
        self._settings, self._store, self._datasets = settings, store, datasets
        self._execution = execution or Execution()
        self._gpus, self._limit = gpus_per_run, num_workers
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
        fit = max(1, int(min(fitting)))
        return fit if self._limit is None else min(fit, self._limit)

    def run(self, specs: Sequence[RunSpec]) -> Generator[Event, None, None]:
        """Carry out all runs; closing the iterator stops those in flight."""
        ray = _import_ray()
        waiting, losses = deque(specs), Counter[RunSpec]()
        data = {name: ray.put(dataset) for name, dataset in self._datasets.items()}
        board = _make_board(ray)
        task = ray.remote(_carry_out).options(
            num_cpus=self._execution.threads, num_gpus=self._gpus, max_retries=0
        )
        flights: dict[Any, RunSpec] = {}
        try:
            while waiting or flights:
                while waiting and (self._limit is None or len(flights) < self._limit):
                    spec = waiting.popleft()
                    folder = self._store.checkpoint_dir(spec)
                    arguments = (spec, self._settings, data[spec.dataset], folder, self._execution)
                    flights[task.remote(*arguments, board)] = spec
                done, _ = ray.wait(list(flights), num_returns=1, timeout=_POLL_SECONDS)
                news, in_flight = board.get_nowait_batch(board.qsize()), set(flights.values())
                # Late news of runs that are over are of no use.
                yield from (event for event in news if event.spec in in_flight)
                for reference in done:
                    event = _result(ray, reference, flights.pop(reference), losses)
                    if isinstance(event, Lost):
                        waiting.append(event.spec)
                    yield event
        finally:
            for reference in flights:
                ray.cancel(reference, force=True)
            board.shutdown(force=True)
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


def _carry_out(
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    checkpoint_dir: Path,
    execution: Execution,
    board: Any,
) -> Finished:
    """One run, on a node of the cluster."""
    where = f"node {_import_ray().get_runtime_context().get_node_id()[:8]}"
    # Not board.put, which waits: Ray takes a run's CPU for another one while it waits.
    post = board.actor.put_nowait.remote
    return carry_out(spec, settings, dataset, checkpoint_dir, execution, where, post)


def _make_board(ray: Any) -> Any:
    """Where runs in flight pin up their progress: on this very node, as long as the sweep lives."""
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})


def _result(ray: Any, reference: Any, spec: RunSpec, losses: Counter[RunSpec]) -> Event:
    try:
        finished: Finished = ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # raised by the run itself
        return Broken(spec, f"{type(error.cause).__name__}: {error.cause}")
    except ray.exceptions.RayError as error:  # its worker or node is gone
        return count_loss(losses, spec, f"{type(error).__name__} on the cluster")
    return finished
