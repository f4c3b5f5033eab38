"""The nine UCI regression data sets of the paper, and which files they consist of."""

from __future__ import annotations

from dataclasses import dataclass

from deepwishart._support.arguments import check_choice


@dataclass(frozen=True)
class Entry:
    """What is known about a data set before any file is read: its name in this package and in the
    paper's tables, its folder in the published repository, and how much there is of it."""

    name: str
    folder: str
    num_rows: int
    num_features: int
    num_splits: int

    def path(self, file: str) -> str:
        """Path of one of its files, below the folder that holds all data sets."""
        return f"UCI_Datasets/{self.folder}/data/{file}"


CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry("boston", "bostonHousing", 506, 13, 20),
        Entry("concrete", "concrete", 1030, 8, 20),
        Entry("energy", "energy", 768, 8, 20),
        Entry("kin8nm", "kin8nm", 8192, 8, 20),
        Entry("naval", "naval-propulsion-plant", 11934, 16, 20),
        Entry("power", "power-plant", 9568, 4, 20),
        Entry("protein", "protein-tertiary-structure", 45730, 9, 5),
        Entry("wine", "wine-quality-red", 1599, 11, 20),
        Entry("yacht", "yacht", 308, 6, 20),
    )
}


def names() -> tuple[str, ...]:
    """Names of the data sets, in alphabetical order.

    >>> names()[:3]
    ('boston', 'concrete', 'energy')
    """
    return tuple(CATALOGUE)


def entry(name: str) -> Entry:
    """The catalogue's entry for a data set; a clear error for an unknown name."""
    check_choice("data set", name, CATALOGUE)
    return CATALOGUE[name]
