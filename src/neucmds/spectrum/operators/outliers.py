"""Find outlying entries of D: a 99999 for a gap, a misplaced decimal point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neucmds.backend.arrays import Array, Floats, in_double, to_numpy
from neucmds.spectrum.operators.gram import Gram


@dataclass(frozen=True)
class Outliers:
    """Entries of D that are huge beside all others."""

    # Pairs i < j and their entry of D on the squared scale, largest magnitude first.
    entries: tuple[tuple[int, int, float], ...]
    # Median over all objects of the mean magnitude of their entries but the largest.
    typical: float


def outlying_entries(gram: Gram) -> Outliers:
    """Find up to 10 pairs whose entry exceeds 1e4 times that of a typical object, in one pass.

    Of each object only the largest entry is considered: others of it appear once that is corrected.
    """

    def extremes(_: slice, part: Array) -> Floats:
        """Return the column, the entry and the mean of the others, of every row."""
        values = in_double(to_numpy(part))
        size = np.abs(values)
        column = size.argmax(axis=1)
        entry = values[np.arange(column.size), column]
        rest = (size.sum(axis=1) - np.abs(entry)) / max(1, gram.n - 2)
        return np.stack([column, entry, rest], axis=1)

    largest = np.concatenate(gram.on_each(extremes))
    typical = float(np.median(largest[:, 2]))
    pairs: dict[tuple[int, int], float] = {}
    for i in np.argsort(-np.abs(largest[:, 1]), kind="stable"):
        j = int(largest[i, 0])
        entry = float(largest[i, 1])
        if not abs(entry) > 1e4 * typical > 0 or len(pairs) == 10:
            break
        pairs.setdefault((min(int(i), j), max(int(i), j)), entry)
    return Outliers(
        tuple((i, j, entry) for (i, j), entry in pairs.items()), typical
    )
