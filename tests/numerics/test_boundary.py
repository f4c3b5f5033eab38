"""Native operations refuse what they cannot read, and say what they return without computing it."""

import functools

import pytest
import torch
from torch import Tensor

from deepwishart.native import build
from deepwishart.numerics import anchored, collapsed, observe  # noqa: F401  (each registers shapes)

from .conftest import normal, positive, scalar

SIZE, ROWS, WIDTH, FEATURES = 5, 7, 2, 4
NAMES = [
    "cholesky_inverse_forward",
    "cholesky_inverse_backward",
    "condition_forward",
    "condition_backward",
    "condition_forward of features",
    "condition_backward of features",
    "gaussian_square_forward",
    "gaussian_square_backward",
    "gaussian_sample_forward",
    "gaussian_sample_backward",
    "observe_forward",
    "observe_backward",
    "row_sums_forward",
    "row_sums_backward",
    "row_sums_forward of features",
    "row_sums_backward of features",
    "wishart_draw_forward",
    "wishart_draw_backward",
    "anchored_draw_forward",
    "anchored_draw_backward",
]


def operation(name):
    return getattr(torch.ops.deepwishart, name.partition(" of ")[0])


@functools.cache
def calls(dtype=torch.float64, samples=3, scales=3) -> dict[str, tuple]:
    """Arguments of every operation, those of backward ones made by the forward ones."""

    def to(tensor):
        return tensor.to(dtype).contiguous()

    K = to(positive(samples, size=SIZE, seed=1))
    cross, y = to(normal(samples, SIZE, ROWS, seed=2)), to(normal(ROWS, WIDTH, seed=3))
    w = to(normal(samples, SIZE, WIDTH, seed=4))
    x, t = to(normal(samples, SIZE, FEATURES, seed=5)), to(normal(samples, ROWS, FEATURES, seed=6))
    M, v = to(normal(SIZE, SIZE, seed=7)), to(normal(SIZE, WIDTH, seed=8))
    height, length = to(scalar(0.3)), to(scalar(0.2))
    by_row, squares = to(normal(samples, ROWS, WIDTH, seed=9)), to(normal(samples, ROWS, seed=10))
    made: dict[str, tuple] = {}

    def run(name, *arguments):
        made[name] = arguments
        return operation(name)(*arguments)

    lower, H, _ = run("cholesky_inverse_forward", K)
    run("cholesky_inverse_backward", lower, H, K, K)
    nothing, features = (None,) * 4, (None, x, t, height, length)
    _, _, product, *_ = run("condition_forward", H, w, cross, *nothing)
    run("condition_backward", H, w, cross, product, *nothing[1:], by_row, squares)
    _, _, A, k, a, b = run("condition_forward of features", H, w, *features)
    run("condition_backward of features", H, w, k, A, a, b, length, by_row, squares)
    square, scaled = run("gaussian_square_forward", x, height, length, 0.1)
    run("gaussian_square_backward", scaled, square, length, K)
    _, k, A, a, b, d = run("gaussian_sample_forward", H, w, x, t, height, length, by_row)
    scalars = (height, length)
    run("gaussian_sample_backward", H, w, a, b, k, A, by_row, d, *scalars, by_row)
    inverse, Y, white, numbers, KM, _ = run("observe_forward", K, M, v)
    given = (inverse, Y, white, numbers)
    run("observe_backward", M, v, inverse, Y, white, KM, *given)
    gram, sums, A, *_ = run("row_sums_forward", H, y, cross, *nothing)
    run("row_sums_backward", H, y, cross, A, *nothing[1:], gram, sums, gram, sums)
    gram, sums, A, k, a, b = run("row_sums_forward of features", H, y, *features)
    run("row_sums_backward of features", H, y, k, A, a, b, length, gram, sums, gram, sums)
    alpha, sigma = to(normal(WIDTH, seed=11).exp()), v.exp()
    gamma, scale = to(normal(samples, WIDTH, seed=12).exp()), K[:scales].contiguous()
    factor = (gamma, alpha, alpha)
    F, ratio, H, A, _, _, L, _ = run("wishart_draw_forward", scale, *factor, v, sigma, w, 2.0)
    slopes = (F, ratio, H, A)
    run("wishart_draw_backward", *factor, sigma, w, 2.0, True, H, L, A, *slopes)
    precision = to(positive(size=SIZE, seed=13))
    found = run("anchored_draw_forward", scale, *factor, v, precision, w, 2.0)
    F, ratio, H, A, _, _, L, _, *rest = found
    run("anchored_draw_backward", *factor, w, 2.0, True, H, L, A, *rest, F, ratio, H, A)
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


def fits_anyway(name: str, index: int, kind: str) -> bool:
    """A few variations are again valid: another number of columns, of rows, of features, where
    nothing else says how many."""
    return (name, index, kind) in {
        ("gaussian_square_forward", 0, "another precision"),
        ("gaussian_square_forward", 0, "longer in 0"),
        ("gaussian_square_forward", 0, "longer in 1"),
        ("gaussian_square_forward", 0, "longer in 2"),
        ("gaussian_square_backward", 0, "longer in 2"),
        ("cholesky_inverse_forward", 0, "another precision"),
        ("cholesky_inverse_forward", 0, "longer in 0"),
        ("observe_forward", 0, "longer in 0"),
        ("observe_forward", 2, "longer in 1"),
        ("condition_forward", 1, "longer in 2"),
        ("condition_forward", 2, "longer in 2"),
        ("condition_forward of features", 1, "longer in 2"),
        ("condition_forward of features", 4, "longer in 1"),
        ("row_sums_forward", 1, "longer in 1"),
        ("row_sums_forward of features", 1, "longer in 1"),
    }


def test_every_operation_is_in_the_table():
    assert list(calls()) == NAMES
    source = build._SOURCES[0].read_text()
    named = {name.partition(" of ")[0] for name in NAMES}
    assert source.count("  DEFINE(") == len(named)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_are_refused(name):
    arguments = calls()[name]
    for index, argument in enumerate(arguments):
        if not isinstance(argument, Tensor):
            continue
        for kind, wrong in mistakes(argument):
            given = [*arguments[:index], wrong, *arguments[index + 1 :]]
            if fits_anyway(name, index, kind):
                operation(name)(*given)
                continue
            with pytest.raises(RuntimeError) as error:
                operation(name)(*given)
                pytest.fail(f"{name} took argument {index}: {kind}")
            if kind.startswith(("longer", "nothing", "without", "one more")):
                assert "deepwishart: " in str(error.value), (index, kind, str(error.value))


@pytest.mark.parametrize("samples, scales", [(1, 1), (3, 1), (3, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fake_tensors_have_the_shapes_of_real_ones(dtype, samples, scales):
    # The schema also says that no two results share memory.
    tests = ("test_schema", "test_faketensor")
    for name, arguments in calls(dtype, samples, scales).items():
        torch.library.opcheck(operation(name).default, arguments, test_utils=tests)
