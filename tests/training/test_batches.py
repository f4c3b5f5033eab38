import pytest
import torch

from deepwishart.training.state import Minibatches, given_batches


def take(batch_size: int | None, numbers: range, seed: int = 5) -> list[list[int]]:
    rows = torch.arange(10.0)
    batches = Minibatches(rows[:, None], -rows[:, None], batch_size)
    found = [batches(seed, number) for number in numbers]
    assert all(torch.equal(X, -y) for X, y in found)
    return [X.flatten().int().tolist() for X, _ in found]


def test_every_epoch_visits_every_row_once_in_a_new_order():
    first, second = take(4, range(3)), take(4, range(3, 6))
    assert [len(rows) for rows in first] == [4, 3, 3]
    for epoch in (first, second):
        assert sorted(row for rows in epoch for row in rows) == list(range(10))
    assert first != second


@pytest.mark.parametrize("batch_size", [None, 10, 11])
def test_a_full_batch_leaves_the_rows_alone(batch_size):
    assert take(batch_size, range(2)) == 2 * [list(range(10))]


def test_a_batch_depends_on_the_seed_and_its_number_alone():
    whole = take(4, range(9))
    assert all(take(4, range(done, 9)) == whole[done:] for done in (0, 1, 3, 4))
    assert take(4, range(9), seed=6) != whole


def test_given_batches_start_again_when_they_end():
    first, second = (torch.zeros(2, 1), torch.zeros(2)), (torch.ones(1, 1), torch.ones(1))
    batches = given_batches([first, second])
    assert [batches(0, 0)[0] is batch[0] for batch in (first, second, first)] == 3 * [True]


def test_given_batches_that_cannot_start_again_say_so():
    batches = given_batches(iter([(torch.zeros(2, 1), torch.zeros(2))]))
    batches(0, 0)
    with pytest.raises(ValueError, match="cannot be started again"):
        batches(0, 1)
