"""Real dissimilarities: perception, proteins, ecology, roads; read from npz archives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neucmds.errors import InputError
from reproduction.data.home import (
    DataNotFoundError,
    PathLike,
    data_folders,
    find_file,
    read_npz,
)


class StoredDissimilarity(NamedTuple):
    """A dissimilarity on the **unsquared** scale, as its source has it, and where it is from."""

    dissimilarity: npt.NDArray[np.float64]
    names: npt.NDArray[np.str_] | None
    labels: npt.NDArray[np.str_] | None
    source: str
    note: str


def list_dissimilarities(data_home: PathLike | None = None) -> list[str]:
    """Names that `load_dissimilarity` knows in a folder: archives there that hold a matrix D.

    Parameters
    ----------
    data_home : path, optional
        Folder to look in, and in its subfolder ``dissimilarities``; default ``$NEUCMDS_DATA``.
    """
    paths = [
        p
        for f in data_folders(data_home, "dissimilarities")
        for p in f.glob("*.npz")
    ]
    return sorted(
        {path.stem for path in paths if _holds_matrix(str(path))},
        key=str.lower,
    )


def load_dissimilarity(
    name: str, *, data_home: PathLike | None = None
) -> StoredDissimilarity:
    """Load a dissimilarity by name, as its source has it: one of them is not symmetric.

    Parameters
    ----------
    name : str
        One of `list_dissimilarities`.
    data_home : path, optional
        Folder to look in, and in its subfolder ``dissimilarities``; default ``$NEUCMDS_DATA``.

    Returns
    -------
    StoredDissimilarity
        The matrix on the unsquared scale, names and class labels where the source has them.
    """
    path = find_file(
        data_folders(data_home, "dissimilarities"), [f"{name}.npz"]
    )
    if path is None:
        known = ", ".join(list_dissimilarities(data_home)) or "none"
        raise DataNotFoundError(
            f"dissimilarity {name!r} not found (there: {known}): put {name}.npz with a key D "
            "into a folder and pass it as data_home or set NEUCMDS_DATA."
        )
    content = read_npz(path, ("D",))
    values = np.asarray(content["D"], dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InputError(
            f"{path}: D has shape {values.shape}, it must be square."
        )
    return StoredDissimilarity(
        dissimilarity=values,
        names=content.get("names"),
        labels=content.get("labels"),
        source=str(content.get("source", "")),
        note=str(content.get("note", "")),
    )


def _holds_matrix(path: str) -> bool:
    """Look at an archive's list of members only."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return "D" in archive.files
    except (ValueError, OSError, EOFError):
        return False
