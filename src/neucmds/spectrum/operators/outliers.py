"""Find outlying entries of D: a 99999 for a gap, a misplaced decimal point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array, asarray_like, to_numpy
from neucmds.spectrum.operators.gram import Gram

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outliers:
    """Entries of D that are huge beside all others."""

    # Pairs i < j and their entry of D on the squared scale, largest magnitude first.
    entries: tuple[tuple[int, int, float], ...]
    # Median over all objects of the mean magnitude of their entries but the largest.
    typical: float


def outlying_entries(
    gram: Gram, *, factor: float = 1e4, limit: int = 10
) -> Outliers:
    """Find pairs whose entry exceeds `factor` times that of a typical object, in one pass over D.

    Of each object only the largest entry is considered: others of it appear once that is corrected.
    """
    xp = gram.xp

    def extremes(rows: slice, part: Array) -> Floats:
        """Return the column, the entry and the mean of the others, of every row."""
        wide = xp.astype(part, xp.float64, copy=False)
        size = xp.abs(wide)
        column = xp.argmax(size, axis=1)
        index = (
            asarray_like(np.arange(size.shape[0]), wide, dtype=xp.int64)
            * gram.n
            + column
        )
        entry = xp.take(xp.reshape(wide, (-1,)), index)
        rest = (xp.sum(size, axis=1) - xp.abs(entry)) / max(1, gram.n - 2)
        columns = [
            to_numpy(values).astype(np.float64)
            for values in (column, entry, rest)
        ]
        return np.stack(columns, axis=1)

    largest = np.concatenate(gram.on_each(extremes))
    typical = float(np.median(largest[:, 2]))
    pairs: dict[tuple[int, int], float] = {}
    for i in np.argsort(-np.abs(largest[:, 1]), kind="stable"):
        j = int(largest[i, 0])
        entry = float(largest[i, 1])
        if not abs(entry) > factor * typical or len(pairs) == limit:
            break
        pairs.setdefault((min(int(i), j), max(int(i), j)), entry)
    return Outliers(
        tuple((i, j, entry) for (i, j), entry in pairs.items()), typical
    )
