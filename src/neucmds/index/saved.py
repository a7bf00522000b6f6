"""Save and load an index: one npz of arrays, and the objects if they come back as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
    "_compared_near",
)
# Attributes of its `PlacedObjects` that are saved, with the departures if there are any.
PLACED = ("coordinates", "order", "linked", "lengths", "noise")
WHAT = "an index saved by this version of neucmds"


def arrays_of(index: MetricIndex) -> dict[str, Any]:
    """Return what is saved of an index; objects too if they are text or numbers."""
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
    try:
        objects = np.array(index.objects_)
    except ValueError:  # rows of different lengths
        objects = np.empty(0, dtype=object)
    is_same = objects.ndim > 1 or objects.tolist() == index.objects_
    if objects.dtype.kind in "Ubiuf" and is_same:
        arrays["objects"] = objects
    return arrays


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


def objects_in(arrays: dict[str, Any]) -> Any:
    """Return the objects of an index that was saved, or None if they were not."""
    stored = arrays.get("objects")
    if stored is None or stored.ndim > 1:
        return stored
    return stored.tolist()
