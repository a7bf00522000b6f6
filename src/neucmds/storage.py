"""An embedding as one npz file: no pickle, a format version, and never half-written."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from neucmds.arrays import to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import FileFormatError, InputError
from neucmds.placement import LeastSquaresPlacement, LinearPlacement, Placement

__all__ = ["FORMAT_VERSION", "load_embedding", "save_embedding"]

FORMAT_VERSION = 1
_ARRAYS = ("coordinates", "signs", "eigenvalues", "weights", "residuals")
_SCALARS = ("sq_norm", "method", "requested", "squared", "converged", "solver")


def save_embedding(embedding: Embedding, path: str | PathLike[str]) -> None:
    """Write an embedding to `path`: first beside it, then moved into place."""
    target = Path(path)
    header = {name: getattr(embedding, name) for name in _SCALARS}
    header |= {"format": "neucmds.Embedding", "version": FORMAT_VERSION}
    header["placement"] = type(embedding.placement).__name__
    arrays: dict[str, Any] = {name: to_numpy(getattr(embedding, name)) for name in _ARRAYS}
    arrays["stress_terms"] = np.asarray(embedding.stress_terms)
    arrays["history"] = np.asarray(embedding.history, dtype=np.float64)
    if embedding.labels is not None:
        arrays["labels"] = np.asarray(embedding.labels, dtype=np.str_)
    if isinstance(embedding.placement, LinearPlacement):
        arrays["placement_mean"] = to_numpy(embedding.placement.mean)
        arrays["placement_projector"] = to_numpy(embedding.placement.projector)
    if isinstance(embedding.placement, LeastSquaresPlacement):
        for name in ("offsets", "ridge"):
            if (values := getattr(embedding.placement, name)) is not None:
                arrays[f"placement_{name}"] = to_numpy(values)
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist; make it first.")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, header=np.asarray(json.dumps(header)), **arrays)
        # mkstemp lets only its owner read; a result is as readable as any other new file.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load_embedding(path: str | PathLike[str]) -> Embedding:
    """Read an embedding; a foreign, damaged or newer file is refused by one clear line."""
    arrays = _read_arrays(Path(path))
    try:
        header = json.loads(str(arrays.pop("header")))
        known = header["format"] == "neucmds.Embedding" and int(header["version"]) > 0
    except (KeyError, ValueError, TypeError) as problem:
        raise FileFormatError(f"{path}: not an embedding saved by neucmds.") from problem
    if not known:
        raise FileFormatError(f"{path}: not an embedding saved by neucmds.")
    if int(header["version"]) > FORMAT_VERSION:
        raise FileFormatError(
            f"{path}: written in format {header['version']}, but this neucmds reads up to "
            f"{FORMAT_VERSION}; update neucmds."
        )
    try:
        return _rebuild(header, arrays)
    except (KeyError, ValueError, TypeError) as problem:
        raise FileFormatError(f"{path}: damaged, {problem!r} is missing or wrong.") from problem


def _rebuild(header: dict[str, Any], arrays: dict[str, Any]) -> Embedding:
    placement: Placement | None = None
    if header["placement"] == "LinearPlacement":
        placement = LinearPlacement(arrays["placement_mean"], arrays["placement_projector"])
    elif header["placement"] == "LeastSquaresPlacement":
        placement = LeastSquaresPlacement(
            arrays["coordinates"],
            arrays["signs"],
            arrays.get("placement_offsets"),
            arrays.get("placement_ridge"),
        )
    labels = tuple(str(name) for name in arrays["labels"]) if "labels" in arrays else None
    c1, c2, c3 = (float(term) for term in arrays["stress_terms"])
    return Embedding(
        **{name: arrays[name] for name in _ARRAYS},
        **{name: header[name] for name in _SCALARS},
        stress_terms=(c1, c2, c3),
        labels=labels,
        placement=placement,
        history=tuple(float(value) for value in arrays["history"]),
    )


def _read_arrays(path: Path) -> dict[str, Any]:
    try:
        if not zipfile.is_zipfile(path) and path.is_file():
            raise FileFormatError(f"{path}: not an embedding saved by neucmds.")
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError as problem:
        raise FileFormatError(f"{path}: no such file.") from problem
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as problem:
        if isinstance(problem, FileFormatError):
            raise
        raise FileFormatError(
            f"{path}: not an embedding saved by neucmds, or damaged ({problem})."
        ) from problem
