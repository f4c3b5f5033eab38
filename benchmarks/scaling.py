"""How the cost of a step grows: process, width, depth and rows, beside the paper's runtime table.

    python benchmarks/scaling.py

Everything that is compared is timed in turn in one process; the table reports ratios of medians
and, for rows and depth, the slope of log time against log size.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
from step import alternate, environment, make_step

# Published seconds per epoch on boston (paper, runtime table), depth: (dwp, dgp).
PUBLISHED = {2: (0.214, 0.318), 5: (0.351, 0.668)}


def slope(sizes: list[int], times: list[float]) -> float:
    """Least-squares slope of log time against log size."""
    x = [math.log(size) for size in sizes]
    y = [math.log(time) for time in times]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ratios and slopes of step times.")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/scaling.json"))
    options = parser.parse_args()
    torch.set_num_threads(2)
    dtype, repeats = torch.float64, options.repeats
    record: dict[str, object] = {"environment": environment()}

    print("| depth | dwp (ms) | dgp (ms) | dsvi (ms) | dwp/dgp | published dwp/dgp | dwp/dsvi |")
    print("|---|---|---|---|---|---|---|")
    for depth, (published_dwp, published_dgp) in PUBLISHED.items():
        steps = [make_step(p, depth=depth, dtype=dtype) for p in ("dwp", "dgp", "dsvi")]
        dwp, dgp, dsvi = alternate(steps, repeats)
        record[f"processes_depth_{depth}"] = {"dwp": dwp, "dgp": dgp, "dsvi": dsvi}
        print(
            f"| {depth} | {1e3 * dwp:.1f} | {1e3 * dgp:.1f} | {1e3 * dsvi:.1f} | {dwp / dgp:.2f} "
            f"| {published_dwp / published_dgp:.2f} | {dwp / dsvi:.2f} |",
            flush=True,
        )

    narrow, wide = alternate(
        [make_step("dwp", depth=5, dtype=dtype, width=width) for width in (4, 32)], repeats
    )
    record["width_32_over_4"] = wide / narrow
    print(f"\nwidth 32 over width 4, depth 5: {wide / narrow:.2f}")

    depths = [2, 4, 8]
    times = alternate([make_step("dwp", depth=d, dtype=dtype) for d in depths], repeats)
    record["depth_slope"] = slope(depths, times)
    print(f"slope in depth over {depths}: {slope(depths, times):.3f}")

    sizes = [1000, 4000, 16000, 32000]
    times = alternate(
        [make_step("dwp", depth=2, dtype=dtype, num_rows=n) for n in sizes], max(3, repeats // 3)
    )
    record["rows_slope"] = slope(sizes, times)
    print(f"slope in rows over {sizes}: {slope(sizes, times):.3f}")

    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
