"""Data: the nine UCI regression sets of the paper, with the published splits."""

from deepwishart.datasets.catalogue import CATALOGUE, Entry, names
from deepwishart.datasets.dataset import Dataset, Split, Standardised, load, standardise
from deepwishart.datasets.source import DataFileError, Source

__all__ = [
    "CATALOGUE",
    "DataFileError",
    "Dataset",
    "Entry",
    "Source",
    "Split",
    "Standardised",
    "load",
    "names",
    "standardise",
]
