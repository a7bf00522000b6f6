"""Gene expression tables: npz archives, and CuMiDa's CSV files as users download them.

Paper: sec:experiments. The paper's five sets are CuMiDa's, one CSV each.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_numeric_dtype

from neucmds.errors import InputError
from reproduction.data.home import (
    DataNotFoundError,
    PathLike,
    data_folders,
    find_file,
    read_npz,
)

# Stored by their sources as raw intensities; everything else is on a log scale already.
RAW_INTENSITY = (
    "sarcoma_nakayama",
    "breast_colon_chowdary",
    "lung_gordon",
    "tox_171",
)


class Expression(NamedTuple):
    """Expression values (samples × probes, log scale) and one label per sample."""

    values: npt.NDArray[np.float32]
    labels: npt.NDArray[np.str_]


def load_genomics(
    name_or_path: PathLike, *, data_home: PathLike | None = None
) -> Expression:
    """Load a gene expression table.

    Parameters
    ----------
    name_or_path : str or path
        A file (.npz with keys X and y, or a CSV with the header ``samples,type,`` and one column a
        probe), or the name of such a file in `data_home`, with or without its ending.
    data_home : path, optional
        Folder to look in, and in its subfolder ``genomics``; default ``$NEUCMDS_DATA``.

    Returns
    -------
    Expression
        Values and labels; log2(1 + max(x, 0)) of the sets known to hold raw intensities.
    """
    path = _locate(name_or_path, data_home)
    table = (
        _read_csv(path)
        if path.suffix.lower() == ".csv"
        else _read_archive(path)
    )
    if path.stem in RAW_INTENSITY:
        table = table._replace(
            values=np.log2(1.0 + np.maximum(table.values, 0.0))
        )
    return table


def _locate(name_or_path: PathLike, data_home: PathLike | None) -> Path:
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    name = str(name_or_path)
    found = find_file(
        data_folders(data_home, "genomics"),
        [name, f"{name}.npz", f"{name}.csv"],
    )
    if found is None:
        raise DataNotFoundError(
            f"expression table {name!r} not found: pass the path of the .npz or CuMiDa .csv, or "
            "put it into a folder and pass that as data_home or set NEUCMDS_DATA."
        )
    return found


def _read_archive(path: Path) -> Expression:
    content = read_npz(path, ("X", "y"))
    values = np.asarray(content["X"], dtype=np.float32)
    labels = content["y"].astype(np.str_)
    if values.ndim != 2 or len(labels) != len(values):
        raise InputError(
            f"{path}: X is {values.shape} and y is {labels.shape}; rows must agree."
        )
    return Expression(values, labels)


def _read_csv(path: Path) -> Expression:
    """Read CuMiDa's form: the columns samples and type, then one column per probe."""
    try:
        table = pd.read_csv(
            path, index_col=False, dtype={"samples": str, "type": str}
        )
    except (
        ValueError
    ) as error:  # what pandas raises for a file that is no table
        raise InputError(f"{path} cannot be read: {error}.") from error
    if list(table.columns[:2]) != ["samples", "type"]:
        head = ",".join(map(str, table.columns[:2]))
        raise InputError(
            f"{path} starts with {head!r}, not with CuMiDa's 'samples,type'."
        )
    probes = table.iloc[:, 2:]
    if (
        table.empty
        or probes.isna().any(axis=None)
        or not all(map(is_numeric_dtype, probes.dtypes))
    ):
        raise InputError(
            f"{path} needs samples, and a number for each of their probes."
        )
    return Expression(
        probes.to_numpy(np.float32), table["type"].to_numpy(np.str_)
    )
