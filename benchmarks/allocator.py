"""Is keeping freed memory worth a setting of the whole process? Steps with and without, in turn.

    python benchmarks/allocator.py

Loading native code asks glibc to keep freed memory (``mallopt``). Processes that do and that do not
take turns; times are in units of a 1000 by 1000 product timed beside them, so that noise hits both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from deepwishart.benchmark import environment

OUT = Path("benchmarks/results/allocator.json")
ROUNDS = 5
SCRIPT = """
import json, sys, torch
from deepwishart import native
if sys.argv[1] == "returned":
    native._keep_freed_memory = lambda: None
from deepwishart.benchmark import measure
found = {}
for depth in (2, 5):
    (one,) = measure("dwp", depth=depth, dtypes=[torch.float64], threads=2, repeats=15)
    found[depth] = one.ratio
print(json.dumps(found))
"""


def main() -> None:
    ratios: dict[str, dict[str, list[float]]] = {"kept": {}, "returned": {}}
    for _ in range(ROUNDS):
        for kind, own in ratios.items():
            command = [sys.executable, "-c", SCRIPT, kind]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            for depth, ratio in json.loads(done.stdout).items():
                own.setdefault(depth, []).append(ratio)
    print("| depth | kept | returned | returned over kept |\n|---|---|---|---|")
    for depth in ratios["kept"]:
        kept, returned = (statistics.median(ratios[kind][depth]) for kind in ratios)
        print(f"| {depth} | {kept:.2f} | {returned:.2f} | {returned / kept:.2f} |")
    OUT.write_text(json.dumps({"environment": environment(), "ratios": ratios}, indent=1) + "\n")


if __name__ == "__main__":
    main()
