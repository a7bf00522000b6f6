"""Match tables, weights and columns with the objects by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.errors import InputError, NeucmdsWarning

Numbers = npt.NDArray[np.intp]
Labels = tuple[str, ...] | None

# Names that a message gives before it only counts.
_EXAMPLES = 4


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
    if counts(rows):
        return None
    return tuple(rows)


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
    for i, name in enumerate(map(str, names)):
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
) -> tuple[Numbers, Numbers]:
    """Return the numbers of the objects that two results share: by name, or else all by number."""
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
    texts = [repr(name)[:40] for name in names[:_EXAMPLES]]
    if len(names) > _EXAMPLES:
        texts.append("…")
    return ", ".join(texts)


def is_frame(data: Any) -> bool:
    """Tell whether something is a DataFrame, without pandas being imported."""
    return all(
        hasattr(data, name)
        for name in ("index", "columns", "iloc", "to_numpy")
    )


def row_names(data: Any) -> tuple[str, ...] | None:
    """Names of the rows of a table, if they are text and all different; a list of texts is one."""
    names: Any = ()
    if hasattr(data, "iloc"):
        names = data.index
    elif isinstance(data, (list, tuple)):
        names = data
    texts = tuple(name for name in names if isinstance(name, str))
    if not texts or len(set(texts)) < len(names):
        return None
    return texts


def counts(names: Iterable[object], start: int = 0) -> bool:
    """Tell whether names only count the objects."""
    texts = [str(name) for name in names]
    return texts == [str(i) for i in range(start, start + len(texts))]


def ordered_by_name(
    data: Any,
    labels: Sequence[object] | None,
    what: str,
    *,
    rows: bool = False,
    cols: bool = True,
) -> Any:
    """Order rows or columns of a DataFrame by label; other input, and counted names, stay."""
    if labels is None or not is_frame(data):
        return data
    texts = [str(label) for label in labels]
    if rows and not _uncounted(data.index, texts):
        data = data.iloc[order_of(data.index, texts, what)]
    if cols and not _uncounted(data.columns, texts):
        data = data.iloc[:, order_of(data.columns, texts, what)]
    return data


def _uncounted(names: Any, labels: Sequence[str]) -> bool:
    """Tell whether names count, unlike the labels."""
    return counts(names) and not set(map(str, names)) <= set(labels)


def rows_ordered_as(data: Any, other: Any, what: str) -> Any:
    """Order the rows of a DataFrame as those of another; other input stays."""
    # Other numbers of rows are refused by their shape.
    if not (is_frame(data) and is_frame(other)) or len(data.index) != len(
        other.index
    ):
        return data
    if counts(other.index) and set(map(str, data.index)) != set(
        map(str, other.index)
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
    named = [
        [str(name) for name in side] for side in sides if not counts(side)
    ]
    if not named:
        return data
    if named[0] != named[-1]:
        raise InputError(
            f"D has an index that differs from its columns, and {what} have names; set D.index = "
            f"D.columns, or pass {what} as an array in the order of D."
        )
    return ordered_by_name(data, named[0], what, rows=True)
