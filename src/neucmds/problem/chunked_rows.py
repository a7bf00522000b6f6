"""Features in a dask array, compared on the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import BLOCK_ELEMENTS, Array
from neucmds.backend.dask_arrays import check_rows, map_rows, require_dask
from neucmds.errors import InputError
from neucmds.problem.metrics import Metric
from neucmds.problem.neighbor_search import Found, neighbor_index

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]
# Dissimilarities of some rows to their nearest so far, and which rows these are.
Nearest = tuple[Floats, Ints]

# Rows that are compared with as many others in one task: 1 s for 64 features and cityblock, against
# 1 ms that the scheduler takes for it, and 128 MB of dissimilarities.
MOST_ROWS = 4096


@dataclass(frozen=True, eq=False)
class ChunkedRows:
    """A metric and the rows that others are compared with, as chunks on the workers."""

    # Each row in one chunk.
    features: Array
    # With the arguments that depend on all rows.
    metric: Metric

    @classmethod
    def of(cls, features: Array, metric: Any) -> Self:
        """Check shape and chunks, and fit the metric to the rows."""
        rows = check_rows(features)
        n, d = rows.shape
        if n < 2 or d < 1:
            raise InputError(
                f"X has {n} rows and {d} columns; pass 2 rows or more of features."
            )
        estimated = Metric.of(metric).estimated(rows)
        # Refuses unknown metrics.
        neighbor_index(np.full((2, d), 0.5 / d), estimated)
        return cls(rows, estimated)

    def persisted(self) -> Self:
        """Return the same in chunks of even size that the workers keep: all are read many times."""
        da = require_dask().array
        rows = self.features.rechunk({0: MOST_ROWS}).persist()
        bad = np.flatnonzero(da.any(~da.isfinite(rows), axis=1).compute())
        if bad.size:
            raise InputError(
                f"X holds NaN or infinity in {bad.size} of {rows.shape[0]} rows, the first is row "
                f"{bad[0]}; drop or repair them."
            )
        return replace(self, features=rows)

    def to(self, others: Floats, numbers: Ints | None = None) -> Floats:
        """Return the dissimilarities of all rows to others, or of each to those of its numbers."""
        space = self.metric.fitted_to(others)
        width = len(others)
        n_chosen = width
        if numbers is not None:
            n_chosen = numbers.shape[1]

        def compare(rows: Floats, first: int) -> Floats:
            lengths: Floats = space.between(rows)
            if numbers is None:
                return lengths
            return np.take_along_axis(
                lengths, numbers[first : first + len(rows)], axis=1
            )

        return np.asarray(
            map_rows(self.features, compare, n_chosen, width).compute()
        )

    def between(self, new: Floats) -> Floats:
        """Return the dissimilarities of new rows to the fitted ones."""
        return np.ascontiguousarray(self.to(np.asarray(new)).T)

    def nearest(self, count: int, objects: Ints | None) -> Found:
        """Find the `count` nearest of some objects, or of all if None, and each object itself.

        Every chunk of those asked for meets every chunk on some worker, and the nearest of each
        are merged; only the result comes to the client.
        """
        dask = require_dask()
        n = int(self.features.shape[0])
        count = min(count + 1, n)
        asked = self.features
        if objects is None:
            objects = np.arange(n)
        else:
            objects = np.sort(objects)
            asked = asked[objects]
        asked = asked.rechunk(
            {0: max(1, min(MOST_ROWS, BLOCK_ELEMENTS // count))}
        )
        chunks = self.features.to_delayed()[:, 0]
        starts = range(0, n, self.features.chunks[0][0])
        # One task, so that what is large in it is sent to a worker once.
        metric = dask.delayed(self.metric, traverse=False)
        find = dask.delayed(_nearest_in)
        merge = dask.delayed(_merged)
        tasks = []
        for rows in asked.to_delayed()[:, 0]:
            parts = [
                find(rows, *part, count, metric)
                for part in zip(chunks, starts, strict=True)
            ]
            tasks.append(merge(parts, count))
        lengths, ids = map(
            np.concatenate, zip(*dask.compute(*tasks), strict=True)
        )
        return np.repeat(objects, count), ids.ravel(), lengths.ravel()


def _nearest_in(
    rows: Floats, chunk: Floats, start: int, count: int, metric: Metric
) -> Nearest:
    """Find the nearest of some rows in one chunk, all of it if it has no more than `count`."""
    lengths, ids = neighbor_index(chunk, metric).kneighbors(
        rows, min(count, len(chunk))
    )
    return lengths, ids + start


def _merged(parts: list[Nearest], count: int) -> Nearest:
    """Keep the `count` nearest of those found in several chunks."""
    lengths, ids = (
        np.concatenate(part, axis=1) for part in zip(*parts, strict=True)
    )
    kept = np.argpartition(lengths, count - 1, axis=1)[:, :count]
    return np.take_along_axis(lengths, kept, axis=1), np.take_along_axis(
        ids, kept, axis=1
    )
