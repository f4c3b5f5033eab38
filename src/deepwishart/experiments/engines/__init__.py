"""Engines: where the runs of a sweep are carried out."""

from deepwishart.experiments.engines.events import (
    Broken,
    Engine,
    Event,
    Finished,
    Lost,
    Started,
    Stepped,
)
from deepwishart.experiments.engines.local import LocalEngine
from deepwishart.experiments.engines.ray import RayEngine

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
