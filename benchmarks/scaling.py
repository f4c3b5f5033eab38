"""How the cost of a step grows: process, width, depth, rows, inducing points and samples.

    python benchmarks/scaling.py

Everything that is compared is timed in turn in one process; the tables report ratios of medians,
the first beside the paper's runtime table. For rows and depth there is the slope of log time
against log size. The first layer is cheaper than the others, so that time may be a line in depth
and yet have a slope other than one: for depth there is the line as well, and how far off it is.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from deepwishart.benchmark import BOSTON, Shape, alternate, environment, make_step

# Published seconds per epoch on boston (paper, runtime table), depth: (dwp, dgp).
PUBLISHED = {2: (0.214, 0.318), 5: (0.351, 0.668)}


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Intercept and slope of the least-squares line."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    slope = above / sum((a - mean_x) ** 2 for a in x)
    return mean_y - slope * mean_x, slope


def log_slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Slope of log time against log size."""
    return line([math.log(size) for size in sizes], [math.log(time) for time in times])[1]


def depth_line(depths: Sequence[int], times: Sequence[float]) -> dict[str, float]:
    """The line ``time = a + b * depth`` in seconds, and its largest relative deviation."""
    a, b = line(depths, times)
    deviations = [abs(a + b * d - time) / time for d, time in zip(depths, times, strict=True)]
    return {"a": a, "b": b, "largest_relative_deviation": max(deviations)}


def relative_times(field: str, sizes: Sequence[int], repeats: int) -> dict[int, float]:
    """Times of a deep Wishart process of depth 5 for three sizes, over that of the middle one."""
    shapes = [replace(BOSTON, **{field: size}) for size in sizes]
    steps = [make_step("dwp", depth=5, dtype=torch.float64, shape=shape) for shape in shapes]
    times = alternate(steps, repeats)
    return {size: time / times[1] for size, time in zip(sizes, times, strict=True)}


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

    depths = [2, 3, 4, 6, 8]
    times = alternate([make_step("dwp", depth=d, dtype=dtype) for d in depths], repeats)
    fit = depth_line(depths, times)
    record["depth_times"] = dict(zip(depths, times, strict=True))
    record["depth_slope"], record["depth_line"] = log_slope(depths, times), fit
    print(f"slope in depth over {depths}: {log_slope(depths, times):.3f}")
    print(
        f"line in depth: {1e3 * fit['a']:.1f} ms + {1e3 * fit['b']:.1f} ms * depth, "
        f"off by at most {fit['largest_relative_deviation']:.1%}",
        flush=True,
    )

    sizes = [1000, 4000, 16000, 32000]
    steps = [make_step("dwp", depth=2, dtype=dtype, shape=Shape(num_rows=n)) for n in sizes]
    times = alternate(steps, max(3, repeats // 3))
    record["rows_slope"] = log_slope(sizes, times)
    print(f"slope in rows over {sizes}: {log_slope(sizes, times):.3f}\n", flush=True)

    print("| depth 5, time over the middle one | | | |\n|---|---|---|---|")
    for field, sizes in {"num_inducing": [50, 100, 200], "num_samples": [5, 10, 20]}.items():
        relative = relative_times(field, sizes, repeats)
        record[f"{field}_relative"] = relative
        cells = (f"{size}: {time:.2f}" for size, time in relative.items())
        print(f"| {field} | {' | '.join(cells)} |", flush=True)

    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
