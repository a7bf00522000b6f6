"""Files that the tools write."""

from __future__ import annotations

import os
from pathlib import Path

from neucmds.backend.files import check_target
from neucmds.errors import InputError, option


def check_new(path: Path, overwrite: bool) -> None:
    """Refuse a path that cannot be written to, or must not be."""
    check_target(path)
    if os.path.lexists(path) and not overwrite:
        raise InputError(
            f"{path} exists already; pass {option('overwrite', True)}, or another name."
        )
