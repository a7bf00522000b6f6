"""Save and load embeddings: one npz of arrays with a header in JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from neucmds.backend.arrays import Array, is_array, to_numpy
from neucmds.backend.files import format_errors, read_npz
from neucmds.embedding.info import Info
from neucmds.errors import InputError
from neucmds.form import Form
from neucmds.place.rules import LinearPlacement, LossPlacement, Placement
from neucmds.refine.losses import LOSSES, PairLoss

if TYPE_CHECKING:
    from neucmds.embedding.result import Embedding

FORMAT = "neucmds.Embedding"
WHAT = "an embedding saved by neucmds"
# 4 is that of release 0.3.0, where least squares had a placement of their own.
FORMAT_VERSION = 5
OLDEST_VERSION = 4
# Types of the fields that the header holds, as they are annotated.
SCALARS: dict[Any, type] = {
    "float": float,
    "int": int,
    "str": str,
    "bool": bool,
}
PLACEMENT_ARRAYS = ("mean", "projector", "offsets", "ridge", "shrinkage")


def write(embedding: Embedding, file: BinaryIO) -> None:
    """Write everything to an open file, without pickle."""
    rule = embedding.placement
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "placement": type(rule).__name__,
        "curvature": embedding.curvature,
    }
    if isinstance(rule, LossPlacement):
        header["loss_floor"] = float(rule.loss.floor)
    values: dict[str, Any] = {"signs": embedding.signs}
    for name in PLACEMENT_ARRAYS:
        values[f"placement_{name}"] = getattr(rule, name, None)
    for part in (embedding, embedding.info):
        for field in fields(part):
            value = getattr(part, field.name)
            if field.type in SCALARS:
                header[field.name] = SCALARS[field.type](value)
            else:
                values[field.name] = value
    if embedding.labels is not None:
        text = json.dumps(embedding.labels).encode("ascii")
        values["labels"] = np.frombuffer(text, dtype=np.uint8)
    arrays: dict[str, Any] = {}
    for name, value in values.items():
        if is_array(value):
            arrays[name] = np.asarray(to_numpy(value))
        elif isinstance(value, (tuple, float)):
            arrays[name] = np.asarray(value, dtype=np.float64)
    np.savez(file, header=np.asarray(json.dumps(header)), **arrays)


def read(kind: type[Embedding], path: Path) -> Embedding:
    """Read an embedding; a foreign, damaged or newer file is refused in one line."""
    arrays = read_npz(path, WHAT)
    with format_errors(str(path), WHAT):
        header = json.loads(str(arrays.pop("header")))
        version = header["version"]
        if header["format"] != FORMAT or version < OLDEST_VERSION:
            raise ValueError("the format is another")
        if version > FORMAT_VERSION:
            raise InputError(
                f"{path}: written in format {version}, but this neucmds reads up to "
                f"{FORMAT_VERSION}; update neucmds."
            )
        return _embedding(kind, header, arrays)


def _embedding(
    kind: type[Embedding], header: dict[str, Any], arrays: dict[str, Any]
) -> Embedding:
    """Make an embedding of the members of a file; errors say what is wrong with it."""
    x = arrays["coordinates"]
    n, k = x.shape
    labels = None
    if "labels" in arrays:
        labels = tuple(json.loads(arrays.pop("labels").tobytes()))
        if len(set(labels)) != n or not all(
            isinstance(name, str) for name in labels
        ):
            raise ValueError(f"labels are not the names of {n} objects")
    landmarks = arrays.pop("landmarks", None)
    if landmarks is not None:
        x = x[landmarks]
    _check_floats(arrays, len(x), k)
    values: dict[type, dict[str, Any]] = {kind: {}, Info: {}}
    for part, parts in values.items():
        for field in fields(part):
            if field.type in SCALARS:
                parts[field.name] = _scalar(
                    header, field.name, SCALARS[field.type]
                )
            elif field.name in arrays:
                parts[field.name] = arrays[field.name]
    if header["loss"] not in LOSSES:
        raise ValueError("its loss is unknown")
    values[Info]["history"] = tuple(arrays["history"].tolist())
    curvature = _scalar(header, "curvature", float)
    form = Form.of(arrays["signs"], curvature, header["mean_distance"])
    values[kind] |= {
        "form": form,
        "info": Info(**values[Info]),
        "labels": labels,
        "landmarks": landmarks,
        "placement": _placement(header, arrays, x, form),
        "stress_terms": tuple(arrays["stress_terms"].tolist()),
    }
    return kind(**values[kind])


def _placement(
    header: dict[str, Any], arrays: dict[str, Any], x: Array, form: Form
) -> Placement | None:
    name = header["placement"]
    if name == "NoneType":
        return None
    if name == "LinearPlacement":
        return LinearPlacement(
            arrays["placement_mean"], arrays["placement_projector"]
        )
    if name not in ("LossPlacement", "LeastSquaresPlacement"):
        raise ValueError("its placement is unknown")
    loss = PairLoss(header["loss"], float(header.get("loss_floor", 0.0)))
    return LossPlacement(
        x,
        form,
        loss,
        float(arrays["placement_shrinkage"]),
        arrays.get("placement_offsets"),
        arrays.get("placement_ridge"),
    )


def _check_floats(arrays: dict[str, Any], n: int, k: int) -> None:
    """Refuse all but finite floats of the shapes that n fitted objects have."""
    shapes = {
        "signs": (k,),
        "weights": (k,),
        "stress_rises": (k,),
        "stress_terms": (3,),
        "placement_projector": (n, k),
        "placement_mean": (n,),
        "placement_offsets": (n,),
        "placement_ridge": (k,),
        "placement_shrinkage": (),
    }
    for name, values in arrays.items():
        if values.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} has dtype {values.dtype}")
        if values.shape != shapes.get(name, values.shape):
            raise ValueError(f"{name} has shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has NaN or infinite entries")


def _scalar(header: dict[str, Any], name: str, kind: type) -> Any:
    """Take a value of this type; a float may be written like an integer."""
    value = header[name]
    if type(value) is int and kind is float:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{name} is not a {kind.__name__}")
    return value
