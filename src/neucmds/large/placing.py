"""Embedded landmarks, and how all other objects are placed among them.

An object is a row of features, a row of dissimilarities, or the number of a node. It is placed from
its squared dissimilarities to landmarks: to all of them, or in two levels to some global ones drawn
for it and to those nearest to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any
from zlib import crc32

import joblib
import numpy as np
import numpy.typing as npt
from numpy.lib.format import open_memmap

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    asarray_like,
    empty_like,
    free_memory,
    index_like,
    is_dask,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.backend.files import atomic_file
from neucmds.backend.progress import Callback
from neucmds.backend.threads import fill_rows, thread_count
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.place.neighbors import roughly_nearest, sq_ranks
from neucmds.place.new_rows import sq_rows
from neucmds.place.recipe import Recipe
from neucmds.place.rules import Placement
from neucmds.problem.metrics import Metric, refuse_undefined
from neucmds.problem.names import Labels

Indices = npt.NDArray[np.intp]
Lengths = npt.NDArray[np.float32]

# Share of the near landmarks that an object is compared with before it is placed anew, and of the
# global ones that a landmark is compared with.
FIRST = 2 / 3
# Landmarks about a global one, for each near landmark of an object; and times as many from which on
# choosing among these is faster than comparing all: of 20,000 98 % of the nearest 60 are found in
# 0.13 ms per object, all of them in 0.5 (k = 20).
ABOUT = 8


@dataclass(frozen=True, eq=False)
class NodePaths:
    """Lengths of shortest paths between nodes of a graph and landmarks, as far as searched.

    Parameters
    ----------
    paths : ndarray of shape (G, n)
        From the global landmarks.
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
    metric : Metric, optional
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
    metric: Metric | None = None
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

    # Comparing objects with landmarks

    def squares(self, rows: Array, first: int = 0) -> Array:
        """Squared dissimilarities (m, L) of objects to all landmarks, NaN where one is not known.

        Parameters
        ----------
        rows : array of shape (m, n_features), (m, L), (m, n) or, of nodes, (m,)
        first : int, default=0
            Number of the first object, for messages.
        """
        if self.nodes is not None:
            lengths = np.full(
                (rows.size, self.width), np.nan, dtype=np.float32
            )
            np.put_along_axis(
                lengths,
                self.nodes.near[rows],
                self.nodes.lengths[rows],
                axis=1,
            )
            lengths[:, self.sources] = self.nodes.paths[:, rows].T
            return lengths**2
        block = rows
        if self.metric is not None:
            xp = namespace(rows)
            block = self.metric.squares_to(
                xp.astype(rows, xp.float64, copy=False)
            )
        elif int(rows.shape[1]) == self.n:
            block = take(rows, slice(None), self.landmarks)
        objects = np.arange(first, first + int(block.shape[0]))
        return self._checked(block, objects, self.landmarks)

    def listed_squares(
        self,
        rows: Array,
        ids: Sequence[Indices],
        objects: Indices,
        at: Indices | None = None,
    ) -> Array:
        """Squared dissimilarities of objects to landmarks of their own, one after the other.

        The objects are all rows, or those `at` some numbers.
        """
        sizes = [len(own) for own in ids]
        landmarks = self.landmarks[np.concatenate(ids)]
        if at is None:
            at = np.arange(len(ids))
        if self.metric is not None:
            xp = namespace(rows)
            features = xp.astype(take(rows, at), xp.float64, copy=False)
            block = self.metric.own_squares(features, ids)
        else:
            block = rows[at.repeat(sizes), landmarks]
        return self._checked(block[:, None], objects.repeat(sizes), landmarks)[
            :, 0
        ]

    def _checked(
        self, block: Array, objects: Indices, landmarks: Indices
    ) -> Array:
        """Square dissimilarities, and refuse what cannot be; a column: each with its landmark."""
        xp = namespace(block)
        # One sum finds what is not finite; only then is it worth looking for.
        if not math.isfinite(float(xp.sum(block, dtype=xp.float64))):
            named = getattr(self.metric, "name", "X")
            if block.shape[1] == 1:
                refuse_undefined(block[:, 0], named, objects, landmarks)
            refuse_undefined(block, named, objects, landmarks)
        embedding = self.embedding
        return sq_rows(
            block,
            embedding.coordinates,
            squared=embedding.squared or self.metric is not None,
            # Metrics but squared ones are not negative.
            loss=embedding.loss if embedding.squared else "squared",
            first=int(objects[0]),
        )

    def embedding_at(self, x: Array, labels: Labels) -> Embedding:
        """Return the embedding of all objects, at the coordinates where they were placed."""
        if is_dask(x):
            x = to_numpy(x)
        return replace(
            self.embedding,
            coordinates=x,
            labels=labels,
            landmarks=self.landmarks,
        )

    # Placing

    def place(self, rows: Array, first: int = 0) -> Array:
        """Coordinates (m, k) of some objects, in the precision of their rows."""
        return self._place(rows, np.arange(first, first + int(rows.shape[0])))

    def place_fitted(self, rows: Array, first: int = 0) -> Array:
        """Coordinates (m, k) of some objects that were fitted, of which landmarks stay."""
        objects = np.arange(first, first + int(rows.shape[0]))
        _, own, numbers = np.intersect1d(
            objects, self.landmarks, return_indices=True
        )
        others = np.delete(np.arange(objects.size), own)
        x = np.empty((objects.size, self.embedding.k))
        x[own] = to_numpy(self.embedding.coordinates)[numbers]
        x = asarray_like(x, self._like(rows), self._dtype(rows))
        if others.size:
            x[index_like(others, x)] = self._place(
                take(rows, others), objects[others]
            )
        return x

    def _place(self, rows: Array, objects: Indices) -> Array:
        """Place objects from their own landmarks, or from all of them."""
        ids = None
        if self.n_near and self.nodes is not None:
            ids, squares = self._listed_paths(rows)
        elif self.n_near and (
            self.metric is not None or int(rows.shape[1]) == self.n
        ):
            ids, squares = self._compared(rows, objects)
        else:  # dissimilarities to the landmarks alone, or one level
            squares = self.squares(rows, int(objects[0]))
        if self.nodes is not None:
            squares = asarray_like(squares, self.nodes.like, self._dtype(rows))
        if ids is not None:
            ids = index_like(ids, squares)
        placed = self.rule.place(squares, own=ids)
        return namespace(placed).astype(placed, self._dtype(rows), copy=False)

    def _like(self, rows: Array) -> Array:
        """Return an array of the library and on the device that objects are placed with."""
        return rows if self.nodes is None else self.nodes.like

    def _dtype(self, rows: Array) -> Any:
        if self.nodes is not None:
            return namespace(self.nodes.like).float64
        return rows.dtype

    # Two levels

    def global_landmarks(self, keys: npt.ArrayLike) -> Indices:
        """Return the global landmarks (m, n_global) of objects, each known by a number."""
        return self.sources[self._turns(keys)]

    def _turns(self, keys: npt.ArrayLike) -> Indices:
        first = np.asarray(keys, dtype=np.int64)[:, None]
        return (first + np.arange(self.n_global)) % self.sources.size

    def _compared(
        self, rows: Array, objects: Indices
    ) -> tuple[Indices, Array]:
        """Return the landmarks of each object, and the squared dissimilarities to these.

        Rows are compared with global landmarks, then twice with those near a provisional place.
        """
        xp = namespace(rows)
        # On a device comparing all takes less time than choosing.
        all_squares = None
        if not is_numpy(rows):
            all_squares = self.squares(rows, int(objects[0]))
        each = np.arange(objects.size)[:, None]

        def compare(ids: Indices) -> Array:
            if all_squares is not None:
                return all_squares[
                    index_like(each, rows), index_like(ids, rows)
                ]
            return np.reshape(
                self.listed_squares(rows, list(ids), objects), ids.shape
            )

        ids = self.global_landmarks(self._keys(rows))
        squares = compare(ids)
        first = round(FIRST * self.n_near)
        for count in (first, self.n_near - first):
            provisional = self.rule.place(
                squares, own=index_like(ids, squares)
            )
            near = self.near_landmarks(provisional, ids, count)
            ids = np.concatenate([ids, near], axis=1)
            squares = xp.concat([squares, compare(near)], axis=1)
        return ids, squares

    def _listed_paths(self, nodes: Indices) -> tuple[Indices, Array]:
        """Return the landmarks of each node, and the squared lengths of paths to these."""
        assert self.nodes is not None
        turns = self._turns(nodes)
        far = self.nodes.paths[:, nodes][turns, np.arange(nodes.size)[:, None]]
        lengths = np.concatenate([far, self.nodes.lengths[nodes]], axis=1)
        ids = np.concatenate(
            [self.sources[turns], self.nodes.near[nodes]], axis=1
        )
        return ids, lengths.astype(np.float64) ** 2

    def near_landmarks(
        self, places: Array, known: Indices, count: int
    ) -> Indices:
        """Landmarks (m, count) of least D̂ from some places, without those that are known.

        Of many landmarks those alone are compared that are about the nearest global one, so that
        an object takes as long however many there are.
        """
        form = self.embedding.form
        if self._n_compared == self.width or not is_numpy(places):
            return roughly_nearest(
                form, places, self._coordinates, known, count
            )
        nearest = np.empty((len(places), count), dtype=np.intp)
        for rows in row_blocks(len(places), self._n_compared):
            nearest[rows] = self._near_about(
                places[rows].astype(np.float32), known[rows], count
            )
        return nearest

    def _near_about(
        self, places: Array, known: Indices, count: int
    ) -> Indices:
        about, norms = self._cells
        signs = self._signs
        ids = about[
            sq_ranks(places, self._coordinates[self.sources]).argmin(axis=1)
        ]
        inner = (self._coordinates[ids] @ (places * signs)[:, :, None])[
            :, :, 0
        ]
        ranks, at = k_smallest(norms[ids] - 2 * inner, count + known.shape[1])
        ids = np.take_along_axis(ids, at, axis=1)
        ranks[(ids[:, :, None] == known[:, None, :]).any(axis=2)] = np.inf
        return np.take_along_axis(ids, k_smallest(ranks, count)[1], axis=1)

    @property
    def _n_compared(self) -> int:
        """Landmarks that a place is compared with at a time."""
        about = ABOUT * self.n_near + self.n_global
        if self.width > ABOUT * about:
            return about
        return self.width

    @cached_property
    def _coordinates(self) -> npt.NDArray[np.float32]:
        return to_numpy(self.embedding.coordinates).astype(np.float32)

    @cached_property
    def _signs(self) -> npt.NDArray[np.float32]:
        return to_numpy(self.embedding.signs).astype(np.float32)

    @cached_property
    def _cells(self) -> tuple[Indices, Array]:
        """Landmarks about each global one by the length of differences, and all xᵀAx."""
        x = self._coordinates
        centers = x[self.sources]
        about = [
            k_smallest(sq_ranks(centers[rows], x), self._n_compared)[1]
            for rows in row_blocks(len(centers), len(x))
        ]
        return np.concatenate(about), (x * x) @ self._signs

    def _keys(self, rows: Array) -> list[int]:
        """Return a number for every row by what it holds, the same in either precision."""
        items = getattr(self.metric, "items", None)
        if items is not None:
            return [
                crc32(joblib.hash(items[int(i)]).encode()) for i in rows[:, 0]
            ]
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
        n_jobs: int | None = None,
        callback: Callback | None = None,
    ) -> Array:
        """Place objects in blocks: in threads, on the device of the rows, or lazily by dask.

        Parameters
        ----------
        rows : array, as of `squares`
        out, n_jobs
            As for `LandmarkNeucMDS`.
        fitted : bool, default=False
            Whether these are the objects that were fitted: landmarks stay where they are.
        callback : callable, optional
            Told how many of all rows are placed.
        """
        place = self.place
        if fitted:
            place = self.place_fitted
        like = self._like(rows)
        shape = (int(rows.shape[0]), self.embedding.k)
        if is_dask(like):
            from neucmds.backend.dask_arrays import map_rows

            if out is not None:
                raise InputError(
                    "out= is for arrays in memory; store the dask array that returns."
                )
            return map_rows(
                rows, place, self.embedding.k, self._row_width(rows)
            )
        dtype = self._dtype(rows)

        def place_block(block: slice) -> Array:
            placed = place(rows[block], block.start)
            return placed if out is None else to_numpy(placed)

        def fill(target: Array) -> None:
            jobs, elements = self._block_sizes(like, n_jobs)
            width = self._row_width(rows)
            fill_rows(target, place_block, width, jobs, callback, elements)

        if out is None:
            target = empty_like(like, shape, dtype)
            fill(target)
            return target
        with atomic_file(out) as file:
            stored = to_numpy(empty_like(like, (0,), dtype)).dtype
            fill(open_memmap(file.name, "w+", stored, shape))
        return np.load(out, mmap_mode="r")

    def _block_sizes(self, like: Array, n_jobs: int | None) -> tuple[int, int]:
        """Return the number of threads, and the entries of a block."""
        if not is_numpy(like):
            # Some ten arrays of a block live at a time; beyond 2²⁷ entries nothing runs faster.
            return 1, max(
                BLOCK_ELEMENTS, min(2**27, (free_memory(like) or 0) // 160)
            )
        # A user's function runs in processes.
        if self.metric is not None and self.metric.by_pairs:
            return 1, BLOCK_ELEMENTS
        return thread_count(n_jobs), BLOCK_ELEMENTS

    def _row_width(self, rows: Array) -> int:
        """Entries of a row, or of all that an object is compared with at a time."""
        on_cpu = is_numpy(rows) or is_dask(rows)
        width = self.width
        if self.n_near and self.nodes is not None:
            width = self.n_global + self.n_near
        elif self.n_near and on_cpu:
            width = self._n_compared
        return max(width, *map(int, rows.shape[1:]), 1)


def take(X: Any, rows: Any, columns: Any = slice(None)) -> Any:
    """Rows and columns of X, in memory."""
    if is_dask(X):
        return np.asarray(X[rows][:, columns].compute())
    if (
        is_numpy(X)
        and not isinstance(rows, slice)
        and not isinstance(columns, slice)
    ):
        return X[
            np.ix_(rows, columns)
        ]  # a memory map gives no more than these entries
    xp = namespace(X)
    for axis, which in enumerate((rows, columns)):
        if not isinstance(which, slice):
            X = xp.take(X, index_like(which, X), axis=axis)
    return X
