"""Tables in files: CSV and Parquet in, columns of numbers out, and the same again at prediction."""

from deepwishart.tables.columns import Column, TableError, read_targets
from deepwishart.tables.encoder import TableEncoder
from deepwishart.tables.reading import read_table, stream_table

__all__ = ["Column", "TableEncoder", "TableError", "read_table", "read_targets", "stream_table"]
