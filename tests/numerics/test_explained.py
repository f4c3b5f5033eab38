"""The collapsed bound's hard term, and its gradient by hand."""

import pytest
import torch

from deepwishart.numerics.explained import explained


def inputs(batch: tuple[int, ...], columns: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(*batch, 5, 7, generator=generator, dtype=torch.float64)
    products = torch.randn(*batch, 5, columns, generator=generator, dtype=torch.float64)
    noise = 0.1 + torch.rand(columns, generator=generator, dtype=torch.float64)
    return [root @ root.mT, products, noise]


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("columns", [1, 2])
def test_it_is_the_determinant_and_the_quadratic_form(batch, columns):
    gram, products, noise = inputs(batch, columns)
    for column, own in enumerate(noise):
        inner = torch.eye(5, dtype=torch.float64) + gram / own
        z = products[..., column] / own
        form = (z * torch.linalg.solve(inner, z)).sum(-1)
        expected = 0.5 * (form - torch.logdet(inner))
        found = explained(gram, products, noise, what="B")[..., column]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("columns", [1, 2])
def test_its_gradient(batch, columns):
    leaves = [value.requires_grad_() for value in inputs(batch, columns)]

    def symmetrised(gram, products, noise):
        return explained(0.5 * (gram + gram.mT), products, noise, what="B")

    assert torch.autograd.gradcheck(symmetrised, leaves)
