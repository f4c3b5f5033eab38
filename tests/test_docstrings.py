"""Every public name says what it is, and shows it with an example that runs."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import deepwishart

# Errors and records (dataclasses, named tuples) may go without an example: others fill them in.
# Besides those, protocols and abstract classes whose implementations have one, and what needs
# files, a cluster or a terminal. Everything else has an example.
WITHOUT_EXAMPLE = {
    "deepwishart.cli": {"app"},
    "deepwishart.reproduction.sweeps": {"Engine", "RayEngine"},
}


def modules() -> list[str]:
    found = [module.name for module in pkgutil.iter_modules(deepwishart.__path__)]
    public = [name for name in found if not name.startswith("_")]
    parts = [f"reproduction.{name}" for name in ("datasets", "sweeps", "report", "toy")]
    return ["deepwishart", *(f"deepwishart.{name}" for name in [*public, *parts])]


def public_names(module_name: str) -> Iterator[tuple[str, Any]]:
    """What a module offers: ``__all__``, or else what it defines."""
    module = importlib.import_module(module_name)
    offered = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module_name
    ]
    for name in offered:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            yield name, value


@pytest.mark.parametrize("module_name", modules())
def test_every_module_says_what_it_is_for(module_name: str) -> None:
    assert inspect.getdoc(importlib.import_module(module_name))


@pytest.mark.parametrize("module_name", modules())
def test_every_public_name_has_a_docstring_of_its_own(module_name: str) -> None:
    generated = {
        name: f"{name}(" for name, value in public_names(module_name) if inspect.isclass(value)
    }
    silent = [
        name
        for name, value in public_names(module_name)
        # Dataclasses and named tuples without a docstring get one that repeats their signature.
        if not value.__doc__ or value.__doc__.startswith(generated.get(name, "\0"))
    ]
    assert not silent, f"{module_name}: no docstring for {', '.join(silent)}"


@pytest.mark.parametrize("module_name", modules())
def test_public_methods_are_documented(module_name: str) -> None:
    """Methods that override one of a class of ours may leave the explanation to it."""
    silent = []
    for class_name, value in public_names(module_name):
        if not inspect.isclass(value):
            continue
        for name, member in vars(value).items():
            function = getattr(member, "fget", getattr(member, "__func__", member))
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            inherited = (getattr(base, name, None) for base in value.__mro__[1:])
            if not function.__doc__ and not any(getattr(b, "__doc__", None) for b in inherited):
                silent.append(f"{class_name}.{name}")
    assert not silent, f"{module_name}: no docstring for {', '.join(silent)}"


@pytest.mark.parametrize("module_name", modules())
def test_every_public_name_has_an_example(module_name: str) -> None:
    lacking = {
        name
        for name, value in public_names(module_name)
        if ">>>" not in (value.__doc__ or "") and not _is_error_or_record(value)
    }
    known = WITHOUT_EXAMPLE.get(module_name, set())
    assert lacking <= known, f"{module_name}: no example for {', '.join(sorted(lacking - known))}"


def _is_error_or_record(value: Any) -> bool:
    if not inspect.isclass(value):
        return False
    return dataclasses.is_dataclass(value) or issubclass(value, Exception | tuple)
