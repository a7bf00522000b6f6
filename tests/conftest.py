"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Folder of real data: $NEUCMDS_DATA, else shared/data beside the checkout, else skip."""
    root = Path(__file__).resolve().parents[1]
    named = os.environ.get("NEUCMDS_DATA")
    candidates = [Path(named)] if named else []
    candidates += [parent / "shared" / "data" for parent in (root.parent, root.parent.parent)]
    for folder in candidates:
        if (folder / "images").is_dir():
            return folder
    pytest.skip(
        "no real data: set NEUCMDS_DATA to a folder with images/, genomics/, dissimilarities/"
    )
