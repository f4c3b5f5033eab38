"""Experiments: sweeps over data sets, splits, processes and depths that survive anything.

A sweep is a list of :class:`RunSpec`, carried out by an engine (on this machine or on a cluster)
and written down in a :class:`ResultsStore`. ``deepwishart uci run`` puts these together.
"""

from deepwishart.experiments.engines import Engine, LocalEngine, RayEngine
from deepwishart.experiments.progress import SweepProgress
from deepwishart.experiments.spec import Execution, RunSpec, Settings, expand, parse_numbers
from deepwishart.experiments.store import ResultsError, ResultsStore
from deepwishart.experiments.sweep import Tally, pending, run_sweep

__all__ = [
    "Engine",
    "Execution",
    "LocalEngine",
    "RayEngine",
    "ResultsError",
    "ResultsStore",
    "RunSpec",
    "Settings",
    "SweepProgress",
    "Tally",
    "expand",
    "parse_numbers",
    "pending",
    "run_sweep",
]
