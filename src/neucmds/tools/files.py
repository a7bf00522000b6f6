"""Files that the tools read and write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neucmds.backend.files import check_target, refuse_existing
from neucmds.ecology.metadata import (
    as_metadata,
    check_column,
    match_rows,
    read_metadata,
)
from neucmds.errors import InputError, option


def check_new(path: Path, overwrite: bool) -> None:
    """Refuse a path that cannot be written to, or that exists and must stay."""
    check_target(path)
    if not overwrite:
        refuse_existing(path)


def objects_table(
    metadata: Any,
    labels: Sequence[str] | None,
    n: int,
    missing: str,
    color_by: str | None,
) -> Any:
    """Return metadata, a path or a table, as a table in the order of the objects; None stays.

    `missing` is as for `match_rows`, and `color_by` a column that the table must have.
    """
    if metadata is None:
        if color_by is not None:
            raise InputError(
                f"{option('color_by', color_by)} needs {option('metadata')}."
            )
        return None
    if isinstance(metadata, (str, os.PathLike)):
        metadata = read_metadata(metadata)
    table = as_metadata(metadata)
    if color_by is not None:
        check_column(table, color_by)
    return match_rows(table, labels, n, missing=missing)
