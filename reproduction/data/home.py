"""Where data files are looked for: the argument first, then the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.errors import InputError

PathLike = str | os.PathLike[str]


class DataNotFoundError(InputError):
    """A data set is neither in the folders that were searched nor to be had from the network."""


def data_folders(data_home: PathLike | None, kind: str) -> list[Path]:
    """Folders to search for data of one kind: `data_home` or $NEUCMDS_DATA, and `kind` below it."""
    home = data_home or os.environ.get("NEUCMDS_DATA")
    if not home:
        return []
    root = Path(home).expanduser()
    return [root, root / kind]


def find_file(folders: list[Path], names: list[str]) -> Path | None:
    """First file that exists, the order of names before that of folders."""
    candidates = (folder / name for name in names for folder in folders)
    return next((path for path in candidates if path.is_file()), None)


def read_npz(
    path: Path, required: tuple[str, ...]
) -> dict[str, npt.NDArray[Any]]:
    """Read an npz archive without unpickling; missing keys are an error that names them."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            content = {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be read as an npz archive: {error}."
        ) from error
    missing = [key for key in required if key not in content]
    if missing:
        found = ", ".join(content) or "nothing"
        raise InputError(
            f"{path} lacks {', '.join(missing)}; it holds {found}."
        )
    return content
