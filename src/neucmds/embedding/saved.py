"""An embedding in a file: one npz, all of it checked when it is read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, to_numpy
from neucmds._backend.files import read_npz
from neucmds._methods.refined.losses import LOSSES, PairLoss
from neucmds._placement import (
    SHRINKAGE,
    LeastSquaresPlacement,
    LinearPlacement,
    LossPlacement,
    Placement,
)
from neucmds.errors import FileFormatError

if TYPE_CHECKING:
    from neucmds.embedding.result import Embedding

# 2: losses; and labels as JSON in bytes, where an array of strings lost NULs at their ends.
# 3: landmarks.
FORMAT_VERSION = 3
_SAVED_ARRAYS = ("coordinates", "signs", "eigenvalues", "weights", "residuals")
_SAVED_SCALARS: dict[str, type] = {
    "sq_norm": float,
    "method": str,
    "requested": int,
    "squared": bool,
    "converged": bool,
    "solver": str,
}
# Not in files of the first release; NaN, and not saved, where they are not known.
_OPTIONAL_SCALARS = (
    "total_sum_of_squares",
    "trace",
    "loss_value",
    "relative_gradient",
    "stress_error",
    "hidden_below",
)


def write(embedding: Embedding, file: BinaryIO) -> None:
    """Write everything to an open file, without pickle."""
    header: dict[str, Any] = {
        name: kind(getattr(embedding, name)) for name, kind in _SAVED_SCALARS.items()
    }
    header |= {"format": "neucmds.Embedding", "version": FORMAT_VERSION}
    header |= {"loss": embedding.loss, "placement": type(embedding.placement).__name__}
    header["missing"] = embedding.missing
    if isinstance(embedding.placement, LossPlacement):
        header["loss_floor"] = float(embedding.placement.loss.floor)
    for name in _OPTIONAL_SCALARS:
        if math.isfinite(value := getattr(embedding, name)):
            header[name] = float(value)
    arrays: dict[str, Any] = {
        name: to_numpy(values)
        for name in _SAVED_ARRAYS
        if (values := getattr(embedding, name)) is not None
    }
    arrays["stress_terms"] = np.asarray(embedding.stress_terms, dtype=np.float64)
    arrays["history"] = np.asarray(embedding.history, dtype=np.float64)
    if embedding.labels is not None:
        text = json.dumps([str(name) for name in embedding.labels])
        arrays["labels"] = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    if embedding.landmarks is not None:
        arrays["landmarks"] = np.asarray(embedding.landmarks, dtype=np.int64)
    if isinstance(embedding.placement, LinearPlacement):
        arrays["placement_mean"] = to_numpy(embedding.placement.mean)
        arrays["placement_projector"] = to_numpy(embedding.placement.projector)
    if isinstance(embedding.placement, LeastSquaresPlacement):
        for name in ("offsets", "ridge", "shrinkage"):
            if (values := getattr(embedding.placement, name)) is not None:
                arrays[f"placement_{name}"] = np.asarray(to_numpy(values))
    np.savez(file, header=np.asarray(json.dumps(header)), **arrays)


def read(path: Path) -> dict[str, Any]:
    """Read the fields of an embedding; a foreign, damaged or newer file is refused in one line."""
    arrays = read_npz(path, "an embedding saved by neucmds")
    try:
        header = json.loads(str(arrays.pop("header")))
        version = header["version"]
        known = header["format"] == "neucmds.Embedding" and type(version) is int and version > 0
    except (KeyError, ValueError, TypeError, RecursionError) as problem:
        raise FileFormatError(f"{path}: not an embedding saved by neucmds.") from problem
    if not known:
        raise FileFormatError(f"{path}: not an embedding saved by neucmds.")
    if version > FORMAT_VERSION:
        raise FileFormatError(
            f"{path}: written in format {version}, but this neucmds reads up to {FORMAT_VERSION}; "
            "update neucmds."
        )
    try:
        return _fields(header, arrays)
    except KeyError as problem:
        raise FileFormatError(f"{path}: damaged, it has no {problem.args[0]}.") from problem
    except (ValueError, TypeError, OverflowError, RecursionError) as problem:
        raise FileFormatError(f"{path}: damaged, {problem}.") from problem


def _fields(header: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """Take the fields out of what a file holds; ValueError says what is wrong with it."""
    coordinates = _floats(arrays, "coordinates", (None, None))
    n, k = coordinates.shape
    signs = _floats(arrays, "signs", (k,))
    if not np.all(np.abs(signs) == 1):
        raise ValueError("signs are not all 1 or -1")
    eigenvalues = _floats(arrays, "eigenvalues", (None,))
    residuals = None
    if "residuals" in arrays:
        residuals = _floats(arrays, "residuals", eigenvalues.shape)
    c1, c2, c3 = (float(term) for term in _floats(arrays, "stress_terms", (3,)))
    scalars = {name: _scalar(header, name, kind) for name, kind in _SAVED_SCALARS.items()}
    if scalars["sq_norm"] < 0 or scalars["requested"] < 1:
        raise ValueError("sq_norm or requested is negative")
    optional: dict[str, Any] = {
        name: _scalar(header, name, float) for name in _OPTIONAL_SCALARS if name in header
    }
    if "loss" in header:
        optional["loss"] = _saved_loss(header)
    if (missing := header.get("missing", "error")) not in ("error", "ignore"):
        raise ValueError(f"missing is {missing!r}")
    optional["missing"] = missing
    fitted = coordinates
    if "landmarks" in arrays:
        landmarks = _saved_landmarks(arrays["landmarks"], n)
        fitted, optional["landmarks"] = coordinates[landmarks], landmarks
    return {
        "coordinates": coordinates,
        "signs": signs,
        "eigenvalues": eigenvalues,
        "weights": _floats(arrays, "weights", (k,)),
        "residuals": residuals,
        **scalars,
        "stress_terms": (c1, c2, c3),
        "labels": _saved_labels(arrays["labels"], n) if "labels" in arrays else None,
        "placement": _saved_placement(header, arrays, fitted, signs),
        "history": tuple(float(value) for value in _floats(arrays, "history", (None,))),
        **optional,
    }


def _saved_placement(
    header: dict[str, Any], arrays: dict[str, Any], coordinates: Array, signs: Array
) -> Placement | None:
    kind, (n, k) = header["placement"], coordinates.shape
    if kind == "NoneType":
        return None
    if kind == "LinearPlacement":
        return LinearPlacement(
            _floats(arrays, "placement_mean", (n,)), _floats(arrays, "placement_projector", (n, k))
        )
    if kind == "LossPlacement":
        floor = _scalar(header, "loss_floor", float)
        if floor < 0:
            raise ValueError("loss_floor is negative")
        return LossPlacement(coordinates, signs, PairLoss(_saved_loss(header), floor))
    if kind != "LeastSquaresPlacement":
        raise ValueError("its placement is unknown")
    shapes = {"offsets": (n,), "ridge": (k,), "shrinkage": ()}
    given = {
        name: _floats(arrays, f"placement_{name}", shape)
        for name, shape in shapes.items()
        if f"placement_{name}" in arrays
    }
    for name in ("ridge", "shrinkage"):
        if name in given and np.any(given[name] < 0):
            raise ValueError(f"placement_{name} is negative")
    return LeastSquaresPlacement(
        coordinates,
        signs,
        given.get("offsets"),
        given.get("ridge"),
        float(given.get("shrinkage", SHRINKAGE)),
    )


def _saved_landmarks(saved: npt.NDArray[Any], n: int) -> npt.NDArray[np.intp]:
    if saved.dtype.kind != "i" or saved.ndim != 1:
        raise ValueError(f"landmarks have dtype {saved.dtype} and shape {saved.shape}")
    inside = saved.size == 0 or (saved.min() >= 0 and saved.max() < n)
    if not inside or np.unique(saved).size != saved.size:
        raise ValueError(f"landmarks are not numbers of {n} objects, each once")
    return saved.astype(np.intp)


def _saved_loss(header: dict[str, Any]) -> str:
    loss = header["loss"]
    if loss not in LOSSES:
        raise ValueError("its loss is unknown")
    return str(loss)


def _floats(arrays: dict[str, Any], name: str, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    """Take an array of finite floats of this shape, None being any length, in native order."""
    values = np.asarray(arrays[name])
    if values.dtype.kind != "f" or values.dtype.itemsize not in (4, 8):
        raise ValueError(f"{name} has dtype {values.dtype}")
    fits = values.ndim == len(shape)
    if not fits or any(
        want not in (None, has) for want, has in zip(shape, values.shape, strict=True)
    ):
        raise ValueError(f"{name} has shape {values.shape}")
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} has NaN or infinite entries")
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _scalar(header: dict[str, Any], name: str, kind: type) -> Any:
    """Take a value of this type; a float may be written like an integer."""
    value: Any = header[name]
    if kind is float and type(value) is int:
        value = float(value)
    finite = not isinstance(value, float) or math.isfinite(value)
    if type(value) is not kind or not finite:
        raise ValueError(f"{name} is not a valid {kind.__name__}")
    return value


def _saved_labels(saved: npt.NDArray[Any], n: int) -> tuple[str, ...]:
    if saved.dtype.kind == "U" and saved.ndim == 1:  # format 1
        labels = saved.tolist()
    elif saved.dtype == np.uint8 and saved.ndim == 1:
        labels = json.loads(saved.tobytes())
    else:
        raise ValueError(f"labels have dtype {saved.dtype}")
    if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise ValueError("labels are not all strings")
    if len(labels) != n or len(set(labels)) != n:
        raise ValueError(f"there are {len(set(labels))} different labels for {n} objects")
    return tuple(labels)
