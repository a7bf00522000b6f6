"""Save and load embeddings: one npz of arrays with a header in JSON."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from neucmds.backend.arrays import Array, to_numpy
from neucmds.backend.files import read_npz
from neucmds.embedding.info import Info
from neucmds.errors import InputError
from neucmds.form import Form, kappa_of
from neucmds.place.rules import SHRINKAGE, SQUARED, LinearPlacement, LossPlacement, Placement
from neucmds.refine.losses import LOSSES, PairLoss

if TYPE_CHECKING:
    from neucmds.embedding.result import Embedding

# 2: losses; and labels as JSON in bytes, where an array of strings lost NULs at their ends.
# 3: landmarks. 4: curvature.
FORMAT_VERSION = 4
# Types of the fields that the header holds, as they are annotated.
_SCALARS: dict[Any, type] = {"float": float, "int": int, "str": str, "bool": bool}
_ARRAYS = ("coordinates", "weights")
_OF_INFO = ("eigenvalues", "residuals", "stress_rises")
_OF_PLACEMENT = ("mean", "projector", "offsets", "ridge", "shrinkage")


def write(embedding: Embedding, file: BinaryIO) -> None:
    """Write everything to an open file, without pickle."""
    rule = embedding.placement
    info = embedding.info
    header = {
        one.name: _SCALARS[one.type](getattr(part, one.name))
        for part in (embedding, info)
        for one in fields(part)
        if one.type in _SCALARS
    }
    header["curvature"] = embedding.curvature
    header |= {"format": "neucmds.Embedding", "version": FORMAT_VERSION}
    header["placement"] = type(rule).__name__
    if isinstance(rule, LossPlacement):
        header["loss_floor"] = float(rule.loss.floor)
    arrays = {name: getattr(embedding, name) for name in (*_ARRAYS, "signs", "landmarks")}
    arrays |= {name: getattr(info, name) for name in _OF_INFO}
    arrays |= {f"placement_{name}": getattr(rule, name, None) for name in _OF_PLACEMENT}
    arrays = {name: np.asarray(to_numpy(a)) for name, a in arrays.items() if a is not None}
    arrays["stress_terms"] = np.asarray(embedding.stress_terms, dtype=np.float64)
    arrays["history"] = np.asarray(info.history, dtype=np.float64)
    if embedding.labels is not None:
        text = json.dumps(list(embedding.labels))
        arrays["labels"] = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    np.savez(file, header=np.asarray(json.dumps(header)), **arrays)


def read(kind: type[Embedding], path: Path) -> Embedding:
    """Read an embedding; a foreign, damaged or newer file is refused in one line."""
    arrays = read_npz(path, "an embedding saved by neucmds")
    try:
        header = json.loads(str(arrays.pop("header")))
        version = int(header["version"]) if header["format"] == "neucmds.Embedding" else 0
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError):
        version = 0
    if version < 1:
        raise InputError(f"{path}: not an embedding saved by neucmds.")
    if version > FORMAT_VERSION:
        raise InputError(
            f"{path}: written in format {version}, but this neucmds reads up to {FORMAT_VERSION}; "
            "update neucmds."
        )
    try:
        return kind(**_fields(kind, header, arrays))
    except KeyError as problem:
        raise InputError(f"{path}: damaged, it has no {problem.args[0]}.") from problem
    except (ValueError, TypeError, OverflowError, RecursionError) as problem:
        raise InputError(f"{path}: damaged, {problem}.") from problem


def _fields(
    kind: type[Embedding], header: dict[str, Any], arrays: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields of an embedding; a ValueError says what is wrong with the file."""
    x = arrays["coordinates"]
    n, k = x.shape
    landmarks = arrays.pop("landmarks", None)
    if landmarks is not None and not (
        landmarks.dtype.kind == "i" and landmarks.ndim == 1 and np.isin(landmarks, range(n)).all()
    ):
        raise ValueError(f"landmarks are not numbers of {n} objects")
    fitted = x if landmarks is None else x[landmarks]
    labels = _labels(arrays.pop("labels")) if "labels" in arrays else None
    if labels is not None and len(set(labels)) != n:
        raise ValueError(f"there are {len(set(labels))} different labels for {n} objects")
    shapes: dict[str, tuple[int | None, ...]] = {
        "signs": (k,),
        "weights": (k,),
        "stress_rises": (k,),
        "stress_terms": (3,),
        "history": (None,),
        "eigenvalues": (None,),
        "placement_projector": (len(fitted), k),
        "placement_mean": (len(fitted),),
        "placement_offsets": (len(fitted),),
        "placement_ridge": (k,),
        "placement_shrinkage": (),
    }
    for name, values in arrays.items():
        _check_floats(name, values, shapes.get(name, values.shape))
    found, facts = (_scalars(part, header) for part in (kind, Info))
    if found.get("loss", "squared") not in LOSSES:
        raise ValueError("its loss is unknown")
    found |= {name: arrays[name] for name in _ARRAYS}
    facts |= {name: arrays.get(name) for name in _OF_INFO}
    facts |= {"eigenvalues": arrays["eigenvalues"], "history": tuple(arrays["history"].tolist())}
    curvature = float(header.get("curvature", 0.0))
    form = Form(arrays["signs"], kappa_of(curvature, float(header.get("mean_distance", np.nan))))
    return found | {
        "form": form,
        "info": Info(**facts),
        "stress_terms": tuple(arrays["stress_terms"].tolist()),
        "labels": labels,
        "landmarks": landmarks,
        "placement": _placement(header, arrays, fitted, form),
    }


def _scalars(kind: Any, header: dict[str, Any]) -> dict[str, Any]:
    """Take the numbers and texts of a type; files of earlier releases lack some with a default."""
    return {
        one.name: _scalar(header, one.name, _SCALARS[one.type])
        for one in fields(kind)
        if one.type in _SCALARS and (one.default is MISSING or one.name in header)
    }


def _placement(
    header: dict[str, Any], arrays: dict[str, Any], x: Array, form: Form
) -> Placement | None:
    kind = header["placement"]
    if kind == "NoneType":
        return None
    if kind == "LinearPlacement":
        return LinearPlacement(arrays["placement_mean"], arrays["placement_projector"])
    offsets = arrays.get("placement_offsets")
    ridge = arrays.get("placement_ridge")
    if kind == "LossPlacement":
        loss = PairLoss(header["loss"], _scalar(header, "loss_floor", float))
        shrinkage = float(arrays.get("placement_shrinkage", 0.0))
        return LossPlacement(x, form, loss, shrinkage, offsets, ridge)
    if kind == "LeastSquaresPlacement":  # of earlier files
        shrinkage = float(arrays.get("placement_shrinkage", SHRINKAGE))
        return LossPlacement(x, form, SQUARED, shrinkage, offsets, ridge)
    raise ValueError("its placement is unknown")


def _check_floats(name: str, values: Array, shape: tuple[int | None, ...]) -> None:
    """Refuse all but finite floats of this shape, in which None is any length."""
    if values.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} has dtype {values.dtype}")
    same = (want in (None, has) for want, has in zip(shape, values.shape, strict=False))
    if len(shape) != values.ndim or not all(same):
        raise ValueError(f"{name} has shape {values.shape}")
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} has NaN or infinite entries")


def _scalar(header: dict[str, Any], name: str, kind: type) -> Any:
    """Take a value of this type; a float may be written like an integer."""
    value = header[name]
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise ValueError(f"{name} is not a {kind.__name__}")


def _labels(saved: Array) -> tuple[str, ...]:
    # Format 1 has an array of strings.
    labels = saved.tolist() if saved.dtype.kind == "U" else json.loads(saved.tobytes())
    if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise ValueError("labels are not all strings")
    return tuple(labels)
