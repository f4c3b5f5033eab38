"""Every public name says what it is, and shows it with an example that runs."""

import dataclasses
import importlib
import inspect
import pkgutil
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
INTERNAL = {"native"}  # what numerics computes with
FOUND = {module.name for module in pkgutil.iter_modules(deepwishart.__path__)}
PARTS = {f"reproduction.{name}" for name in ("datasets", "sweeps", "report", "toy")}
MODULES = [
    "deepwishart",
    *(f"deepwishart.{n}" for n in sorted(FOUND - INTERNAL | PARTS) if not n.startswith("_")),
]


def public_names(module_name: str) -> dict[str, Any]:
    """Classes and functions that a module offers: of ``__all__``, or else those it defines."""
    module = importlib.import_module(module_name)
    offered = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module_name
    ]
    values = {name: getattr(module, name) for name in offered}
    return {n: v for n, v in values.items() if inspect.isclass(v) or inspect.isroutine(v)}


@pytest.mark.parametrize("module_name", MODULES)
def test_everything_public_has_a_docstring(module_name: str) -> None:
    """Methods that override one of a class of ours may leave the explanation to it."""
    silent = [] if inspect.getdoc(importlib.import_module(module_name)) else [module_name]
    for name, value in public_names(module_name).items():
        # Dataclasses and named tuples without a docstring get one that repeats their signature.
        generated = f"{name}(" if inspect.isclass(value) else "\0"
        if not value.__doc__ or value.__doc__.startswith(generated):
            silent.append(name)
        for method, member in vars(value).items() if inspect.isclass(value) else ():
            function = getattr(member, "fget", getattr(member, "__func__", member))
            if method.startswith("_") or not inspect.isfunction(function):
                continue
            versions = (getattr(base, method, None) for base in value.__mro__)
            if not any(getattr(version, "__doc__", None) for version in versions):
                silent.append(f"{name}.{method}")
    assert not silent, f"{module_name}: no docstring for {', '.join(silent)}"


@pytest.mark.parametrize("module_name", MODULES)
def test_every_public_name_has_an_example(module_name: str) -> None:
    lacking = {
        name
        for name, value in public_names(module_name).items()
        if ">>>" not in (value.__doc__ or "") and not _is_error_or_record(value)
    }
    known = WITHOUT_EXAMPLE.get(module_name, set())
    assert lacking <= known, f"{module_name}: no example for {', '.join(sorted(lacking - known))}"


def _is_error_or_record(value: Any) -> bool:
    if not inspect.isclass(value):
        return False
    return dataclasses.is_dataclass(value) or issubclass(value, Exception | tuple)
