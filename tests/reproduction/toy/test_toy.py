"""The toy comparison: its data, its numbers, and what it says about them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from deepwishart.cli import app
from deepwishart.reproduction.toy import report as toy_report
from deepwishart.reproduction.toy.comparison import (
    ToyRun,
    ToySettings,
    measure,
    run_toy,
    toy_data,
    variety,
)

pytestmark = pytest.mark.slow

QUICK = ToySettings(
    seeds=(0, 1), max_iter=3, num_inducing=5, grid_points=25, num_samples=6, elbo_samples=20
)


@pytest.fixture(scope="module")
def runs() -> list[ToyRun]:
    return run_toy(QUICK)


def test_data():
    data = toy_data(seed=3, num_rows=4000)
    for side in (data.x[:2000], -data.x[2000:]):
        assert ((side >= -4) & (side <= -2)).all()
        assert side.mean() == pytest.approx(-3, abs=0.05)
        assert side.std() == pytest.approx(2 / 12**0.5, abs=0.02)
    noise = data.y - data.x**3
    assert noise.mean() == pytest.approx(0, abs=0.2) and noise.std() == pytest.approx(3, abs=0.1)
    assert np.array_equal(toy_data(seed=3).x, toy_data(seed=3).x)
    assert not np.array_equal(toy_data(seed=3).x, toy_data(seed=4).x)


def test_both_processes_learn_the_same_data_with_the_same_prior(runs):
    assert [run.process for run in runs] == ["dwp", "dgp"] * 2
    assert [run.seed for run in runs] == [0, 0, 1, 1]
    for dwp, dgp in (runs[:2], runs[2:]):
        assert np.array_equal(dwp.data.x, dgp.data.x) and np.array_equal(dwp.data.y, dgp.data.y)
        assert dwp.scaled.model.depth == dgp.scaled.model.depth == 2
        assert dwp.samples.layers[0].shape == dgp.samples.layers[0].shape == (6, 25, 2)
    assert not np.array_equal(runs[0].data.x, runs[2].data.x)


def test_variety_knows_no_rotation():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(5, 7, 2, generator=generator, dtype=torch.float64)
    rotations = torch.linalg.qr(torch.randn(5, 2, 2, generator=generator, dtype=torch.float64)).Q
    rotated = features @ rotations
    assert not torch.allclose(features, rotated)
    distance, size = variety(features @ features.mT)
    assert variety(rotated @ rotated.mT) == pytest.approx((distance, size))
    grams = (features @ features.mT).numpy()
    pairs = [np.linalg.norm(grams[s] - grams[t]) / 7 for s in range(5) for t in range(s)]
    assert distance == pytest.approx(np.mean(pairs))
    assert size == pytest.approx(np.sqrt((grams**2).mean((1, 2)).mean()))


def test_regions():
    grid = np.linspace(-6, 6, 121)
    size = np.abs(grid)
    stddev = np.where(size < 2, 1.0, np.where(size <= 4, 2.0, 3.0))
    grams = torch.rand(2, 3, 3, dtype=torch.float64)
    numbers = measure(grid, stddev, grams, grams)
    found = [numbers[f"stddev_{name}"] for name in ("gap", "data", "outside")]
    assert found == pytest.approx([1.0, 2.0, 3.0])
    # Features of another size: the Gram number is the same.
    scaled = measure(grid, stddev, 9 * grams, grams)
    assert scaled["gram_distance"] == pytest.approx(numbers["gram_distance"])
    assert scaled["kernel_distance"] == numbers["kernel_distance"]


def with_numbers(runs: list[ToyRun], dwp: list[float], dgp: list[float]) -> list[ToyRun]:
    """The same runs, with these values for every number."""
    values = {"dwp": dwp, "dgp": dgp}
    return [
        replace(run, numbers=dict.fromkeys(run.numbers, values[run.process][run.seed]))
        for run in runs
    ]


@pytest.mark.parametrize(
    ("dwp", "dgp", "verdict", "words", "larger"),
    [
        ([3.0, 5.1], [1.0, 3.0], "larger", "the claim **holds**", 2),
        ([1.0, 3.0], [3.0, 5.1], "smaller", "the claim **does not hold**", 0),
        ([3.0, 5.0], [1.0, 6.0], "undecided", "**cannot be told**", 1),
    ],
)
def test_the_report_says_what_was_measured(runs, dwp, dgp, verdict, words, larger):
    """Whichever way it falls. Differences are paired: seeds differ more than processes."""
    made_up = with_numbers(runs, dwp, dgp)
    one = toy_report.compare(made_up)["stddev_gap"]
    assert (one.verdict, one.share) == (verdict, f"{larger} of 2")
    differences = np.subtract(dwp, dgp)
    expected = (differences.mean(), abs(differences[0] - differences[1]) / 2, 2)
    assert one.difference == pytest.approx(expected)
    text = toy_report.markdown(made_up, QUICK)
    assert text.count(words) == 4
    assert f"| 0 |{f' {dwp[0]:.3f} / {dgp[0]:.3f} |' * 4}" in text  # seed by seed


def test_one_seed_decides_nothing(runs):
    one = toy_report.compare(runs[:2])["kernel_distance"]
    assert one.verdict == "undecided" and one.difference.standard_error is None


def test_command(tmp_path):
    asked = ["--seeds", 2, "--max-iter", 2, "--inducing", 5, "--samples", 4, "--out", tmp_path]
    threads = torch.get_num_threads()
    result = CliRunner().invoke(app, ["toy", *map(str, asked)])
    assert result.exit_code == 0 and torch.get_num_threads() == threads
    assert "5 files written" in result.stdout and "seeds with DWP larger" in result.stdout
    assert "Variety of Gram matrices" in result.stdout
    found = json.loads((tmp_path / "toy.json").read_text())
    assert len(found["runs"]) == 4 and found["settings"]["max_iter"] == 2
    text = (tmp_path / "toy.md").read_text()
    for name in ("dwp", "dgp", "side_by_side"):
        assert f"{name}.png" in text
        picture = (tmp_path / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG") and b"Software" not in picture  # same run, same file
