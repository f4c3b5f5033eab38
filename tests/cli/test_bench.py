"""deepwishart bench step, and the module behind it."""

import json
from dataclasses import asdict

import pytest
import torch

from deepwishart import benchmark
from deepwishart.benchmark import Measurement, Shape, environment, measure

from .conftest import refused, run

TINY = ["--rows", "20", "--inducing", "5", "--samples", "2", "--features", "3", "--repeats", "1"]
ONE = ["--processes", "dwp", "--dtypes", "float64", "--depths", "2", "--threads", "1"]


def bench(*arguments: object):
    result = run("bench", "step", *TINY, *arguments)
    assert result.exit_code == 0, result.output
    return result


def rows(table: str) -> list[list[str]]:
    """The cells of a Markdown table, its heading first and without the rule below it."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert all(cell.endswith("-:") for cell in lines[1])
    assert {len(line) for line in lines} == {8}
    return [lines[0], *lines[2:]]


@pytest.fixture
def unmeasured(monkeypatch) -> list[dict]:
    """Measurements that take no time: what was asked for, with numbers made up."""
    asked = []

    def pretend(process, *, depth, dtypes, threads, repeats, shape):
        asked.append({"repeats": repeats, "shape": shape})
        names = [str(dtype).removeprefix("torch.") for dtype in dtypes]
        return [Measurement(process, n, depth, threads, 12.34, 56.7, 8.912, 1.0) for n in names]

    monkeypatch.setattr(benchmark, "measure", pretend)
    monkeypatch.setattr("deepwishart.native.status", lambda: "loaded")
    return asked


def test_table_and_file_say_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("deepwishart.native.status", lambda: "as it may be")
    out = tmp_path / "new" / "step.json"
    table = rows(bench(*ONE, "--processes", "dgp", "--out", out).stdout)
    assert table[0][:4] == ["process", "dtype", "depth", "threads"]
    assert [line[:4] for line in table[1:]] == [[p, "float64", "2", "1"] for p in ("dwp", "dgp")]
    record = json.loads(out.read_text())
    assert list(record) == ["environment", "shape", "repeats", "measurements"]
    assert record["environment"] == environment()
    assert record["shape"] == asdict(Shape(20, 3, 5, 2)) and record["repeats"] == 1
    for line, found in zip(table[1:], record["measurements"], strict=True):
        one = Measurement(**found)
        assert line[:4] == [one.process, one.dtype, str(one.depth), str(one.threads)]
        assert line[4:6] == [f"{one.step_ms:.1f}", f"{one.gemm_gflops:.0f}"]
        assert line[6:] == [f"{one.ratio:.2f}", f"{one.speedup:.2f}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--processes", "dpw"], ["'dpw'", "Did you mean 'dwp'?"]),
        (["--rows", "4"], ["more inducing points (5) than rows (4)"]),
        (["--width", "3"], ["--width", "deepwishart bench step --help"]),
        (["--out", "."], ["--out", "is a directory"]),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(unmeasured, tmp_path, arguments, words):
    result = run("bench", "step", *TINY, "--out", tmp_path / "new" / "step.json", *arguments)
    refused(result, *words)
    assert result.stdout == ""
    assert unmeasured == [] and list(tmp_path.iterdir()) == []


# ---- the module ---------------------------------------------------------------------------------


def test_ratio(monkeypatch):
    """With times made up: steps of 3 and 2 ms beside products of 2e9 flop in 50 and 20 ms."""
    monkeypatch.setattr(benchmark, "alternate", lambda *_: [3e-3, 2e-3, 50e-3, 20e-3])
    shape = Shape(num_rows=200, num_features=2, num_inducing=10, num_samples=4)
    both = [torch.float64, torch.float32]
    double, single = measure("dwp", depth=3, dtypes=both, threads=1, shape=shape)
    assert (double.dtype, single.dtype) == ("float64", "float32")
    assert (double.step_ms, single.step_ms) == pytest.approx((3.0, 2.0))
    assert (double.gemm_gflops, single.gemm_gflops) == pytest.approx((40.0, 100.0))
    assert (double.speedup, single.speedup) == pytest.approx((1.0, 1.5))
    flop = 4 * 3 * (4 * 10**2 * 200 + 6 * 10**3)
    assert double.ratio == pytest.approx(3e-3 / (flop / 40e9))
    assert single.ratio == pytest.approx(2e-3 / (flop / 100e9))
