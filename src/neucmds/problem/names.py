"""Match tables, weights and columns with the objects by name: one rule for all of them.

A name is ``str(name)``, whatever it was: text, a whole number, a float, a tuple or a date. The
index of a table or Series, the nodes of a graph and a list of different texts name objects; arrays
do not, and names 0 … n − 1 in this order are row numbers, too. Tables with names are matched with
objects that have names; what cannot be matched is refused. Row numbers are matched with objects
that are named by numbers, and are the position otherwise. An integer is a name where any object is
named by a number, and a row number otherwise (`Embedding.take` and `Embedding.unnamed` take row
numbers in any case).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from neucmds.backend.arrays import Indices, Numbers, is_array, to_numpy
from neucmds.errors import InputError, NeucmdsWarning

Labels = tuple[str, ...] | None

# Names that a message gives before it only counts.
EXAMPLES = 4


def text_of(name: object) -> str:
    """Return a name as text, numbers in a tuple and dates of NumPy as Python's."""
    if isinstance(name, np.datetime64):
        name = name.astype("datetime64[us]").item()
    if isinstance(name, tuple):
        name = tuple(
            part.item() if isinstance(part, np.generic) else part
            for part in name
        )
    return str(name)


def agreed(
    rows: Sequence[str], cols: Sequence[str], what: str
) -> tuple[str, ...] | None:
    """Return the names of both sides of D; None if they only count the objects."""
    for i, (row, col) in enumerate(zip(rows, cols, strict=True), 1):
        if row != col:
            raise InputError(
                f"{what} names column {i} {col!r} and row {i} {row!r}; make them agree, in the "
                "same order."
            )
    return names_in(rows)


def order_of(
    names: Sequence[object],
    labels: Sequence[str],
    what: str,
    *,
    others: bool = False,
    advice: str = "name them alike, or pass an array in the order of the objects",
) -> list[int]:
    """Return the number of each object's label among `names`, each of which must occur once.

    Names without an object are refused, or left out with `others`. `what` says in the plural what
    has these names, for messages.
    """
    numbers: dict[str, int] = {}
    known = set(labels)
    for i, name in enumerate(map(text_of, names)):
        first = numbers.setdefault(name, i)
        if first != i and name in known:
            raise InputError(
                f"{what} have the name {name!r} twice (rows {first + 1} and {i + 1}); name them "
                "apart, or keep one."
            )
    absent = [label for label in labels if label not in numbers]
    unknown = [name for name in numbers if name not in known]
    if not absent and (others or not unknown):
        return [numbers[label] for label in labels]
    differences = []
    if absent:
        differences.append(
            f"{len(absent)} of {len(labels)} objects are not among them ({examples(absent)})"
        )
    if unknown:
        differences.append(
            f"{len(unknown)} of them name no object ({examples(unknown)})"
        )
    folded = {name.casefold() for name in unknown}
    alike = [label for label in absent if label.casefold() in folded]
    if alike:
        differences.append(
            f"{len(alike)} differ only in upper and lower case ({examples(alike)})"
        )
    difference = ", and ".join(differences)
    raise InputError(
        f"{what} and the objects have different names: {difference}; {advice}."
    )


def common_objects(
    a: Sequence[str] | None, n_a: int, b: Sequence[str] | None, n_b: int
) -> tuple[Indices, Indices]:
    """Return the numbers of the objects that two results share: by name, or else all by number."""
    if a is None and b is not None and matchable(b, None):
        a = row_numbers(n_a)
    elif b is None and a is not None and matchable(a, None):
        b = row_numbers(n_b)
    if a is None or b is None:
        if n_a != n_b:
            raise InputError(
                f"there are {n_a} and {n_b} objects, and names on both sides are needed to match "
                "them; give both names."
            )
        return np.arange(n_a), np.arange(n_b)
    numbers = {name: j for j, name in enumerate(b)}
    pairs = np.array(
        [(i, numbers[name]) for i, name in enumerate(a) if name in numbers],
        dtype=np.intp,
    )
    if len(pairs) < 2:
        raise InputError(
            f"{len(pairs)} of {n_a} and {n_b} objects have the same name ({examples(a)}; "
            f"{examples(b)}); name them alike."
        )
    if len(pairs) < max(n_a, n_b):
        message = f"of {n_a} and {n_b} objects, {len(pairs)} are in both, and are compared."
        warnings.warn(NeucmdsWarning(message), stacklevel=3)
    return pairs[:, 0], pairs[:, 1]


def examples(names: Sequence[object]) -> str:
    """Return the first of some names or numbers, and say whether there are more."""
    texts = [repr(name)[:40] for name in names[:EXAMPLES]]
    if len(names) > EXAMPLES:
        texts.append("…")
    return ", ".join(texts)


def is_frame(data: Any) -> bool:
    """Tell whether something is a DataFrame, without pandas being imported."""
    return all(
        hasattr(data, name)
        for name in ("index", "columns", "iloc", "to_numpy")
    )


def row_names(data: Any) -> Labels:
    """Names of the rows of a table or Series, if all differ; a list of texts names itself."""
    names: Any = ()
    if hasattr(data, "iloc"):
        names = data.index
    elif isinstance(data, (list, tuple)) and set(map(type, data)) == {str}:
        names = data
    texts = names_in(names)
    if not texts or len(set(texts)) < len(texts):
        return None
    return texts


def names_in(index: Iterable[object]) -> Labels:
    """Return names as texts; None if they are row numbers."""
    texts = tuple(text_of(name) for name in index)
    if counts(texts):
        return None
    return texts


def row_numbers(n: int) -> tuple[str, ...]:
    """Return the names of n objects that have no others."""
    return tuple(str(i) for i in range(n))


def counts(names: Iterable[object], start: int = 0) -> bool:
    """Tell whether names only count the objects."""
    texts = [text_of(name) for name in names]
    return texts == [str(i) for i in range(start, start + len(texts))]


def is_number(name: str) -> bool:
    """Tell whether a name is a number."""
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def ids_in(which: Any, names: Container[str] = ()) -> Numbers:
    """Return names, row numbers or a mask as an array.

    A tuple in a list is a name if it is among `names`, and a row of names otherwise.
    """
    if is_array(which):
        ids = to_numpy(which)
    else:
        objects = list(which)
        try:
            ids = np.asarray(objects)
        except ValueError as problem:
            raise InputError(
                "objects are in lists of different lengths; pass one flat list of them."
            ) from problem
        # A pandas index has tuples and dates, which NumPy would take apart or rewrite.
        is_index = hasattr(which, "to_numpy")
        if is_index or any(text_of(first) in names for first in objects[:1]):
            ids = np.fromiter(objects, object, len(objects))
    if ids.dtype.kind == "M":  # as the entries of an index are written
        return ids.astype("datetime64[us]").astype(object)
    if ids.dtype == object:
        plain = [isinstance(x, (int, np.integer, np.bool_)) for x in ids.flat]
        if all(plain):
            return np.asarray(ids.tolist())
    return ids


def matchable(names: Iterable[object], labels: Sequence[str] | None) -> bool:
    """Tell whether rows or columns go by name, not by position."""
    texts = [text_of(name) for name in names]
    if labels is None:
        return set(texts) == set(row_numbers(len(texts)))
    return not counts(texts) or set(texts) <= set(labels)


def ordered_by_name(
    data: Any,
    labels: Iterable[object] | None,
    what: str,
    *,
    rows: bool = False,
    cols: bool = True,
) -> Any:
    """Order rows of a DataFrame or Series, or columns, by label; what has no names stays."""
    if labels is not None:
        labels = names_in(labels)
    if rows and hasattr(data, "iloc") and matchable(data.index, labels):
        names = labels or row_numbers(len(data.index))
        data = data.iloc[order_of(data.index, names, what)]
    if cols and is_frame(data) and matchable(data.columns, labels):
        names = labels or row_numbers(len(data.columns))
        data = data.iloc[:, order_of(data.columns, names, what)]
    return data


def rows_ordered_as(data: Any, other: Any, what: str) -> Any:
    """Order the rows of a DataFrame as those of another; other input stays."""
    # Other numbers of rows are refused by their shape.
    if not (is_frame(data) and is_frame(other)) or len(data.index) != len(
        other.index
    ):
        return data
    return ordered_by_name(data, other.index, what, rows=True, cols=False)


def pairs_ordered_as(data: Any, other: Any, what: str, *, square: bool) -> Any:
    """Order an n × n DataFrame by the objects of another; other input stays.

    If the other is `square`, either side of it may have the names.
    """
    if not (is_frame(data) and is_frame(other)):
        return data
    sides = [other.index]
    if square:
        sides.append(other.columns)
    named = [names for side in sides if (names := names_in(side))]
    if not named:
        return ordered_by_name(data, None, what, rows=True)
    if named[0] != named[-1]:
        raise InputError(
            f"D has an index that differs from its columns, and {what} have names; set D.index = "
            f"D.columns, or pass {what} as an array in the order of D."
        )
    return ordered_by_name(data, named[0], what, rows=True)
