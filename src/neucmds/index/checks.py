"""Check what a user hands to an index: lists of objects, and their ids."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence, Set
from numbers import Real
from typing import Any

import numpy as np

from neucmds.backend.arrays import Numbers
from neucmds.errors import InputError, option


def listed(objects: Any, known: Sequence[Any] = ()) -> list[Any]:
    """Return objects as a list; refuse a string, a table and other things that are no list.

    A list of numbers is refused beside known objects that are rows of them: it is one object.
    """
    if isinstance(objects, str | bytes) or not hasattr(objects, "__iter__"):
        name = reprlib.repr(objects)
        raise InputError(
            f"{name} is one object, and a list of them is expected; pass [{name}]."
        )
    if isinstance(objects, Mapping | Set) or hasattr(objects, "columns"):
        raise InputError(
            f"objects are of type {type(objects).__name__}; pass a list of them, or an array with "
            "a row per object, as frame.to_numpy()."
        )
    listed = list(objects)
    if not listed:
        raise InputError("there are no objects; pass at least one.")
    is_row = isinstance(listed[0], Real) and len(known) > 0
    if is_row and isinstance(known[0], np.ndarray | list | tuple):
        raise InputError(
            f"{reprlib.repr(objects)} is one row of numbers, and a list of rows is expected; pass "
            "it as [row]."
        )
    return listed


def checked_ids(
    ids: Any, known: Numbers, count: int, start: int = 0
) -> Numbers:
    """Return ids of so many new objects, different from each other and from those known.

    By default they count on from `start`.
    """
    if ids is None and known.dtype.kind == "U":
        raise InputError(
            f"the objects of this index have ids that are text; pass {option('ids')} of the new "
            "ones."
        )
    if ids is None:
        return np.arange(start, start + count)
    ids = list(ids)
    new = np.asarray(ids)
    if new.shape != (count,):
        raise InputError(
            f"{option('ids')} has shape {new.shape} for {count} objects; pass one per object."
        )
    if not known.size:
        known = new[:0]
    every = np.concatenate([known, new])
    is_whole = new.dtype.kind in "iu" and every.dtype.kind in "iu"
    is_text = known.dtype.kind == new.dtype.kind == "U"
    # NumPy makes text of numbers beside text.
    if not (is_whole or is_text) or new.tolist() != ids:
        raise InputError(
            f"{option('ids')} are {reprlib.repr(ids)} beside {reprlib.repr(known.tolist())}; pass "
            "text for all objects of an index, or whole numbers for all."
        )
    values, counts = np.unique(every, return_counts=True)
    twice = values[counts > 1].tolist()
    if twice:
        raise InputError(
            f"id {twice[0]!r} is there twice; every object needs its own."
        )
    return new


def next_id(ids: Numbers, before: int = 0) -> int:
    """Return the number after all ids, which is at least what it was before."""
    if ids.dtype.kind == "U":
        return before
    return max(before, int(ids.max()) + 1)
