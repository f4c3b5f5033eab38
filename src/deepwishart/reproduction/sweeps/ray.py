"""Runs on a cluster, with Ray (``pip install 'deepwishart[ray]'``)."""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import Any

from deepwishart.reproduction.sweeps.engine import Engine, Event, carry_out
from deepwishart.reproduction.sweeps.spec import RunSpec


class RayEngine(Engine):
    """Ray tasks, one per run, on whatever nodes a cluster has.

    Data travel to the nodes, results travel back, and only this process writes them down. Nodes
    need this package, nothing else. A run whose node is lost is tried again; it resumes from its
    last checkpoint if the results directory is on a disk that nodes share, and starts from the
    beginning otherwise.

    Args:
        *common: as for any :class:`Engine`; a run asks for as many CPUs as threads.
        address: as for ``ray.init``; ``"auto"`` finds the cluster that this machine belongs to.
        num_workers: largest number of runs in flight; as many as the cluster holds if ``None``.
        gpus_per_run: GPUs that a run asks for; may be a fraction.
        **options: as for any engine.

    Raises:
        ValueError: Ray is not installed.
    """

    def __init__(
        self,
        *common: Any,
        address: str | None = "auto",
        num_workers: int | None = None,
        gpus_per_run: float = 0.0,
        **options: Any,
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise ValueError(
                "The Ray engine needs Ray: pip install 'deepwishart[ray]', or use --engine local."
            ) from error
        # Ray keeps what does not fit.
        super().__init__(*common, num_workers=num_workers or math.inf, **options)
        self._ray, self._leave_running = ray, ray.is_initialized()
        if not self._leave_running:
            try:
                ray.init(address=address, log_to_driver=False)
            except ConnectionError as error:
                raise ValueError(
                    f"No Ray cluster was found at {address!r}: {error} Start one with 'ray start "
                    "--head', or name its address with --address."
                ) from error
        self._data = {name: ray.put(dataset) for name, dataset in self._datasets.items()}
        self._task = ray.remote(carry_out).options(
            num_cpus=self._execution.threads, num_gpus=gpus_per_run, max_retries=0
        )
        self._flights: dict[Future[Any], Any] = {}

    def _begin(self, spec: RunSpec) -> Future[Event]:
        folder, data = self._store.checkpoint_dir(spec), self._data[spec.dataset]
        reference = self._task.remote(spec, self._settings, data, folder, self._execution)
        future: Future[Event] = reference.future()
        self._flights[future] = reference
        return future

    def _end(self, flight: Future[Event], spec: RunSpec) -> Event:
        del self._flights[flight]
        try:
            return flight.result()
        except self._ray.exceptions.RayError as error:  # its worker or node is gone
            return Event(spec, reason=f"{type(error).__name__} on the cluster", again=True)

    def _close(self) -> None:
        for reference in self._flights.values():
            self._ray.cancel(reference, force=True)
        if not self._leave_running:
            self._ray.shutdown()
