"""Compiled loops refuse what they cannot read."""

import functools
import re

import pytest
import torch
from torch import Tensor

from deepwishart.native import build
from deepwishart.numerics import anchored, collapsed, observe  # noqa: F401  (each is loaded)

from .conftest import normal, positive, scalar

SIZE, ROWS, WIDTH, FEATURES = 5, 7, 2, 4
NAMES = re.findall(r"^  DEFINE\((\w+)\);", build._SOURCES[0].read_text(), re.MULTILINE)


def operation(name):
    return getattr(torch.ops.deepwishart, name)


@functools.cache
def calls(dtype=torch.float64, samples=3, scales=3) -> dict[str, tuple]:
    """Arguments of every operation, those of backward ones made by the forward ones."""

    def to(tensor):
        return tensor.to(dtype).contiguous()

    K = to(positive(samples, size=SIZE, seed=1))
    y, w = to(normal(ROWS, WIDTH, seed=3)), to(normal(samples, SIZE, WIDTH, seed=4))
    x, t = to(normal(samples, SIZE, FEATURES, seed=5)), to(normal(samples, ROWS, FEATURES, seed=6))
    hyper = to(scalar(0.3)), to(scalar(0.2))
    made: dict[str, tuple] = {}

    def run(name, *arguments):
        made[name] = arguments
        return operation(name)(*arguments)

    lower, H, _ = run("cholesky_inverse_forward", K)
    run("cholesky_inverse_backward", lower, H, K, K)
    square, scaled = run("gaussian_square_forward", x, *hyper, 0.1)
    run("gaussian_square_backward", scaled, square, *hyper, K)
    mean, d, product, cross, a, b = run("gaussian_rows_forward", True, H, w, x, t, *hyper)
    run("gaussian_rows_backward", False, H, w, a, b, *hyper, cross, product, d, mean, d)
    gram, sums, squares, A, cross, a, b = run("row_sums_forward", H, y, x, t, *hyper)
    run("row_sums_backward", H, y, a, b, *hyper, cross, A, gram, sums, gram, sums, squares)
    v, alpha = to(normal(SIZE, WIDTH, seed=8)), to(normal(WIDTH, seed=11).exp())
    gamma, scale = to(normal(samples, WIDTH, seed=12).exp()), K[:scales].contiguous()
    factor, sigma = (gamma, alpha, alpha), v.exp()
    F, ratio, H, A, _, _, L, _ = run("wishart_draw_forward", scale, *factor, v, sigma, w, 2.0)
    slopes = (F, ratio, H, A)
    run("wishart_draw_backward", *factor, sigma, w, 2.0, True, H, L, A, *slopes)
    scale, gamma, alpha, v, w = (t.double() for t in (scale, gamma, alpha, v, w))
    factor, precision = (gamma, alpha, alpha), positive(size=SIZE, seed=13)
    found = run("anchored_draw_forward", scale, *factor, v, precision, w, 2.0)
    F, ratio, H, A, _, solved, L, _, *rest = found
    kept, slopes = (H, L, A, solved, *rest), (F, ratio, H, A)
    run("anchored_draw_backward", *factor, precision, w, 2.0, True, *kept, *slopes)
    return made


def mistakes(tensor: Tensor):
    """Variations of an argument that no operation can take."""
    if tensor.ndim == 0:
        yield "two numbers", tensor.repeat(2)
        return
    for dim in range(tensor.ndim):
        yield f"longer in {dim}", torch.cat([tensor, tensor.narrow(dim, 0, 1)], dim)
        yield f"nothing in {dim}", tensor.narrow(dim, 0, 0)
        yield f"without {dim}", tensor.select(dim, 0).contiguous()
    yield "one more dimension", tensor.unsqueeze(0)
    yield "integers", tensor.long()
    yield "another precision", tensor.float()
    yield "half precision", tensor.half()
    yield "strided", tensor.repeat_interleave(2, dim=-1)[..., ::2]


# A few variations are valid again: another number of columns, of rows, of features, where nothing
# else says how many.
FITS_ANYWAY = {
    ("gaussian_square_forward", 0): [
        "another precision",
        "longer in 0",
        "longer in 1",
        "longer in 2",
    ],
    ("gaussian_square_backward", 0): ["longer in 2"],
    ("cholesky_inverse_forward", 0): ["another precision", "longer in 0"],
    ("gaussian_rows_forward", 2): ["longer in 2"],
    ("gaussian_rows_forward", 4): ["longer in 1"],
    ("row_sums_forward", 1): ["longer in 1"],
}


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_are_refused(name):
    arguments = calls()[name]
    for index, argument in enumerate(arguments):
        if not isinstance(argument, Tensor):
            continue
        for kind, wrong in mistakes(argument):
            given = [*arguments[:index], wrong, *arguments[index + 1 :]]
            if kind in FITS_ANYWAY.get((name, index), []):
                operation(name)(*given)
                continue
            with pytest.raises(RuntimeError) as error:
                operation(name)(*given)
                pytest.fail(f"{name} took argument {index}: {kind}")
            if kind.startswith(("longer", "nothing", "without", "one more")):
                assert "deepwishart: " in str(error.value), (index, kind, str(error.value))


@pytest.mark.parametrize("samples, scales", [(1, 1), (3, 1), (3, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_two_results_share_memory(dtype, samples, scales):
    for name, arguments in calls(dtype, samples, scales).items():
        torch.library.opcheck(operation(name).default, arguments, test_utils="test_schema")
