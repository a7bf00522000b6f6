"""Writes the pages of the reference from the `__all__` of every public module.

Pages are made, not kept: a name that a module exports is in the reference, and none can be
forgotten. What `neucmds` itself exports is on the first page only.
"""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import neucmds

# The command line has a page of its own.
WITHOUT_NAMES = {"neucmds.tools.cli", "neucmds.__main__"}


def public_modules() -> list[str]:
    """Return the modules and packages that export names: those with an `__all__`."""
    modules = [
        m.name for m in pkgutil.walk_packages(neucmds.__path__, "neucmds.")
    ]
    return [name for name in modules if name not in WITHOUT_NAMES]


def exported() -> dict[str, list[str]]:
    """Return the public names of each module, `neucmds` first, each name once."""
    first = [name for name in neucmds.__all__ if not name.startswith("__")]
    names = {"neucmds": first}
    for module in public_modules():
        everything = getattr(import_module(module), "__all__", [])
        names[module] = [name for name in everything if name not in first]
    return {module: listed for module, listed in names.items() if listed}


def page(module: str, names: list[str]) -> str:
    """Return the page of a module: what it is for, and a line for each name."""
    summary = inspect.getdoc(import_module(module)) or ""
    listed = "\n".join(f"   {name}" for name in names)
    return (
        f"{module}\n{'=' * len(module)}\n\n{summary}\n\n"
        f".. currentmodule:: {module}\n\n"
        f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{listed}\n"
    )


def write_reference(folder: Path) -> None:
    """Write one page a module into a folder, and leave pages that have not changed alone."""
    folder.mkdir(exist_ok=True)
    pages = {
        module: page(module, names) for module, names in exported().items()
    }
    contents = "\n".join(f"   {module}" for module in pages)
    pages["index"] = (
        "Reference\n=========\n\nEvery public name; :doc:`the commands </guide/commands>` "
        f"have a page of their own.\n\n.. toctree::\n   :maxdepth: 1\n\n{contents}\n"
    )
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
