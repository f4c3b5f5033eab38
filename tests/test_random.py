"""The randomness of a pass: repeatable, and the same however rows are divided."""

import itertools

import pytest
import torch
from scipy import stats

from deepwishart.random import BLOCK_ROWS, Randomness, RowRandomness


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("cuts", [[0, 7, 9, 2500], [0, BLOCK_ROWS, 2500], [0, 1500, 2400, 2500]])
def test_a_row_has_its_noise_in_any_part_of_the_table(cuts):
    whole = RowRandomness(2, seed=3).at(1)
    parts = [(whole.part(begin, 2500), end - begin) for begin, end in itertools.pairwise(cuts)]
    normal = torch.cat([part.normal(rows, 3) for part, rows in parts], dim=1)
    assert torch.equal(normal, whole.normal(2500, 3))
    alpha = torch.tensor(2.0, dtype=torch.float64)
    gamma = torch.cat([part.gamma(alpha, rows) for part, rows in parts], dim=1)
    assert torch.equal(gamma, whole.gamma(alpha, 2500))


def test_streams_are_standard_normal_and_unrelated():
    rows = RowRandomness(4, seed=3)
    streams = [rows.at(layer).normal(3000, 1).flatten() for layer in range(3)]
    for stream in streams:
        assert stats.kstest(stream.numpy(), "norm").pvalue > 1e-3
    table = torch.stack(streams)
    blocks = streams[0].reshape(4, 3000)[:, : 2 * BLOCK_ROWS].reshape(8, BLOCK_ROWS)
    for group in (table, blocks):
        correlation = torch.corrcoef(group) - torch.eye(len(group), dtype=group.dtype)
        assert correlation.abs().max() < 4.5 / group.shape[1] ** 0.5


def test_shared_noise_is_one_draw_for_all_rows():
    rows = Randomness(3, seeded()).rows(shared=True)
    assert rows.normal(100, 2).shape == (3, 1, 2)
    assert torch.equal(rows.normal(100, 2), rows.normal(7, 2))
    assert rows.gamma(torch.tensor(2.0), 100).shape == (3, 1)
