"""docs/paper_map.md and docs/errata.md name functions and files that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = "api|datasets|diagnostics|embedding|estimators|metrics|plots|reproduction|theory"
PACKAGES = rf"(?:_\w+|{PUBLIC})"
# `theory.neuc_error`, with any number of levels; not `eq:pqnorm`.
NAMED = re.compile(rf"`({PACKAGES}(?:\.\w+)+)`")


def named(page: str) -> list[str]:
    return sorted(set(NAMED.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))))


def resolve(path: str) -> object:
    """Import as much of a dotted path as is a module, and take the rest as attributes."""
    parts = path.split(".")
    if parts[0] != "reproduction":
        parts = ["neucmds", *parts]
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize("path", sorted({*named("paper_map.md"), *named("errata.md")}))
def test_what_the_page_names_exists(path):
    assert resolve(path) is not None


def test_the_pages_are_read():
    assert len(named("paper_map.md")) > 40
    with pytest.raises(AttributeError):
        resolve("theory.classical_error_large")


def test_files_named_in_the_map_exist():
    page = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:tests|docs)/[^`]+)`", page))
    assert files
    assert all((ROOT / file).is_file() for file in files)
