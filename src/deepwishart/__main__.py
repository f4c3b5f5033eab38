"""``python -m deepwishart`` is the command ``deepwishart``."""

from deepwishart.cli import app

app(prog_name="deepwishart")
