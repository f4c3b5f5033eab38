"""Files are the published ones, or an error says which is not and what to do."""

import dataclasses
import os
from pathlib import Path

import pytest

from deepwishart.reproduction.datasets import CATALOGUE, DataFileError, Source
from deepwishart.reproduction.datasets.source import BASE_URL

DATA = "UCI_Datasets/yacht/data/data.txt"


@pytest.fixture
def source(server, registry, tmp_path) -> Source:
    """An empty folder, to be filled from the server."""
    return Source(tmp_path / "cache", registry, server.url + "/", retries=0)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def test_the_shipped_registry_has_every_file_of_every_data_set():
    source = Source.find("anywhere")
    for entry in CATALOGUE.values():
        numbers = range(entry.num_splits)
        splits = {f"index_{kind}_{k}.txt" for kind in ("train", "test") for k in numbers}
        names = {"data.txt", "index_features.txt", "index_target.txt", "n_splits.txt"} | splits
        assert set(source.paths(entry.path(""))) == {entry.path(name) for name in names}
    assert all(len(sha256) == 64 for sha256 in source.registry.values())


def test_files_come_from_the_published_commit_by_default(monkeypatch):
    monkeypatch.delenv("DEEPWISHART_DATA", raising=False)
    monkeypatch.delenv("DEEPWISHART_DATA_URL", raising=False)
    assert Source.find().base_url == BASE_URL
    assert "6eb4497628d12b0f300f4b4f6bdc386bebad565c" in BASE_URL
    assert "deepwishart" in str(Source.find().folder)


def test_the_address_comes_from_the_environment(server, monkeypatch, tmp_path):
    monkeypatch.setenv("DEEPWISHART_DATA_URL", server.url)
    assert Source.find(tmp_path).base_url == server.url + "/"
    assert Source.find(tmp_path, "http://elsewhere/x/").base_url == "http://elsewhere/x/"


def test_download_fetches_every_file_once(source, server, files):
    done: list[str] = []
    source.fetch(files, done.append)
    assert sorted(done) == sorted(files) == sorted(server.requests)
    for path, content in files.items():
        assert (source.folder / path).read_bytes() == content
    source.fetch(files)
    assert source.get(DATA).read_bytes() == files[DATA]
    assert len(server.requests) == len(files)


def test_a_damaged_file_in_the_cache_is_fetched_again(source, server, files):
    source.fetch(files)
    (source.folder / DATA).write_bytes(files[DATA][:-7])
    assert source.get(DATA).read_bytes() == files[DATA]
    assert server.requests[len(files) :] == [DATA]


def cut(path: str, content: bytes) -> tuple[bytes, int | None]:
    return content[:40], len(content)


def cut_unannounced(path: str, content: bytes) -> tuple[bytes, int | None]:
    return content[:40], None  # only the checksum sees it


def altered(path: str, content: bytes) -> tuple[bytes, int | None]:
    return content.replace(b"0.25", b"0.26", 1), len(content)


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (cut, "could not be downloaded"),
        (cut_unannounced, "is not the published file"),
        (altered, "is not the published file"),
    ],
)
def test_what_arrives_wrong_is_refused_and_leaves_nothing_behind(
    source, server, files, send, words
):
    rightly, server.send = server.send, send
    with pytest.raises(DataFileError, match=rf"data\.txt.*{words}"):
        source.fetch([DATA])
    assert leftovers(source.folder) == []
    server.send = rightly
    assert source.get(DATA).read_bytes() == files[DATA]


def test_one_bad_file_among_many_is_named(source, server, files):
    bad = "UCI_Datasets/yacht/data/index_test_1.txt"
    server.send = lambda path, content: (content * (1 + (path == bad)), None)
    with pytest.raises(DataFileError, match=r"index_test_1\.txt"):
        source.fetch(files)
    assert not (source.folder / bad).exists()


def test_a_file_that_is_not_on_the_server_is_named(source, server):
    del server.files[DATA]
    with pytest.raises(DataFileError, match=r"data\.txt could not be downloaded: 404"):
        source.fetch([DATA])


def test_no_server_at_all(source):
    nobody = dataclasses.replace(source, base_url="http://127.0.0.1:9/")
    with pytest.raises(DataFileError, match=r"could not be downloaded.*DEEPWISHART_DATA"):
        nobody.fetch([DATA])


def test_a_download_is_tried_again(source, server, files, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr("pooch.core.time.sleep", waits.append)
    answers = [files[DATA][:5], files[DATA]]
    server.send = lambda path, content: (answers.pop(0), None)
    dataclasses.replace(source, retries=1).fetch([DATA])
    assert len(server.requests) == 2 and waits == [1]


def test_a_named_folder_keeps_the_network_out(folder, server, monkeypatch):
    monkeypatch.setenv("DEEPWISHART_DATA", str(folder))
    monkeypatch.setenv("DEEPWISHART_DATA_URL", server.url)
    source = Source.find()
    source.fetch(source.registry)
    (folder / DATA).unlink()
    with pytest.raises(DataFileError):
        source.fetch(source.registry)
    assert server.requests == []


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (os.unlink, "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:10]), r"is altered \(it has 10 bytes"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"1", b"7")), "is altered"),
        (lambda path: path.write_bytes(path.read_bytes() + b"1"), "is altered"),
    ],
)
def test_a_bad_file_in_a_named_folder(folder, monkeypatch, damage, words):
    monkeypatch.setenv("DEEPWISHART_DATA", str(folder))
    damage(folder / DATA)
    with pytest.raises(DataFileError, match=rf"data\.txt {words}.*unset DEEPWISHART_DATA"):
        Source.find().get(DATA)


def test_published_checksums_hold_where_a_folder_has_no_registry(folder, monkeypatch):
    monkeypatch.setenv("DEEPWISHART_DATA", str(folder))
    (folder / "registry.txt").unlink()
    with pytest.raises(DataFileError, match=r"data\.txt is altered"):
        Source.find().get(DATA)
