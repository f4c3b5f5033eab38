"""What a gradient step costs, in units of the machine's own matrix multiply.

    python benchmarks/step.py    # everything: four processes, two dtypes, depths, threads
    python benchmarks/step.py --processes dwp --threads 2

This is ``deepwishart bench step``, with its options, and keeps the results. What is measured, and
how, is in ``deepwishart.benchmark``.
"""

from __future__ import annotations

import sys

from deepwishart.cli import app

if __name__ == "__main__":
    kept = ["--out", "benchmarks/results/step.json"]  # a later --out on the command line wins
    app(["bench", "step", *kept, *sys.argv[1:]], prog_name="deepwishart")
