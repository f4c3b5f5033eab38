"""Lists of runs."""

from dataclasses import asdict

import pytest

from deepwishart.reproduction.sweeps import (
    Settings,
    expand,
    parse_numbers,
    settings_version,
)
from deepwishart.training import Protocol


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [(["0-19"], tuple(range(20))), (["5", "3", "3-4"], (3, 4, 5)), (["7-7,1, 2"], (1, 2, 7))],
)
def test_numbers(texts, numbers):
    assert parse_numbers(texts) == numbers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "write 0-19") for text in ("", "a", "1-", "-1", "1-2-3", "1.5", "\u00b2")),
        ("5-3", "ends before it begins"),
    ],
)
def test_bad_numbers_are_named(text, words):
    with pytest.raises(ValueError, match=f"depths: .*{words}"):
        parse_numbers([text], "depths")


def test_every_combination_once_and_split_by_split():
    asked = {"processes": ["dwp", "dgp"], "depths": [2, 5], "splits": [0, 1], "seeds": [0, 1]}
    runs = expand({"yacht": 20, "boston": 20}, **asked, protocol="fast")
    assert len(runs) == len(set(runs)) == 2 * 2 * 2 * 2 * 2
    assert [run.split for run in runs] == [0] * 16 + [1] * 16
    assert {run.protocol for run in runs} == {"fast"}
    assert len({run.key for run in runs}) == len(runs)


def test_splits_that_nobody_has():
    with pytest.raises(ValueError, match=r"No data set has a split 20 .*yacht has 20"):
        expand({"yacht": 20}, processes=["dwp"], depths=[2], splits=[0, 20])
    with pytest.raises(ValueError, match="protein has splits 0 to 4, none of which"):
        expand({"yacht": 20, "protein": 5}, processes=["dwp"], depths=[2], splits=[7])


def test_a_version_names_what_is_not_usual():
    paper, fast = ({"max_iter": steps, "num_samples": 10} for steps in (20_000, 2_000))
    usual = settings_version(Settings(), paper)
    same = {**paper, "batch_size": 500, "betas": [0.9, 0.999]}
    assert settings_version(Settings(), same) == usual
    models = ({"posterior": "rows"}, {"output": "inducing"}, {"output": "collapsed"})
    trainings = ({"num_samples": 10}, {"learning_rate": 0.01}, {"start": "prior"})
    others = [*map(Settings, models), *(Settings(**training) for training in trainings)]
    versions = {usual, settings_version(Settings(), fast)}
    assert len(versions | {settings_version(other, paper) for other in others}) == 8
    assert settings_version(Settings({"posterior": "bartlett", "width": None}), paper) == usual


def test_runs_in_the_repository_keep_their_versions():
    """Or else a sweep that goes on would do them all again."""
    paper = asdict(Protocol.named("paper", 300))
    assert settings_version(Settings(), paper) == "a205c866"
