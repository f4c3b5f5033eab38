"""Experiments: sweeps over data sets, splits, processes and depths that survive anything.

A sweep is a list of :class:`RunSpec`, carried out by an engine (on this machine or on a cluster)
and written down in a :class:`ResultsStore`. ``deepwishart uci run`` puts these together.
"""

from deepwishart.reproduction.sweeps.engine import Engine
from deepwishart.reproduction.sweeps.local import LocalEngine
from deepwishart.reproduction.sweeps.progress import SweepProgress
from deepwishart.reproduction.sweeps.ray import RayEngine
from deepwishart.reproduction.sweeps.spec import (
    Execution,
    RunSpec,
    Settings,
    expand,
    parse_numbers,
    settings_version,
)
from deepwishart.reproduction.sweeps.store import ResultsError, ResultsStore
from deepwishart.reproduction.sweeps.sweep import SweepOutcome, pending, run_sweep

__all__ = [
    "Engine",
    "Execution",
    "LocalEngine",
    "RayEngine",
    "ResultsError",
    "ResultsStore",
    "RunSpec",
    "Settings",
    "SweepOutcome",
    "SweepProgress",
    "expand",
    "parse_numbers",
    "pending",
    "run_sweep",
    "settings_version",
]
