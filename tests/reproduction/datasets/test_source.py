"""Files are the published ones, or an error says which is not and what to do."""

import os

import pytest

from deepwishart.reproduction.datasets import CATALOGUE, DataFileError, Source
from deepwishart.reproduction.datasets.source import BASE_URL

DATA = "UCI_Datasets/yacht/data/data.txt"


@pytest.fixture
def source(server, registry, tmp_path) -> Source:
    """An empty folder, to be filled from the server."""
    return Source(tmp_path / "cache", registry, server.url + "/")


def test_the_shipped_registry_has_every_file_of_every_data_set():
    source = Source.find("anywhere")
    for entry in CATALOGUE.values():
        numbers = range(entry.num_splits)
        splits = {f"index_{kind}_{k}.txt" for kind in ("train", "test") for k in numbers}
        names = {"data.txt", "index_features.txt", "index_target.txt", "n_splits.txt"} | splits
        assert set(source.paths(entry.path(""))) == {entry.path(name) for name in names}
    assert all(len(sha256) == 64 for sha256 in source.registry.values())


def test_files_come_from_the_published_commit_or_from_where_one_says(monkeypatch, tmp_path):
    for name in ("DEEPWISHART_DATA", "DEEPWISHART_DATA_URL"):
        monkeypatch.delenv(name, raising=False)
    assert Source.find().base_url == BASE_URL and "deepwishart" in str(Source.find().folder)
    assert "6eb4497628d12b0f300f4b4f6bdc386bebad565c" in BASE_URL
    monkeypatch.setenv("DEEPWISHART_DATA_URL", "http://somewhere")
    assert Source.find(tmp_path).base_url == "http://somewhere/"


def test_download_fetches_every_file_once(source, server, files):
    for _ in range(2):
        for path, content in files.items():
            assert source.get(path).read_bytes() == content
    assert sorted(server.requests) == sorted(files)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (os.unlink, "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:10]), r"is altered \(it has 10 bytes"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"1", b"7")), "is altered"),
    ],
)
def test_a_bad_file_in_a_named_folder(folder, server, monkeypatch, damage, words):
    """It is an error; the network is left alone."""
    monkeypatch.setenv("DEEPWISHART_DATA", str(folder))
    monkeypatch.setenv("DEEPWISHART_DATA_URL", server.url)
    assert Source.find().get(DATA) == folder / DATA
    damage(folder / DATA)
    with pytest.raises(DataFileError, match=rf"data\.txt {words}.*unset DEEPWISHART_DATA"):
        Source.find().get(DATA)
    assert server.requests == []
