"""Tables in files: text and Parquet in, columns of numbers out, the same again at prediction."""

from deepwishart.tables.columns import Column, holds_classes, read_labels, read_targets
from deepwishart.tables.dialect import Dialect
from deepwishart.tables.encoder import TableEncoder
from deepwishart.tables.problems import Problems, TableError
from deepwishart.tables.reading import TableFile, open_table

__all__ = [
    "Column",
    "Dialect",
    "Problems",
    "TableEncoder",
    "TableError",
    "TableFile",
    "holds_classes",
    "open_table",
    "read_labels",
    "read_targets",
]
