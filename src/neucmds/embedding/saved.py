"""Save and load embeddings: one npz of arrays with a header in JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from neucmds.backend.arrays import is_array, to_numpy
from neucmds.backend.files import AnyPath, read_npz, refuse_damage
from neucmds.embedding.info import Info
from neucmds.errors import InputError
from neucmds.form import Form
from neucmds.place.rules import (
    LinearPlacement,
    LossPlacement,
    OrdinalPlacement,
    Placement,
)
from neucmds.problem.validation import as_labels
from neucmds.refine.losses import PairLoss
from neucmds.refine.ordinal import ALL_LOSSES

if TYPE_CHECKING:
    from neucmds.embedding.result import Embedding

FORMAT = "neucmds.Embedding 8"
EXPECTED = "an embedding saved by this version of neucmds"
# Annotation of a field that the header holds → its type.
SCALARS: dict[Any, type] = {
    "float": float,
    "int": int,
    "str": str,
    "bool": bool,
}
# Name of the rule of `transform` in a file → its class.
RULES = {
    kind.__name__: kind
    for kind in (LinearPlacement, LossPlacement, OrdinalPlacement)
}


def write(embedding: Embedding, file: BinaryIO) -> None:
    """Write everything to an open file, without pickle."""
    rule = embedding.placement
    parts: list[Any] = [embedding, embedding.info, embedding.form]
    header: dict[str, Any] = {
        "format": FORMAT,
        "labels": embedding.labels,
        "arrival_labels": embedding.arrival_labels,
        "placement": type(rule).__name__,
    }
    # Of fields with one name the last stays: the coordinates of all objects hold those of the rule.
    if rule is not None:
        parts.insert(0, rule)
    if isinstance(rule, LossPlacement):
        parts.append(rule.loss)
        header["n_fitted"] = rule.coordinates.shape[0]
    arrays: dict[str, Any] = {
        "history": np.asarray(embedding.info.history),
        "stress_terms": np.asarray(embedding.stress_terms),
    }
    for part in parts:
        for field in fields(part):
            value = getattr(part, field.name)
            if field.type in SCALARS:
                header[field.name] = SCALARS[field.type](value)
            elif is_array(value):
                arrays[field.name] = to_numpy(value)
    text = json.dumps(header).encode("ascii")
    np.savez(file, header=np.frombuffer(text, np.uint8), **arrays)


def read(kind: type[Embedding], path: AnyPath | BinaryIO) -> Embedding:
    """Read an embedding; errors on a foreign or damaged file become one line of an InputError."""
    arrays = read_npz(path, EXPECTED)
    if "linked" in arrays:
        raise InputError(
            f"{path} holds an index, not an embedding; read it by MetricIndex.load."
        )
    with refuse_damage(str(path), EXPECTED):
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != FORMAT:
            raise ValueError("the format is another")
        landmarks = arrays.pop("landmarks", None)
        global_landmarks = arrays.pop("global_landmarks", None)
        # Those of the objects that were fitted, in which a new one is placed.
        fitted = arrays["coordinates"]
        labels = as_labels(header["labels"], len(fitted))
        arrivals = arrays.get("arrivals")
        if landmarks is not None:
            fitted = fitted[landmarks]
        if arrivals is not None:
            fitted = arrivals[: header["n_fitted"]]
        # Numbers of objects and the header are no longer among the arrays.
        _check_floats(arrays, *fitted.shape)
        info = _fields(Info, header, arrays)
        info["history"] = tuple(arrays["history"].tolist())
        values = _fields(kind, header, arrays)
        if values["loss"] not in ALL_LOSSES:
            raise ValueError("its loss is unknown")
        values["info"] = Info(**info)
        form = _fields(Form, header, arrays)
        form["signs"] = arrays["signs"]
        # The last sign is 0 if it is that of heights.
        lengths = np.abs(form["signs"])
        if not (np.all(lengths[:-1] == 1) and np.all(lengths[-1:] <= 1)):
            raise ValueError("its signs are not all 1 or -1")
        if form["curvature"] and not values["mean_distance"] > 0:
            raise ValueError("its curvature has no mean distance as a unit")
        values["form"] = Form(**form)
        values["labels"] = labels
        if arrivals is not None:
            values["arrival_labels"] = as_labels(
                header["arrival_labels"], len(arrivals)
            )
        values["landmarks"] = landmarks
        if global_landmarks is not None:
            # Numbers beyond the landmarks are an error.
            values["global_landmarks"] = np.arange(len(fitted))[
                global_landmarks
            ]
        values["stress_terms"] = tuple(arrays["stress_terms"].tolist())
        if header["placement"] in RULES:
            values["placement"] = _rule(header, arrays, fitted, values["form"])
        return kind(**values)


def _rule(
    header: dict[str, Any], arrays: dict[str, Any], fitted: Any, form: Form
) -> Placement:
    """Return the rule that places new objects among those at the coordinates `fitted`."""
    kind: Any = RULES[header["placement"]]
    values = _fields(kind, header, arrays)
    if kind is not LinearPlacement:
        values["coordinates"] = fitted
        values["form"] = form
    if kind is LossPlacement:
        values["loss"] = PairLoss(**_fields(PairLoss, header, arrays))
    rule: Placement = kind(**values)
    return rule


def _fields(
    kind: type, header: dict[str, Any], arrays: dict[str, Any]
) -> dict[str, Any]:
    """Return the numbers, words and arrays among the fields of a class."""
    values = {}
    for field in fields(kind):
        if field.type in SCALARS:
            values[field.name] = SCALARS[field.type](header[field.name])
        elif field.name in arrays:
            values[field.name] = arrays[field.name]
    return values


def _check_floats(arrays: dict[str, Any], n: int, k: int) -> None:
    """Refuse all but finite floats, and other shapes than n fitted objects give."""
    shapes = {
        "signs": (k,),
        "weights": (k,),
        "stress_rises": (k,),
        "stress_terms": (3,),
        "projector": (n, k),
        "mean": (n,),
        "offsets": (n,),
        "ridge": (k,),
    }
    for name, values in arrays.items():
        if values.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} has dtype {values.dtype}")
        if values.shape != shapes.get(name, values.shape):
            raise ValueError(f"{name} has shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has NaN or infinite entries")
