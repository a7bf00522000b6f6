"""Gene expression tables: npz archives, and CuMiDa's CSV files as users download them.

Paper: sec:experiments. The paper's five sets are CuMiDa's, one CSV each.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neucmds.errors import FileFormatError
from reproduction.data.home import DataNotFoundError, PathLike, data_folders, find_file, read_npz

# Stored by their sources as raw intensities; everything else is on a log scale already.
RAW_INTENSITY = ("sarcoma_nakayama", "breast_colon_chowdary", "lung_gordon", "tox_171")


class Expression(NamedTuple):
    """Expression values (samples × probes, log scale), one label a sample, names where known."""

    values: npt.NDArray[np.float32]
    labels: npt.NDArray[np.str_]
    samples: npt.NDArray[np.str_] | None
    probes: npt.NDArray[np.str_] | None


def load_genomics(
    name_or_path: PathLike, *, data_home: PathLike | None = None, log: bool | None = None
) -> Expression:
    """Load a gene expression table.

    Parameters
    ----------
    name_or_path : str or path
        A file (.npz with keys X and y, or a CSV with the header ``samples,type,`` and one column a
        probe), or the name of such a file in `data_home`, with or without its ending.
    data_home : path, optional
        Folder to look in, and in its subfolder ``genomics``; default ``$NEUCMDS_DATA``.
    log : bool, optional
        Whether to take log2(1 + max(x, 0)). Default: only for the sets known to hold raw
        intensities.

    Returns
    -------
    Expression
        Values, labels, and the names of samples and probes where the file has them.
    """
    path = _locate(name_or_path, data_home)
    table = _read_csv(path) if path.suffix.lower() == ".csv" else _read_archive(path)
    if log is None:
        log = path.stem in RAW_INTENSITY
    if log:
        table = table._replace(values=np.log2(1.0 + np.maximum(table.values, 0.0)))
    return table


def _locate(name_or_path: PathLike, data_home: PathLike | None) -> Path:
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    name = str(name_or_path)
    found = find_file(data_folders(data_home, "genomics"), [name, f"{name}.npz", f"{name}.csv"])
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
        raise FileFormatError(
            f"{path}: X is {values.shape} and y is {labels.shape}; rows must agree."
        )
    return Expression(values, labels, content.get("samples"), content.get("probes"))


def _read_csv(path: Path) -> Expression:
    """Read CuMiDa's form row by row: 50,000 probes a line are kept as text one line at a time."""
    samples, labels, rows = [], [], []
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream)
        header = next(reader, [])
        if [column.strip().lower() for column in header[:2]] != ["samples", "type"]:
            raise FileFormatError(
                f"{path} starts with {','.join(header[:2])!r}, not with CuMiDa's 'samples,type'."
            )
        for row in filter(None, reader):
            if len(row) != len(header):
                raise FileFormatError(
                    f"{path}, line {reader.line_num}: {len(row)} columns, the header has "
                    f"{len(header)}."
                )
            samples.append(row[0])
            labels.append(row[1])
            rows.append(_numbers(row[2:], path, reader.line_num))
    if not rows:
        raise FileFormatError(f"{path} holds a header and no samples.")
    return Expression(np.array(rows), np.array(labels), np.array(samples), np.array(header[2:]))


def _numbers(cells: list[str], path: Path, line: int) -> npt.NDArray[np.float32]:
    try:
        return np.array(cells, dtype=np.float64).astype(np.float32)
    except ValueError as error:
        raise FileFormatError(f"{path}, line {line}: {error}.") from error
