"""What the toy comparison found: numbers over seeds, sentences about them, pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import torch
from matplotlib.figure import Figure

from deepwishart import plots
from deepwishart._support.files import write_atomically
from deepwishart.reproduction.report.statistics import Estimate, estimate, sign
from deepwishart.reproduction.toy.comparison import ToyRun, ToySettings

NAMES = {"dwp": "deep Wishart process", "dgp": "deep Gaussian process"}
INPUT, TARGET = "x (original units)", "y (standard deviations)"
NUMBERS = {
    "elbo": "ELBO, nats per point",
    "noise": "learned noise, standard deviations of y",
    "stddev_data": "predictive standard deviation among the data, 2 <= abs(x) <= 4",
    "stddev_gap": "predictive standard deviation in the gap, abs(x) < 2",
    "stddev_outside": "predictive standard deviation outside, 4 < abs(x) <= 6",
    "gram_distance": "mean distance of two sampled Gram matrices, relative to their size",
    "kernel_distance": "mean distance of two sampled output correlations, per entry",
}


class Comparison(NamedTuple):
    """One number over seeds: mean and standard error of both processes and of the difference
    ``dwp - dgp`` with the same data, and the number of seeds where it is positive."""

    dwp: Estimate
    dgp: Estimate
    difference: Estimate
    larger: int

    @property
    def verdict(self) -> str:
        """``"larger"``, ``"smaller"`` or ``"undecided"``: differences count where chance alone
        would hardly bring them, and one seed decides nothing."""
        words = {"better": "larger", "worse": "smaller"}
        return words.get(sign(self.difference), "undecided")

    @property
    def share(self) -> str:
        """In how many seeds the DWP's number is the larger one."""
        return f"{self.larger} of {self.difference.num_splits}"


def compare(runs: Sequence[ToyRun]) -> dict[str, Comparison]:
    r"""Means over n seeds with standard errors :math:`s / \sqrt n`; differences are taken seed by
    seed, which removes what the data of a seed do to both processes."""
    found = {}
    for key in NUMBERS:
        dwp, dgp = ([run.numbers[key] for run in runs if run.process == name] for name in NAMES)
        differences = [a - b for a, b in zip(dwp, dgp, strict=True)]
        larger = sum(difference > 0 for difference in differences)
        found[key] = Comparison(estimate(dwp), estimate(dgp), estimate(differences), larger)
    return found


def markdown(runs: Sequence[ToyRun], settings: ToySettings) -> str:
    """A page with the table, what it says about the paper's claim, and the pictures."""
    numbers = {(run.seed, run.process): run.numbers for run in runs}
    seeds = dict.fromkeys(run.seed for run in runs)
    template = resources.files(__package__).joinpath("toy.md").read_text("utf-8")
    options: dict[str, Any] = {"trim_blocks": True, "keep_trailing_newline": True}
    return jinja2.Template(template, undefined=jinja2.StrictUndefined, **options).render(
        settings=settings,
        compared=compare(runs),
        number=lambda found: " ± ".join(f"{n:.3f}" for n in found[:2] if n is not None),
        names=NUMBERS,
        seeds=[(seed, numbers[seed, "dwp"], numbers[seed, "dgp"]) for seed in seeds],
        processes=NAMES,
    )


def figures(runs: Sequence[ToyRun], settings: ToySettings) -> dict[str, Figure]:
    """Pictures of the first seed by name: one of each process, and both side by side. The deep
    Wishart process has a posterior over Gram matrices: its roots are shown in random rotations."""
    first = {run.process: run for run in runs if run.seed == runs[0].seed}
    generator = torch.Generator().manual_seed(runs[0].seed)
    features = {"dwp": first["dwp"].samples.rotated(generator), "dgp": first["dgp"].samples}
    x, y = runs[0].data
    data = (x, runs[0].scaled.targets.forward(y[:, None])[:, 0])
    labels: dict[str, Any] = {"data": data, "input_label": INPUT, "target": TARGET}
    shown = {p: (features[p], (run.mean, run.stddev)) for p, run in first.items()}
    found = {
        process: plots.posteriors({NAMES[process]: posterior}, settings.grid, **labels)
        for process, posterior in shown.items()
    }
    both = {process.upper(): posterior for process, posterior in shown.items()}
    return {**found, "side_by_side": plots.posteriors(both, settings.grid, **labels)}


def write_report(runs: Sequence[ToyRun], settings: ToySettings, out: Path) -> list[Path]:
    """Write ``toy.json``, ``toy.md`` and the pictures; give the files."""
    out.mkdir(parents=True, exist_ok=True)
    chosen = {**asdict(settings), "protocol": asdict(settings.protocol)}
    each = [{"process": run.process, "seed": run.seed, **run.numbers} for run in runs]
    data = json.dumps({"settings": chosen, "runs": each}, indent=1) + "\n"
    files = [write_atomically(out / "toy.json", data)]
    files.append(write_atomically(out / "toy.md", markdown(runs, settings)))
    for name, figure in figures(runs, settings).items():
        files.append(out / f"{name}.png")
        figure.savefig(files[-1], dpi=100, metadata={"Software": None})
    return files
