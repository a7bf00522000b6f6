"""The layout is what CONTRIBUTING says: one way through."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import neucmds

ROOT = Path(neucmds.__file__).parent


def imported_names(path):
    """Names that a module imports, with the module they come from."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def public_functions():
    """Return what the package, its top-level modules, `explore` and `ecology` export."""
    modules = [path.stem for path in ROOT.glob("[!_]*.py")]
    for module in (
        "",
        ".explore",
        ".ecology",
        *(f".{stem}" for stem in modules),
    ):
        public = import_module(f"neucmds{module}")
        for name in getattr(public, "__all__", ()):
            if inspect.isfunction(getattr(public, name)):
                yield getattr(public, name)


def test_every_public_function_documents_parameters_and_has_an_example():
    functions = {
        function.__name__: function for function in public_functions()
    }
    for name, function in functions.items():
        text = inspect.getdoc(function)
        assert "Examples\n---" in text, name
        assert (
            "Parameters\n---" in text
            or not inspect.signature(function).parameters
        ), name
    assert {"neuc_mds", "compare", "evaluate", "envfit", "dispersion"} <= set(
        functions
    )


def test_public_names_are_listed_and_can_be_had():
    for name in neucmds.__all__:
        assert getattr(neucmds, name) is not None
        assert name in dir(neucmds)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = neucmds.nonsense


def test_benchmarks_import_what_there_is():
    """Nobody runs them all after a module was renamed."""
    folder = Path(__file__).parents[1] / "benchmarks"
    if not folder.exists():
        pytest.skip("benchmarks are not part of this installation")
    missing = [
        f"{path.name}: {module}.{name}"
        for path in sorted(folder.rglob("*.py"))
        for module, name in imported_names(path)
        if name and module.startswith("neucmds")
        if not hasattr(import_module(module), name)
        and not find_spec(f"{module}.{name}")
    ]
    assert missing == []


def is_private(module, name):
    """Tell whether a name comes from a module of neucmds without `__all__`."""
    if module.split(".")[0] != "neucmds":
        return False
    submodule = f"{module}.{name}"
    is_package = find_spec(module).submodule_search_locations is not None
    if name and is_package and find_spec(submodule):
        module = submodule
    return not hasattr(import_module(module), "__all__")


def test_few_test_files_import_private_modules():
    private = {}
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        names = [
            f"{m}.{n}" for m, n in imported_names(path) if is_private(m, n)
        ]
        if names:
            private[path.name] = names
    assert len(private) <= 35, private
