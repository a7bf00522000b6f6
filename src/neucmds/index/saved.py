"""Save and load an index: one npz of arrays, and the objects if they come back as they were."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.backend.arrays import Numbers
from neucmds.form import Form
from neucmds.index.search import PlacedObjects
from neucmds.refine.losses import PairLoss

if TYPE_CHECKING:
    from neucmds.index.metric_index import MetricIndex

# Attributes of an index that are saved as they are.
SAVED = (
    "ids_",
    "tradeoff_",
    "summary_",
    "n_calls_",
    "_pairs",
    "_error",
    "_n_fitted",
    "_next_id",
    "_compared_near",
)
# Attributes of its `PlacedObjects` that are saved, with the departures if there are any.
PLACED = ("coordinates", "order", "linked", "lengths", "noise")
# Name of an array of objects in a file → what makes it a list again: Python's numbers, text or rows
# of them, or those of NumPy.
LISTED: dict[str, Callable[[Numbers], list[Any]]] = {
    "objects": np.ndarray.tolist,
    "numpy_objects": list,
}
# Name of text that is joined in a file → its type. In an array each text would take the length of
# the longest.
TEXT: dict[str, type[str]] = {"text": str, "numpy_text": np.str_}
WHAT = "an index saved by this version of neucmds"


def arrays_of(index: MetricIndex) -> dict[str, Any]:
    """Return what is saved of an index but its objects."""
    placed = index._placed
    arrays: dict[str, Any] = {
        "signs": index.signs_,
        **placed.form.numbers,
        "sq_floor": placed.loss.sq_floor,
    }
    for name in PLACED:
        arrays[name] = getattr(placed, name)
    if placed.departures is not None:
        arrays["departures"] = placed.departures
    for name in SAVED:
        arrays[name] = getattr(index, name)
    return arrays


def arrays_of_objects(objects: list[Any]) -> dict[str, Any]:
    """Return the arrays that hold objects, or none if they would not come back as they are."""
    types = set(map(type, objects))
    for name, kind in TEXT.items():
        if types == {kind}:
            return _joined(name, objects)
    try:
        array = np.array(objects)
    except ValueError:  # rows of different lengths
        return {}
    if array.dtype.kind not in "Ubiuf":
        return {}
    for name, listed in LISTED.items():
        if _is_same(listed(array), objects):
            return {name: array}
    return {}


def _joined(name: str, text: list[str]) -> dict[str, Any]:
    """Return text as one array of bytes, and where each ends."""
    # Python's text may hold halves of characters, which UTF-8 has no bytes for.
    encoded = [str(x).encode("utf-8", "surrogatepass") for x in text]
    ends = np.cumsum([len(x) for x in encoded])
    return {name: np.frombuffer(b"".join(encoded), np.uint8), "ends": ends}


def _separated(joined: Numbers, ends: Numbers) -> list[str]:
    """Return the text that `_joined` joined."""
    content = joined.tobytes()
    starts = [0, *ends.tolist()]
    return [
        content[start:end].decode("utf-8", "surrogatepass")
        for start, end in pairwise(starts)
    ]


def _is_same(a: Any, b: Any) -> bool:
    """Tell whether two objects are equal and of one type, and so are their parts."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype) and a.tobytes() == b.tobytes()
    return bool(a == b)


def attributes_in(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an index that was saved, but for its parameters and objects."""
    numbers = {name: float(arrays[name]) for name in Form().numbers}
    # Numbers and text are arrays without axes.
    attributes = {name: arrays[name][()] for name in SAVED}
    attributes["_placed"] = PlacedObjects(
        form=Form(arrays["signs"], **numbers),
        loss=PairLoss("relative", sq_floor=float(arrays["sq_floor"])),
        **{name: arrays[name][()] for name in PLACED},
        departures=arrays.get("departures"),
    )
    return attributes


def objects_in(arrays: dict[str, Any]) -> list[Any] | None:
    """Return the objects of an index that was saved, or None if they were not."""
    for name, kind in TEXT.items():
        if name in arrays:
            return list(map(kind, _separated(arrays[name], arrays["ends"])))
    for name, listed in LISTED.items():
        if name in arrays:
            return listed(arrays[name])
    return None
