"""The cache of native code: whatever is wrong with it means slower, never an error."""

import errno
import io
import logging
import os
import pwd
import stat
import sys
from pathlib import Path

import pytest

from deepwishart.native import NativeUnavailable, build


class Compiler:
    """Stands in for the compiler, which takes half a minute."""

    def __init__(self) -> None:
        self.present = True
        self.calls = 0

    def __call__(self, output: Path, architecture: str | None) -> None:
        if not self.present:
            raise NativeUnavailable("no C++ compiler was found")
        self.calls += 1
        output.write_bytes(b"library" * 1000)
        output.chmod(0o777)


@pytest.fixture
def compiler(monkeypatch):
    compiler = Compiler()
    monkeypatch.setattr(build, "_run_compiler", compiler)
    return compiler


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Where the library goes; not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "deepwishart" / "native"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_compiles_once_for_nobody_else_to_write(compiler, folder):
    library = build.find_or_compile()
    assert build.find_or_compile() == library and compiler.calls == 1
    assert library.read_bytes() == b"library" * 1000
    assert mode(folder) == 0o700 and mode(library) == 0o644
    assert list(folder.iterdir()) == [library]


def test_a_damaged_library_is_compiled_anew(compiler, folder):
    library = build.find_or_compile()
    for damage in (b"", b"library" * 999, b"something else"):
        library.write_bytes(damage)
        assert build.find_or_compile().read_bytes() == b"library" * 1000
    assert compiler.calls == 4


def test_a_read_only_home(compiler, folder, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(NativeUnavailable, match="Read-only file system"):
        build.find_or_compile()


def test_no_home_at_all(compiler, monkeypatch, tmp_path):
    def nobody(identifier):
        raise KeyError(identifier)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(NativeUnavailable, match="set HOME"):
        build.find_or_compile()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("permissions", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(compiler, folder, permissions):
    build.find_or_compile()
    folder.chmod(permissions)
    with pytest.raises(build.CacheRefused, match="others can write to"):
        build.find_or_compile()


def test_a_library_that_others_can_write_to_is_refused(compiler, folder):
    build.find_or_compile().chmod(0o666)
    with pytest.raises(build.CacheRefused, match=r"others can write to .*\.so"):
        build.find_or_compile()


def test_the_folder_of_another_user_is_refused(compiler, folder, monkeypatch):
    build.find_or_compile()
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(build.CacheRefused, match="belongs to another user"):
        build.find_or_compile()


def test_a_terminal_is_told_about_the_wait(compiler, folder, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)
    build.find_or_compile()
    build.find_or_compile()
    (line,) = terminal.getvalue().splitlines()
    assert line.startswith("deepwishart: compiling native code once")


def test_elsewhere_the_wait_is_logged(compiler, folder, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="deepwishart"):
        build.find_or_compile()
    assert "compiling native code once" in caplog.text
    assert capsys.readouterr().err == ""
