import pytest
import torch

from deepwishart.training.batches import Minibatches


def take(batches: Minibatches, count: int) -> list[list[int]]:
    return [rows.tolist() for rows in (batches.next_rows() for _ in range(count))]


def test_every_epoch_visits_every_row_once_in_a_new_order():
    batches = Minibatches(10, batch_size=4, seed=0)
    first, second = take(batches, 3), take(batches, 3)
    assert [len(rows) for rows in first] == [4, 3, 3]
    for epoch in (first, second):
        assert sorted(row for rows in epoch for row in rows) == list(range(10))
    assert first != second


@pytest.mark.parametrize("batch_size", [None, 10, 11])
def test_a_full_batch_leaves_the_rows_alone(batch_size):
    assert Minibatches(10, batch_size=batch_size, seed=0).next_rows() is None


def test_the_seed_decides_the_order():
    def order(seed: int) -> list[list[int]]:
        return take(Minibatches(10, 4, seed), 9)

    assert order(0) == order(0) != order(1)


@pytest.mark.parametrize("done", [0, 1, 3, 4])
def test_state_continues_within_and_between_epochs(done):
    batches = Minibatches(10, batch_size=4, seed=5)
    take(batches, done)
    state, position = batches.state()
    state = state.clone()
    expected = take(batches, 7)
    other = Minibatches(10, batch_size=4, seed=6)
    other.load(state, position)
    assert take(other, 7) == expected
    assert state.dtype == torch.uint8
