"""Experiments: sweeps over data sets, splits, processes and depths that survive anything.

A sweep is a list of :class:`RunSpec`, carried out by an engine (on this machine or on a cluster)
and written down in a :class:`ResultsStore`. ``deepwishart uci run`` puts these together.
"""

from deepwishart.reproduction.sweeps.engine import Engine, run_sweep
from deepwishart.reproduction.sweeps.local import LocalEngine
from deepwishart.reproduction.sweeps.ray import RayEngine
from deepwishart.reproduction.sweeps.spec import (
    Execution,
    RunSpec,
    Settings,
    expand,
    parse_numbers,
    settings_version,
)
from deepwishart.reproduction.sweeps.store import ResultsError, ResultsStore, pending

__all__ = [
    "Engine",
    "Execution",
    "LocalEngine",
    "RayEngine",
    "ResultsError",
    "ResultsStore",
    "RunSpec",
    "Settings",
    "expand",
    "parse_numbers",
    "pending",
    "run_sweep",
    "settings_version",
]
