"""What the report compares besides the paper's own tables: DWP with DGP, the time to the published
bound, posterior families, and runs with other settings."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from deepwishart.reproduction.published import STEPS, highlighted, published, published_kinds
from deepwishart.reproduction.report.reading import PAPERS, Results, Run, by_split, count, few
from deepwishart.reproduction.report.statistics import estimate, paired_test, sign
from deepwishart.reproduction.report.tables import (
    NOTHING,
    Cell,
    Section,
    difference,
    first_cells,
    from_rows,
)
from deepwishart.reproduction.sweeps.curves import steps_to
from deepwishart.spec import CHOICES

_SHORT = {"elbo": "ELBO", "test_log_likelihood": "log likelihood"}


def difference_table(results: Results) -> Section:
    """DWP minus DGP beside the paper's difference, split by split."""
    rows = []
    called: dict[tuple[str, str], dict[str, Cell]] = {}
    for dataset, depth in published_kinds("elbo"):
        row = first_cells(dataset, depth)
        for metric, short in _SHORT.items():
            better = highlighted(metric, dataset, depth)
            dwp, dgp = (published(metric, dataset, p, depth) for p in ("dwp", "dgp"))
            assert dwp and dgp
            row[f"{short} published"] = Cell(dwp.mean - dgp.mean, bold=bool(better), role="paper")
            for protocol in results.protocols:
                test = paired_test(*results.pair(metric, protocol, dataset, depth))
                row[f"{short} ({protocol})"] = difference(test)
                if better and test:
                    agrees = (test.difference.mean > 0) == (better == "dwp")
                    cell = difference(test, mark="agrees" if agrees else "contradicts")
                    called.setdefault((metric, protocol), {})[f"{dataset} {depth}"] = cell
                    row[f"{short} ({protocol})"] = cell
        rows.append(row)
    about = (
        "Positive where the deep Wishart process is better. Published: the difference of the two "
        "means, bold where the paper highlights one as significantly better. Ours: mean of the "
        "differences split by split, bold where the paired t test gives p < 0.05; ✓ same sign as "
        "a difference that the paper calls significant, ✗ the other sign. Only runs with the same "
        "settings are compared."
    )
    told = " ".join(_told(*key, found) for key, found in called.items())
    return from_rows("differences", "DWP - DGP", f"{about} {told}".strip(), rows)


def bound_table(results: Results) -> Section:
    """Steps and seconds until the training curve is at the published mean ELBO."""
    rows = []
    steps: dict[str, list[int | None]] = {protocol: [] for protocol in results.protocols}
    for dataset, depth in published_kinds("elbo"):
        row = first_cells(dataset, depth)
        for process in ("dwp", "dgp"):
            paper, name = published("elbo", dataset, process, depth), process.upper()
            assert paper
            row[f"{name} published"] = Cell(paper.mean, decimals=paper.decimals, role="paper")
            for protocol in results.protocols:
                runs = results.cell(protocol, dataset, process, depth)
                cells, reached = _time_to(results, runs, paper.mean)
                row[f"{name} steps ({protocol})"], row[f"{name} seconds ({protocol})"] = cells
                steps[protocol] += reached
        rows.append(row)
    about = (
        f"The published means are those of {STEPS:,} steps. A run is there when its training "
        "curve, averaged over 2% of its steps and after the KL term has faded in, is at the "
        "published mean of its cell or above; a start from a single layer (shallow_steps) comes "
        "before its first step and is not counted. Means over the runs that got there, and how "
        "many of the cell's runs those are. Seconds are steps times the median time of a step, on "
        "the machine and with the load that the runs had."
    )
    told = [
        f"With protocol {protocol}, {len(done)} of {len(found)} runs got there, after "
        f"{statistics.median(done):,.0f} steps in the median."
        for protocol, found in steps.items()
        if (done := [number for number in found if number is not None])
    ]
    return from_rows("bounds", "Time to the paper's bound", " ".join([about, *told]), rows)


def family_table(results: Results) -> Section:
    """Other posterior families against the paper's: same data, seed, protocol and settings."""
    alike: dict[Any, dict[str, Run]] = {}
    for run in results.every:
        rest = {name: str(value) for name, value in run.settings.items() if name != "posterior"}
        where = replace(run.spec, settings_version="")
        alike.setdefault((where, *sorted(rest.items())), {})[run.settings["posterior"]] = run
    ran = {family for runs in alike.values() if PAPERS in runs for family in runs}
    families_run = [name for name in CHOICES["posterior"] if name in ran - {PAPERS}]
    pairs: dict[tuple[str, int, str], dict[str, list[tuple[Run, Run]]]] = {}
    for runs in alike.values():
        for family in families_run:
            if PAPERS in runs and family in runs:
                spec = runs[family].spec
                families = pairs.setdefault((spec.dataset, spec.depth, spec.protocol), {})
                families.setdefault(family, []).append((runs[family], runs[PAPERS]))
    rows = []
    gains: dict[str, list[str]] = {family: [] for family in families_run}
    for (dataset, depth, protocol), families in sorted(pairs.items()):
        row = first_cells(dataset, depth, protocol=protocol)
        for family in families_run:
            cells = _against(families.get(family, []))
            gains[family].append(cells["ELBO"].mark)
            row |= {f"{family} {name}": cell for name, cell in cells.items()}
        rows.append(row)
    about = (
        "The deep Wishart process with mixed rows, columns or both of the Bartlett factor, minus "
        "the same with the paper's posterior: paired differences over splits and seeds with their "
        "standard errors, and the ratio of times per step. ▲ better, ▼ worse, ≈ neither, by the "
        "quantiles of the marks above; bold where the paired t test gives p < 0.05."
    )
    told = [
        f"{family}: the ELBO is better in {marks.count('better')} and worse in "
        f"{marks.count('worse')} of {count([m for m in marks if m], 'judged cell')}."
        for family, marks in gains.items()
        if any(marks)
    ]
    return from_rows("families", "Posterior families", " ".join([about, *told]), rows)


def other_table(results: Results) -> Section:
    """Groups of runs that were not averaged with their cell's others, and what sets them apart."""
    rows = []
    for group in results.others:
        spec = group[0].spec
        main = results.cell(spec.protocol, spec.dataset, spec.process, spec.depth)
        here, there = group[0].settings, main[0].settings
        changed = [n for n in {**there, **here} if here.get(n) != there.get(n)]
        differs = few(f"{name} {here.get(name)} (there {there.get(name)})" for name in changed)
        what = {"process": spec.process.upper(), "protocol": spec.protocol, "what differs": differs}
        row = first_cells(spec.dataset, spec.depth, **what)
        for metric, short in _SHORT.items():
            row[short] = _mean(list(by_split(group, metric).values()))
        rows.append(row)
    about = (
        "Runs of different settings are never averaged. Where a cell has several, the tables above "
        "show the settings with most splits, of these the usual inducing points, and the newest. "
        "These are the rest."
    )
    return from_rows("others", "Other settings", about, rows)


def _told(metric: str, protocol: str, found: dict[str, Cell]) -> str:
    """A sentence on the differences that the paper calls significant."""
    wrong = [name for name, cell in found.items() if cell.mark == "contradicts"]
    clear = [name for name in wrong if found[name].bold]
    total = sum(bool(highlighted(metric, *kind)) for kind in published_kinds(metric))
    rest = f"; the other sign: {few(wrong, 30)}" if wrong else ""
    rest += f", significantly so: {few(clear, 30)}" if clear else ""
    return (
        f"By {_SHORT[metric]}, protocol {protocol}: of the {total} differences that the paper "
        f"calls significant {len(found)} were run, {len(found) - len(wrong)} with the same "
        f"sign{rest}."
    )


def _time_to(
    results: Results, runs: Iterable[Run], bound: float
) -> tuple[tuple[Cell, Cell], list[int | None]]:
    """Cells of steps and of seconds, and the steps of each run, ``None`` if it never got there."""
    steps, done = [], []
    for run in runs:
        if curve := results.curve(run):
            steps.append(steps_to(bound, curve, run.settings.get("kl_anneal", 0)))
            if steps[-1]:
                done.append((steps[-1], steps[-1] * run.record["seconds_per_step"]))
    if not done:
        text = f"not reached ({len(steps)})" if steps else NOTHING
        return (Cell(text=text, role="ours"), Cell(text=NOTHING, role="ours")), steps
    mean, seconds = map(statistics.fmean, zip(*done, strict=True))
    share = f"{mean:,.0f} ({len(done)}/{len(steps)})"
    return (Cell(mean, text=share, role="ours"), Cell(seconds, decimals=0)), steps


def _against(pairs: list[tuple[Run, Run]]) -> dict[str, Cell]:
    """Differences in ELBO and log likelihood, and the ratio of times, of pairs of runs."""
    cells = {}
    for metric, short in _SHORT.items():
        one, other = ({n: p[k].record[metric] for n, p in enumerate(pairs)} for k in (0, 1))
        test = paired_test(one, other)
        cells[short] = difference(test, 3, mark=sign(test.difference) if test else "")
    times = ([run.record["seconds_per_step"] for run in pair] for pair in pairs)
    return {**cells, "time": _mean([a / b for a, b in times])}


def _mean(values: list[float]) -> Cell:
    return Cell(*estimate(values), role="ours") if values else Cell(text=NOTHING)
