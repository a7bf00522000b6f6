"""Check what a user hands to an index: lists of objects, and their ids."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence, Set
from numbers import Real
from typing import Any

import numpy as np

from neucmds.backend.arrays import Numbers
from neucmds.errors import InputError, option

# Ids are whole numbers of 64 bits.
LARGEST_ID = np.iinfo(np.int64).max


def listed(objects: Any, known: Sequence[Any] = ()) -> list[Any]:
    """Return objects as a list; refuse a string, a table and other things that are no list.

    A list of numbers or text is refused beside known objects that are rows of them: it is one.
    """
    if _is_scalar(objects) or not hasattr(objects, "__iter__"):
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
    if (
        len(known)
        and _is_scalar(listed[0])
        and not any(map(_is_scalar, known))
    ):
        _refuse_row(objects, listed[0], known[0])
    return listed


def _is_scalar(x: Any) -> bool:
    """Tell whether something is text or a number."""
    if isinstance(x, str | bytes | Real | np.bool_):
        return True
    return getattr(x, "ndim", None) == 0


def _refuse_row(objects: Any, first: Any, known: Any) -> None:
    """Refuse objects of which the first is text or a number, if a known one is a row of these."""
    if isinstance(known, Mapping | Set) or not hasattr(known, "__iter__"):
        return
    parts = "numbers"
    if isinstance(first, str | bytes):
        parts = "text"
    row = " ".join(reprlib.repr(objects).split())
    raise InputError(
        f"{row} is one row of {parts}, and a list of rows is expected; pass it as [row]."
    )


def check_objects(objects: Sequence[Any], n: int, path: Any) -> list[Any]:
    """Return the objects of a saved index of n, or refuse others."""
    objects = listed(objects)
    if len(objects) != n:
        raise InputError(
            f"{path} is an index of {n} objects, not of {len(objects)}; pass these objects in "
            "their order."
        )
    return objects


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
    if ids is None and int(start) + count > LARGEST_ID:
        raise InputError(
            f"ids count on beyond {LARGEST_ID}; pass {option('ids')} of the new objects."
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
    is_whole = new.dtype.kind in "iu" and known.dtype.kind in "iu"
    is_text = known.dtype.kind == new.dtype.kind == "U"
    # NumPy makes text of numbers beside text.
    if not (is_whole or is_text) or new.tolist() != ids:
        raise InputError(
            f"{option('ids')} are {reprlib.repr(ids)} beside {reprlib.repr(known.tolist())}; pass "
            "text for all objects of an index, or whole numbers for all."
        )
    if is_whole and int(new.max()) > LARGEST_ID:
        raise InputError(
            f"id {new.max()} is above {LARGEST_ID}; pass text, or lower numbers."
        )
    if is_whole:
        new = new.astype(np.int64)
    every = np.concatenate([known, new])
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
