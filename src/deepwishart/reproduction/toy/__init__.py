"""The paper's toy comparison of posteriors in one dimension; ``deepwishart toy`` runs it."""

from deepwishart.reproduction.toy.comparison import ToyData, ToyRun, ToySettings, run_toy, toy_data

__all__ = ["ToyData", "ToyRun", "ToySettings", "run_toy", "toy_data"]
