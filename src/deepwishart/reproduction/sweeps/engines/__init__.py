"""Engines: where the runs of a sweep are carried out."""

from deepwishart.reproduction.sweeps.engines.events import Engine
from deepwishart.reproduction.sweeps.engines.local import LocalEngine
from deepwishart.reproduction.sweeps.engines.ray import RayEngine

__all__ = ["Engine", "LocalEngine", "RayEngine"]
