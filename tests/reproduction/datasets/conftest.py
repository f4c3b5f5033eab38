"""Data of the published layout, and a server on loopback that may misbehave."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = "UCI_Datasets/yacht/data"


@pytest.fixture
def files() -> dict[str, bytes]:
    """A small data set that calls itself yacht: target between the features, two splits."""
    table = np.arange(24.0).reshape(6, 4) + 0.25
    contents = {
        "data.txt": "\n".join(" ".join(map(str, row)) for row in table) + "\n\n",
        "index_features.txt": "3\n0\n1\n",
        "index_target.txt": "2\n",
        "n_splits.txt": "2",
        "index_train_0.txt": "0\n5\n2\n3\n",
        "index_test_0.txt": "4\n1\n",
        "index_train_1.txt": "5\n4\n3\n2\n1\n",
        "index_test_1.txt": "0\n",
    }
    return {f"{FOLDER}/{name}": text.encode() for name, text in contents.items()}


@pytest.fixture
def registry(files: dict[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


@pytest.fixture
def folder(files: dict[str, bytes], registry: dict[str, str], tmp_path: Path) -> Path:
    """The data set in a folder with a registry of its own."""
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    lines = [f"{path} {sha256}" for path, sha256 in registry.items()]
    (tmp_path / "registry.txt").write_text("# a comment\n" + "\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Serves the folder at ``url``; ``requests`` are the paths it was asked for."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    requests: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            requests.append(self.path.removeprefix("/"))

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield SimpleNamespace(url=f"http://127.0.0.1:{http.server_port}", requests=requests)
        http.shutdown()
        thread.join()
