"""Engines: where the runs of a sweep are carried out."""

from deepwishart.reproduction.sweeps.engines.events import (
    Broken,
    Engine,
    Event,
    Finished,
    Lost,
    Started,
    Stepped,
)
from deepwishart.reproduction.sweeps.engines.local import LocalEngine
from deepwishart.reproduction.sweeps.engines.ray import RayEngine

__all__ = [
    "Broken",
    "Engine",
    "Event",
    "Finished",
    "LocalEngine",
    "Lost",
    "RayEngine",
    "Started",
    "Stepped",
]
