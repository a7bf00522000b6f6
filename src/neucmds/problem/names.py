"""Match tables, weights and columns with the objects by name: one rule for all of them.

A name becomes text by `text_of`, whatever it was: text, a whole number, a float, a tuple or a date.

- The index of a table or Series, the nodes of a graph and a list of different texts name objects.
  Arrays do not, nor do the names 0 … n − 1 in this order: these are row numbers.
- Tables with names are matched with objects that have names; what cannot be matched is refused.
- Row numbers are matched by name with objects that are named by numbers, and by position with
  others.
- An integer is a name where any object is named by a number, and a row number otherwise
  (`Embedding.take` and `Embedding.unnamed` take row numbers in any case).
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

# Most names that a message lists.
EXAMPLES = 4


def text_of(name: object) -> str:
    """Return ``str(name)``; NumPy's dates, and its numbers in a tuple, first become Python's."""
    if isinstance(name, np.datetime64):
        name = name.astype("datetime64[us]").item()
    if isinstance(name, tuple):
        name = tuple(
            part.item() if isinstance(part, np.generic) else part
            for part in name
        )
    return str(name)


def names_of_both(
    rows: Sequence[str], cols: Sequence[str], what: str
) -> Labels:
    """Return the names of rows, which columns must share; None if they are row numbers."""
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
    may_have_others: bool = False,
    advice: str = "name them alike, or pass an array in the order of the objects",
) -> list[int]:
    """Return the position of each object's label among `names`, each of which must occur once.

    Names that no object has are refused, unless there `may_have_others`. `what` says in the plural
    what has the `names`, for messages.
    """
    positions: dict[str, int] = {}
    wanted = set(labels)
    for i, name in enumerate(map(text_of, names)):
        first = positions.setdefault(name, i)
        if first != i and name in wanted:
            raise InputError(
                f"{what} have the name {name!r} twice (numbers {first + 1} and {i + 1}); name them "
                "apart, or keep one."
            )
    absent = [label for label in labels if label not in positions]
    unknown = [name for name in positions if name not in wanted]
    if not absent and (may_have_others or not unknown):
        return [positions[label] for label in labels]
    differences = []
    if absent:
        differences.append(
            f"{len(absent)} of {len(labels)} objects are not among them ({examples(absent)})"
        )
    if unknown:
        differences.append(
            f"{len(unknown)} of them name no object ({examples(unknown)})"
        )
    lower_case = {name.casefold() for name in unknown}
    but_for_case = [
        label for label in absent if label.casefold() in lower_case
    ]
    if but_for_case:
        differences.append(
            f"{len(but_for_case)} differ only in upper and lower case ({examples(but_for_case)})"
        )
    difference = ", and ".join(differences)
    raise InputError(
        f"{what} and the objects have different names: {difference}; {advice}."
    )


def common_objects(
    a: Sequence[str] | None, n_a: int, b: Sequence[str] | None, n_b: int
) -> tuple[Indices, Indices]:
    """Return the row numbers, in a and in b, of the objects that two results share.

    Objects are matched by name if both results have names. Row numbers match names that are these
    numbers in another order. Otherwise row i is the same object in both.
    """
    if a is None and b is not None and go_by_name(b, None):
        a = row_numbers(n_a)
    elif b is None and a is not None and go_by_name(a, None):
        b = row_numbers(n_b)
    if a is None or b is None:
        if n_a != n_b:
            raise InputError(
                f"there are {n_a} and {n_b} objects, and names on both sides are needed to match "
                "them; give both names."
            )
        return np.arange(n_a), np.arange(n_b)
    row_in_b = {name: j for j, name in enumerate(b)}
    pairs = np.array(
        [(i, row_in_b[name]) for i, name in enumerate(a) if name in row_in_b],
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
    """List the first of some names or numbers for a message; "…" says that there are more."""
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
    """Names of the rows of a table or Series, or a list of texts; None if not all differ."""
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
    if are_row_numbers(texts):
        return None
    return texts


def row_numbers(n: int) -> tuple[str, ...]:
    """Return "0" to "n − 1", the names of n objects without names."""
    return tuple(str(i) for i in range(n))


def are_row_numbers(names: Iterable[object], start: int = 0) -> bool:
    """Tell whether names are the numbers from `start` on, in order."""
    texts = [text_of(name) for name in names]
    return texts == [str(i) for i in range(start, start + len(texts))]


def is_number(name: str) -> bool:
    """Tell whether a name is the text of a finite number."""
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def ids_in(which: Any, names: Container[str] = ()) -> Numbers:
    """Return names, row numbers or a mask as an array of any shape.

    A list of tuples is a list of names if the first is among `names`, and rows of names otherwise.
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
        first_is_name = bool(objects) and text_of(objects[0]) in names
        if is_index or first_is_name:
            ids = np.fromiter(objects, object, len(objects))
    if ids.dtype.kind == "M":
        # Python's dates, whose text is that of the dates in an index.
        return ids.astype("datetime64[us]").astype(object)
    if ids.dtype == object and all(
        isinstance(x, (int, np.integer, np.bool_)) for x in ids.flat
    ):
        # Row numbers or a mask: NumPy's dtype tells which.
        return np.asarray(ids.tolist())
    return ids


def go_by_name(names: Iterable[object], labels: Sequence[str] | None) -> bool:
    """Tell whether the names of rows or columns are matched with labels, rather than positions.

    Objects without labels have row numbers, which match the same numbers in any order.
    """
    texts = [text_of(name) for name in names]
    if labels is None:
        return set(texts) == set(row_numbers(len(texts)))
    return not are_row_numbers(texts) or set(texts) <= set(labels)


def ordered_by_name(
    data: Any,
    labels: Iterable[object] | None,
    what: str,
    *,
    rows: bool = False,
    cols: bool = True,
) -> Any:
    """Return a table with its rows, its columns or both in the order of the labels.

    Arrays, and tables without names that match, are returned as they are.
    """
    if labels is not None:
        labels = names_in(labels)
    if rows and hasattr(data, "iloc") and go_by_name(data.index, labels):
        names = labels or row_numbers(len(data.index))
        data = data.iloc[order_of(data.index, names, what)]
    if cols and is_frame(data) and go_by_name(data.columns, labels):
        names = labels or row_numbers(len(data.columns))
        data = data.iloc[:, order_of(data.columns, names, what)]
    return data


def rows_ordered_as(data: Any, other: Any, what: str) -> Any:
    """Return a DataFrame with its rows in the order of another's; other input as it is."""
    # A table with another number of rows is refused later, by its shape.
    if not (is_frame(data) and is_frame(other)) or len(data.index) != len(
        other.index
    ):
        return data
    return ordered_by_name(data, other.index, what, rows=True, cols=False)


def pairs_ordered_as(data: Any, other: Any, what: str, *, square: bool) -> Any:
    """Return an n × n DataFrame in the order of another's objects; other input as it is.

    The objects of the other are named by its index and, if it is `square`, by its columns.
    """
    if not (is_frame(data) and is_frame(other)):
        return data
    names = names_in(other.index)
    column_names = names
    if square:
        column_names = names_in(other.columns)
    names = names or column_names
    if names is None:
        return ordered_by_name(data, None, what, rows=True)
    if column_names not in (None, names):
        raise InputError(
            f"D has an index that differs from its columns, and {what} have names; set D.index = "
            f"D.columns, or pass {what} as an array in the order of D."
        )
    return ordered_by_name(data, names, what, rows=True)
