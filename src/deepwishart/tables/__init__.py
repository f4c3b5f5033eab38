"""Tables in files: CSV and Parquet in, columns of numbers out, and the same again at prediction."""

from deepwishart.tables.columns import Column, TableError
from deepwishart.tables.encoder import TableEncoder
from deepwishart.tables.reading import read_table, stream_table
from deepwishart.tables.targets import read_targets

__all__ = [
    "Column",
    "TableEncoder",
    "TableError",
    "read_table",
    "read_targets",
    "stream_table",
]
