"""The layout is what CONTRIBUTING says: one way through."""

from __future__ import annotations

import ast
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


def public_modules():
    """Return modules on the top level, of `explore` and of `ecology`, with their public names."""
    for path in (*ROOT.glob("[!_]*.py"), *ROOT.glob("e[cx]*/[!_]*.py")):
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        yield path, set(getattr(import_module(module), "__all__", ()))


def test_every_public_function_documents_parameters_and_has_an_example():
    lacking, seen = [], set()
    for path, public in public_modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name in public:
                seen.add(node.name)
                text = ast.get_docstring(node) or ""
                wanted = ("Examples\n---", *(["Parameters\n---"] if node.args.args else []))
                if any(part not in text for part in wanted):
                    lacking.append(f"{path.name}:{node.name}")
    assert lacking == []
    assert {"neuc_mds", "compare", "stress_curve", "diagnose", "evaluate"} <= seen


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
        if not hasattr(import_module(module), name) and not find_spec(f"{module}.{name}")
    ]
    assert missing == []
