"""Find outlying entries of D: a 99999 for a gap, a misplaced decimal point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neucmds.backend.arrays import Array, Floats, in_double, to_numpy
from neucmds.spectrum.operators.gram import Gram


@dataclass(frozen=True)
class Outliers:
    """Entries of D that are huge beside all others."""

    # i, j > i, and the entry of D on the squared scale, largest magnitude first.
    entries: tuple[tuple[int, int, float], ...]
    # Median over all objects of the mean magnitude of their entries but the largest.
    typical: float


def outlying_entries(gram: Gram) -> Outliers:
    """Find up to 10 pairs whose |D_ij| exceeds 1e4 times the typical one, in one pass.

    Of each object only the largest entry is considered: the next appears once it is corrected.
    """

    def largest_of_rows(_: slice, part: Array) -> Floats:
        """Return of every row the column of the largest entry, this, and the mean of the others."""
        values = in_double(to_numpy(part))
        size = np.abs(values)
        column = size.argmax(axis=1)
        entry = values[np.arange(column.size), column]
        mean = (size.sum(axis=1) - np.abs(entry)) / max(1, gram.n - 2)
        return np.stack([column, entry, mean], axis=1)

    partners, entries, means = np.concatenate(gram.on_each(largest_of_rows)).T
    typical = float(np.median(means))
    is_outlier = np.abs(entries) > 1e4 * typical
    pairs: dict[tuple[int, int], float] = {}
    for i in np.argsort(-np.abs(entries), kind="stable").tolist():
        if typical == 0 or not is_outlier[i] or len(pairs) == 10:
            break
        j = int(partners[i])
        pairs.setdefault((min(i, j), max(i, j)), float(entries[i]))
    return Outliers(
        tuple((i, j, entry) for (i, j), entry in pairs.items()), typical
    )
