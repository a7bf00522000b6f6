"""Embedded landmarks, and how all other objects are placed among them.

An object is a row of features, a row of dissimilarities, or the number of a node. It is placed from
its squared dissimilarities to landmarks: to all of them, or in two levels to some global ones drawn
for it and to those nearest to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from typing import Any
from zlib import crc32

import joblib
import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    asarray_like,
    free_memory,
    is_dask,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.backend.checkpoint import Checkpoint, npy_output
from neucmds.backend.progress import Callback
from neucmds.backend.threads import fill_rows, thread_count
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.place.neighbors import roughly_nearest, sq_ranks
from neucmds.place.new_rows import sq_rows
from neucmds.place.recipe import Recipe
from neucmds.place.rules import Placement
from neucmds.problem.metrics import FittedMetric, refuse_undefined

Indices = npt.NDArray[np.intp]
Lengths = npt.NDArray[np.float32]

# Share of the near landmarks that an object is compared with before it is placed anew.
FIRST = 2 / 3
# Landmarks about a global one, for each near landmark of an object.
ABOUT = 8
# Times as many landmarks from which on choosing among these is faster than comparing all: of 20,000
# 98 % of the nearest 60 are found in 0.13 ms per object, all of them in 0.5 (k = 20).
WORTH_CHOOSING = 8


@dataclass(frozen=True, eq=False)
class NodePaths:
    """Lengths of shortest paths between nodes of a graph and landmarks, as far as searched.

    Parameters
    ----------
    paths : ndarray of shape (G, n)
        From the global landmarks, or from all of them.
    near, lengths : ndarray of shape (n, n_near)
        Numbers of landmarks near every node, and the lengths of paths to these, NaN where one is
        not known.
    like : array
        Nodes are placed with its library, on its device.
    """

    paths: Lengths
    near: npt.NDArray[np.int32]
    lengths: Lengths
    like: Array

    def squares(self, nodes: Indices, columns: Indices, width: int) -> Lengths:
        """Squared lengths (m, width) to all landmarks, `columns` being the global ones."""
        lengths = np.full((nodes.size, width), np.nan, dtype=np.float32)
        np.put_along_axis(lengths, self.near[nodes], self.lengths[nodes], axis=1)
        lengths[:, columns] = self.paths[:, nodes].T
        return lengths**2

    def listed(self, nodes: Indices, columns: Indices, turns: Indices) -> tuple[Array, Array]:
        """Return the landmarks that nodes are placed from, and the squared lengths of paths.

        `turns` (G, n_global) are the global landmarks of a node, by its number modulo G.
        """
        like = self.like
        xp = namespace(like)
        rows = asarray_like(np.arange(nodes.size)[:, None], like, xp.int64)
        paths = asarray_like(self.paths[:, nodes], like)
        far = asarray_like(turns, like, xp.int64)[
            asarray_like(nodes % columns.size, like, xp.int64)
        ]
        lengths = xp.concat([paths[far, rows], asarray_like(self.lengths[nodes], like)], axis=1)
        near = asarray_like(self.near[nodes], like, xp.int64)
        ids = xp.concat([asarray_like(columns, like, xp.int64)[far], near], axis=1)
        return ids, xp.astype(lengths, xp.float64) ** 2


@dataclass(frozen=True, eq=False)
class LandmarkFit:
    """Embedded landmarks, and what other objects are compared with them by.

    Parameters
    ----------
    landmarks : ndarray of shape (L,)
        Numbers of the landmarks among all objects.
    embedding : Embedding
        Of the landmarks; its `placement` is the rule for others.
    recipe : Recipe or None
        What was chosen on landmarks held out.
    n : int
        Number of objects.
    sources : ndarray of shape (G,)
        Numbers of the global landmarks among all, in random order; in one level all of them.
    n_global, n_near : int
        How many landmarks of each kind an object is compared with in two levels; in one level
        `n_near` is 0, and an object is compared with all.
    metric : FittedMetric, optional
        The metric and the landmarks' features, where objects are rows of features.
    nodes : NodePaths, optional
        Where objects are nodes of a graph.
    """

    landmarks: Indices
    embedding: Embedding
    recipe: Recipe | None
    n: int
    sources: Indices
    n_global: int
    n_near: int
    metric: FittedMetric | None = None
    nodes: NodePaths | None = None

    @property
    def width(self) -> int:
        """Number of landmarks."""
        return int(self.landmarks.size)

    @property
    def rule(self) -> Placement:
        """The rule that places objects."""
        assert self.embedding.placement is not None
        return self.embedding.placement

    def squares(self, rows: Array, first: int = 0, weights: Array | None = None) -> Array:
        """Squared dissimilarities (m, L) of objects to all landmarks, NaN where one is not known.

        Parameters
        ----------
        rows : array of shape (m, n_features), (m, L), (m, n) or, of nodes, (m,)
        first : int, default=0
            Number of the first object, for messages.
        weights : array of shape (m, L), optional
            What has no weight may be negative.
        """
        if self.nodes is not None:
            return self.nodes.squares(rows, self.sources, self.width)
        if self.metric is not None:
            xp = namespace(rows)
            block = self.metric.squares_to(xp.astype(rows, xp.float64, copy=False))
        elif int(rows.shape[1]) == self.n:
            block = take(rows, slice(None), self.landmarks)
        else:
            block = rows
        objects = range(first, first + int(block.shape[0]))
        return self._checked(block, objects, self.landmarks, weights)

    def listed_squares(
        self, rows: Array, ids: Sequence[Indices], objects: Indices, at: Indices | None = None
    ) -> Array:
        """Squared dissimilarities of objects to landmarks of their own, one after the other.

        The objects are all rows, or those `at` some numbers.
        """
        columns = np.concatenate(ids)
        sizes = [len(own) for own in ids]
        at = np.arange(len(ids)) if at is None else at
        if self.metric is not None:
            xp = namespace(rows)
            features = xp.astype(take(rows, at), xp.float64, copy=False)
            block = self.metric.own_squares(features, ids)
        else:
            block = rows[at.repeat(sizes), self.landmarks[columns]]
        return self._checked(block[:, None], objects.repeat(sizes), self.landmarks[columns])[:, 0]

    def _checked(
        self,
        block: Array,
        objects: Sequence[int] | Indices,
        landmarks: Indices,
        weights: Array | None = None,
    ) -> Array:
        """Square dissimilarities, and refuse what cannot be; a column: each with its landmark."""
        xp = namespace(block)
        # One sum finds what is not finite; only then is it worth looking for.
        if not math.isfinite(float(xp.sum(block, dtype=xp.float64))):
            named = "X" if self.metric is None else self.metric.name
            if block.shape[1] == 1:
                at = int(np.argmin(np.isfinite(to_numpy(block)[:, 0])))
                block, objects, landmarks = block[at : at + 1], objects[at:], landmarks[at:]
            refuse_undefined(block, named, objects, landmarks)
        squared = self.embedding.squared
        return sq_rows(
            block,
            self.embedding.coordinates,
            squared=squared or self.metric is not None,
            loss=self.embedding.loss if squared else "squared",
            weights=weights,
            first=int(objects[0]) if len(objects) else 0,
        )

    def place(self, rows: Array, first: int = 0, weights: Array | None = None) -> Array:
        """Coordinates (m, k) of some objects, in the precision of their rows."""
        return self._place(rows, np.arange(first, first + int(rows.shape[0])), weights)

    def place_fitted(self, rows: Array, first: int = 0, weights: Array | None = None) -> Array:
        """Coordinates (m, k) of some objects that were fitted, of which landmarks stay."""
        objects = np.arange(first, first + int(rows.shape[0]))
        _, own, numbers = np.intersect1d(objects, self.landmarks, return_indices=True)
        others = np.delete(np.arange(objects.size), own)
        x = np.empty((objects.size, self.embedding.k))
        x[own] = to_numpy(self.embedding.coordinates)[numbers]
        like = rows if self.nodes is None else self.nodes.like
        xp = namespace(like)
        x = asarray_like(x, like, rows.dtype if self.nodes is None else xp.float64)
        if others.size:
            placed = self._place(take(rows, others), objects[others])
            x[asarray_like(others, like, xp.int64)] = placed
        return x

    def _place(self, rows: Array, objects: Indices, weights: Array | None = None) -> Array:
        if not self.n_near or self._has_landmark_columns(rows):
            first = int(objects[0]) if objects.size else 0
            placed = self.rule.place(self.squares(rows, first, weights), weights)
        elif self.nodes is not None:
            ids, squares = self.nodes.listed(rows, self.sources, self._turns)
            placed = self.rule.place(squares, own=ids)
        else:
            ids, squares = self._compared(rows, objects)
            placed = self.rule.place(squares, own=ids)
        xp = namespace(placed)
        return xp.astype(placed, rows.dtype if self.nodes is None else xp.float64, copy=False)

    def _has_landmark_columns(self, rows: Array) -> bool:
        """Tell whether rows hold dissimilarities to the landmarks alone."""
        return self.metric is None and self.nodes is None and int(rows.shape[1]) != self.n

    # Two levels

    @cached_property
    def _turns(self) -> Indices:
        """Places of the global landmarks (G, n_global) of an object, by its number modulo G."""
        count = self.sources.size
        return (np.arange(count)[:, None] + np.arange(self.n_global)) % count

    def global_landmarks(self, keys: npt.ArrayLike) -> Indices:
        """Return the global landmarks (m, n_global) of objects, each known by a number."""
        turn = np.asarray(keys, dtype=np.int64) % self.sources.size
        return np.asarray(self.sources[self._turns][turn])

    def _compared(self, rows: Array, objects: Indices) -> tuple[Array, Array]:
        """Compare objects with global landmarks, then twice with those near a provisional place.

        Return the landmarks of each, and the squared dissimilarities to these.
        """
        xp = namespace(rows)
        # On a device comparing all takes less time than choosing.
        all_squares = None if is_numpy(rows) else self.squares(rows, int(objects[0]))
        each = np.arange(objects.size)[:, None]

        def compare(ids: Indices) -> Array:
            if all_squares is not None:
                return all_squares[index_like(each, rows), index_like(ids, rows)]
            return np.reshape(self.listed_squares(rows, list(ids), objects), ids.shape)

        ids = self.global_landmarks(self._keys(rows))
        squares = compare(ids)
        first = round(FIRST * self.n_near)
        for count in (first, self.n_near - first):
            provisional = self.rule.place(squares, own=index_like(ids, squares))
            near = self.near_landmarks(provisional, ids, count)
            ids = np.concatenate([ids, near], axis=1)
            squares = xp.concat([squares, compare(near)], axis=1)
        return index_like(ids, squares), squares

    def near_landmarks(self, places: Array, known: Indices, count: int) -> Indices:
        """Landmarks (m, count) of least D̂ from some places, without those that are known.

        Of many landmarks those alone are compared that are about the nearest global one, so that
        an object takes as long however many there are.
        """
        places = places / self._scale
        if self._n_compared == self.width or not is_numpy(places):
            x, signs = self._scaled_coordinates, to_numpy(self.embedding.signs)
            return roughly_nearest(places, x, signs, known, count)
        found = np.empty((len(places), count), dtype=np.intp)
        for rows in row_blocks(len(places), self._n_compared):
            found[rows] = self._near_about(places[rows].astype(np.float32), known[rows], count)
        return found

    def _near_about(self, places: Array, known: Indices, count: int) -> Indices:
        x = self._scaled_coordinates
        signs = to_numpy(self.embedding.signs).astype(np.float32)
        centers, about, norms = self._cells
        ids = about[sq_ranks(places, centers).argmin(axis=1)]
        inner = (x[ids] @ (places * signs)[:, :, None])[:, :, 0]
        ranks, at = k_smallest(norms[ids] - 2 * inner, count + known.shape[1])
        ids = np.take_along_axis(ids, at, axis=1)
        ranks[(ids[:, :, None] == known[:, None, :]).any(axis=2)] = np.inf
        return np.take_along_axis(ids, k_smallest(ranks, count)[1], axis=1)

    @property
    def _n_compared(self) -> int:
        """Landmarks that a place is compared with at a time."""
        about = ABOUT * self.n_near + self.n_global
        return about if self.width > WORTH_CHOOSING * about else self.width

    @cached_property
    def _scale(self) -> float:
        return float(np.abs(to_numpy(self.embedding.coordinates)).max()) or 1.0

    @cached_property
    def _scaled_coordinates(self) -> npt.NDArray[np.float32]:
        return (to_numpy(self.embedding.coordinates) / self._scale).astype(np.float32)

    @cached_property
    def _cells(self) -> tuple[Array, Indices, Array]:
        """Global landmarks, those about each by the length of differences, and all xᵀAx."""
        x = self._scaled_coordinates
        centers = x[self.sources]
        blocks = row_blocks(len(centers), len(x))
        about = [k_smallest(sq_ranks(centers[rows], x), self._n_compared)[1] for rows in blocks]
        signs = to_numpy(self.embedding.signs).astype(np.float32)
        return centers, np.concatenate(about), (x * x) @ signs

    def _keys(self, rows: Array) -> list[int]:
        """Return a number for every row by what it holds, the same in either precision."""
        called = None if self.metric is None else self.metric.called
        if called is not None and called.items is not None:
            return [crc32(joblib.hash(called.items[int(i)]).encode()) for i in rows[:, 0]]
        if self.metric is None:
            rows = take(rows, slice(None), self.landmarks[self.sources[: self.n_global]])
        with np.errstate(over="ignore"):
            # Adding 0 makes −0 equal to 0.
            values = to_numpy(rows).astype(np.float32) + np.float32(0)
        return [crc32(row) for row in np.ascontiguousarray(values)]

    # All objects

    def place_all(
        self,
        rows: Array,
        out: str | PathLike[str] | None = None,
        *,
        fitted: bool = False,
        weights: Array | None = None,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        callback: Callback | None = None,
    ) -> Array:
        """Place objects in blocks: in threads, on the device of the rows, or lazily by dask.

        Parameters
        ----------
        rows : array, as of `squares`
        out, weights, checkpoint, n_jobs
            As for `LandmarkNeucMDS`.
        fitted : bool, default=False
            Whether these are the objects that were fitted: landmarks stay where they are.
        callback : callable, optional
            Told how many of all rows are done.
        """
        place = self.place_fitted if fitted else self.place
        like = rows if self.nodes is None else self.nodes.like
        if not is_numpy(like):
            for name, value in (("weights", weights), ("checkpoint", checkpoint)):
                if value is not None:
                    raise InputError(f"{option(name)} is for NumPy arrays.")
        if is_dask(like):
            from neucmds.backend.dask_arrays import map_rows

            if out is not None:
                raise InputError("out= is for arrays in memory; store the dask array that returns.")
            return map_rows(rows, place, self.embedding.k, self._row_width(rows))
        if not is_numpy(like):
            return self._place_on_device(rows, place, out, callback)
        shape = (int(rows.shape[0]), self.embedding.k)
        kept = None
        called = None if self.metric is None else self.metric.called
        if checkpoint is not None:
            rule = [getattr(self.rule, field.name) for field in fields(self.rule)]
            items = None if called is None else called.items
            kept = Checkpoint(checkpoint, rule, rows, weights, items, fitted)
        dtype = rows.dtype if self.nodes is None else np.float64
        with npy_output(out, shape, dtype, kept) as target:
            done = shape[0] - target.shape[0]

            def place_block(block: slice) -> Array:
                block = slice(block.start + done, block.stop + done)
                counted = None if weights is None else weights[block]
                return place(rows[block], block.start, counted)

            jobs = thread_count(n_jobs)
            elements = BLOCK_ELEMENTS
            if called is not None:  # it runs in processes, and is cut by time where that shows
                jobs = 1
                if kept is not None or callback is not None:
                    elements = called.at_once(elements)
            fill_rows(target, place_block, self._row_width(rows), jobs, callback, elements)
        return target if out is None else np.load(out, mmap_mode="r")

    def _row_width(self, rows: Array) -> int:
        """Entries of a row, or of all that an object is compared with at a time."""
        if self.nodes is not None and self.n_near:
            return self.n_global + self.n_near
        on_cpu = is_numpy(rows) or is_dask(rows)
        compared = self._n_compared if self.n_near and on_cpu else self.width
        return max(compared, int(rows.shape[1]) if self.nodes is None else 1)

    def _place_on_device(
        self,
        rows: Array,
        place: Callable[[Array, int], Array],
        out: str | PathLike[str] | None,
        callback: Callback | None,
    ) -> Array:
        """Place objects with the library and on the device of their rows, in blocks that fit."""
        n = int(rows.shape[0])
        like = rows if self.nodes is None else self.nodes.like
        free = free_memory(like) or 0
        # Some ten arrays of a block live at a time; beyond 2²⁷ entries nothing runs faster.
        entries = max(2**21, min(2**27, free // 160))
        placed = []
        for block in row_blocks(n, self._row_width(rows), entries):
            placed.append(place(rows[block], block.start))
            if callback is not None:
                callback(block.stop, n, "placed")
        x = namespace(like).concat(placed)
        if out is None:
            return x
        values = to_numpy(x)
        with npy_output(out, values.shape, values.dtype) as target:
            target[slice(0, n)] = values
        return np.load(out, mmap_mode="r")


def take(X: Any, rows: Any, columns: Any = slice(None)) -> Any:
    """Rows and columns of X, in memory."""
    if is_dask(X):
        return np.asarray(X[rows][:, columns].compute())
    if is_numpy(X) and not isinstance(rows, slice) and not isinstance(columns, slice):
        return X[np.ix_(rows, columns)]  # a memory map gives no more than these entries
    xp = namespace(X)
    for axis, which in enumerate((rows, columns)):
        if not isinstance(which, slice):
            X = xp.take(X, asarray_like(which, X, dtype=xp.int64), axis=axis)
    return X


def index_like(ids: Indices, array: Array) -> Array:
    """Return numbers as an array of the library and on the device of another."""
    return asarray_like(ids, array, dtype=namespace(array).int64)
