"""Every example runs, and what it shows is there to be seen."""

import importlib.util
import re
from math import log, pi
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from deepwishart import Randomness, plots

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples"
ELSEWHERE = {"train_distributed"}  # needs several processes: tests/training/test_distributed.py

# Few steps, enough for what the test asserts.
STEPS = {
    "classify_digits": 60,
    "compare_processes": 60,
    "counts": 40,
    "custom_kernel": 40,
    "custom_layer": 40,
    "custom_likelihood": 60,
    "distributions_alone": 200,
    "function_samples": 100,
    "multi_output": 60,
    "noise_that_changes": 80,
    "optimise_with_botorch": 100,
    "tabular_intervals": 150,
}


def load(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def run(name: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    load(name).main(["--steps", str(STEPS[name]), *arguments])
    return capsys.readouterr().out


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, f"no {pattern!r} in:\n{text}"
    return float(found[1])


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures that were saved: what is in a file is easier to ask before it is pixels."""
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *arguments: object, **options: object) -> None:
        figures.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def test_every_example_is_run() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")}
    assert scripts == {*STEPS, *ELSEWHERE}


def test_every_example_is_in_the_documentation() -> None:
    """Run by sphinx-gallery, or named on its page."""
    text = (ROOT / "docs" / "_extensions" / "gallery.py").read_text(encoding="utf-8")
    run = set(re.findall(r'(?m)^    "(\w+)": \d+,$', text))
    header = (FOLDER / "GALLERY_HEADER.rst").read_text(encoding="utf-8")
    assert run == STEPS.keys()
    assert all(f"examples/{name}.py" in header for name in ELSEWHERE)


def test_every_plot_is_in_the_documentation() -> None:
    scripts = (ROOT / "docs" / "pictures").glob("*.py")
    text = "".join(script.read_text(encoding="utf-8") for script in scripts)
    assert all(f"plots.{name}(" in text for name in plots.__all__)


def test_tabular_intervals(capsys) -> None:
    text = run("tabular_intervals", capsys)
    # Of 89 rows: 0.9 within three standard errors, 0.032 each.
    assert 80 <= number(r"inside their interval +([\d.]+)%", text) < 100
    assert number(r"RMSE +([\d.]+)", text) < 62  # the spread of the targets is 77


def test_classify_digits(capsys) -> None:
    text = run("classify_digits", capsys)
    assert number(r"accuracy  ([\d.]+)", text) > 0.95
    assert number(r"log loss  ([\d.]+)", text) < 0.25
    assert number(r"least certain tenth: ([\d.]+)", text) > number(r"accuracy  ([\d.]+)", text)


def test_compare_processes(capsys) -> None:
    """Every process knows more than the moments of its standardised targets."""
    text = run("compare_processes", capsys, "--seeds", "1", "--processes", "dwp", "dgp", "diwp")
    rows = [line.split() for line in text.splitlines()[1:]]
    assert [row[0] for row in rows] == ["dwp", "dgp", "diwp"]
    assert all(float(row[2]) > -0.5 * (log(2 * pi) + 1) for row in rows)


def test_custom_kernel(capsys) -> None:
    text = run("custom_kernel", capsys)
    # The network's kernel goes on as it ended; the squared exponential goes back to the mean.
    assert abs(number(r"NeuralNetwork: .* at x = 10 (\S+)", text) - 1.0) < 0.3
    assert abs(number(r"squared_exponential: .* at x = 10 (\S+)", text)) < 0.5


def test_custom_layer(capsys) -> None:
    """A constant and its noise come to -1.07; correlations in the posterior are worth something."""
    text = run("custom_layer", capsys)
    mean_field = number(r"mean field: ELBO per row (\S+)", text)
    assert -0.7 < mean_field < number(r"dgp: ELBO per row (\S+)", text)


def test_custom_likelihood(capsys) -> None:
    text = run("custom_likelihood", capsys)
    robust = number(r"StudentT: RMSE from the truth (\S+)", text)
    assert robust < 0.5 * number(r"Gaussian: RMSE from the truth (\S+)", text)


def test_multi_output(capsys) -> None:
    text = run("multi_output", capsys)
    assert number(r" x +([\d.]+)", text) < 0.1  # its noise is 0.03
    assert 0.8 < number(r"noisy +([\d.]+)", text) < 1.3  # its noise is 1


def test_function_samples(capsys, tmp_path, drawn) -> None:
    text = run("function_samples", capsys, "--figure", str(tmp_path / "functions.png"))
    gap = number(r"in the gap +([\d.]+)", text)
    assert gap > 2 * number(r"at the data +([\d.]+)", text)
    *functions, data = drawn[0].axes[0].lines
    assert len(functions) == 15 and len(data.get_xdata()) > 30
    assert np.isfinite([line.get_ydata() for line in functions]).all()


def test_optimise_with_botorch(capsys, tmp_path, drawn) -> None:
    figure = tmp_path / "optimisation.png"
    text = run("optimise_with_botorch", capsys, "--figure", str(figure), "--rounds", "3")
    assert number(r"\n +3 .* (\S+)\n", text) > 5.5  # it began at 3.03
    improvement, tried = drawn[0].axes[1].lines
    best = np.argmax(improvement.get_ydata())
    # Where the acquisition function is highest, within two points of the grid.
    assert abs(improvement.get_xdata()[best] - tried.get_xdata()[0]) <= 0.02


@pytest.mark.filterwarnings("ignore:Training ended")
def test_counts(capsys: pytest.CaptureFixture[str]) -> None:
    text = run("counts", capsys)
    poisson, other = map(float, re.findall(r"log probability per row +(\S+)", text))
    assert other > poisson + 0.2
    low, high = map(int, re.search(r"in 4 hours: (\d+) to (\d+)", text).groups())
    assert low < 4 * np.e < high


@pytest.mark.filterwarnings("ignore:Training ended")
def test_noise_that_changes(capsys, tmp_path: Path, drawn) -> None:
    text = run("noise_that_changes", capsys, "--figure", str(tmp_path / "noise.svg"))
    constant, changing = map(float, re.findall(r"test log likelihood +(\S+)", text))
    assert changing > constant + 0.1
    for axes, least, most in zip(drawn[0].axes, (0.5, 3.0), (2.0, 50.0), strict=True):
        band = axes.collections[0].get_paths()[0].vertices
        left, right = (np.ptp(band[band[:, 0] == x, 1]) for x in (0.0, 4.0))
        assert least < right / left < most  # the noise of the data grows 13 times


def test_distributions_alone(capsys) -> None:
    text = run("distributions_alone", capsys)
    bounds = [float(value) for value in re.findall(r"bound +(\S+),", text)]
    evidence = number(r"log evidence +(\S+)", text)
    assert bounds[0] + 5 < bounds[-1] < evidence + 0.5
    assert evidence - bounds[-1] < 1.5
    assert number(r"exact one by ([\d.]+)%", text) < 5


def test_layer_of_the_extending_page_can_be_its_prior() -> None:
    """That its parts fulfil their contracts, the page tests itself."""
    module = load("custom_layer")
    layer = module.MeanFieldLayer(module.SquaredExponential(), 3, 5, name="layer 1").double()
    with torch.no_grad():
        layer.log_std.zero_()
    points = torch.linspace(-1, 1, 10, dtype=torch.float64).reshape(5, 2)
    log_ratio = layer.sample(points, Randomness(20)).log_ratio
    torch.testing.assert_close(log_ratio, torch.zeros_like(log_ratio), atol=1e-12, rtol=0)
