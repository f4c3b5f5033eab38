"""Data: the nine UCI regression sets of the paper, with the published splits."""

from deepwishart.reproduction.datasets.catalogue import CATALOGUE, Entry, names
from deepwishart.reproduction.datasets.dataset import Dataset, Split, load
from deepwishart.reproduction.datasets.source import DataFileError, Source

__all__ = ["CATALOGUE", "DataFileError", "Dataset", "Entry", "Source", "Split", "load", "names"]
