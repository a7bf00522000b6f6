"""Embedded landmarks, and how all other objects are placed among them.

An object is a row of features, a row of dissimilarities, or the number of a node. It is placed from
its squared dissimilarities to all landmarks (one level), or to some global landmarks drawn for it
and to the landmarks nearest to it (two levels).

Objects are numbered among all n, landmarks among all L: landmark a is object ``landmarks[a]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from zlib import crc32

import joblib
import numpy as np
from numpy.lib.format import open_memmap

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    Indices,
    Numbers,
    asarray_like,
    empty_like,
    free_memory,
    in_double,
    index_like,
    is_dask,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.backend.files import AnyPath, atomic_file
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
from neucmds.refine.losses import power_of_four

# Share of its near landmarks that an object is compared with in the first of two rounds; and share
# of an object's global landmarks that suffice for a landmark.
FIRST_SHARE = 2 / 3
# A place is compared with the landmarks in the cell of the nearest global landmark alone. A cell
# has this many landmarks per near landmark of an object, and cells are used where there are this
# many times more landmarks than in one: among 20,000 landmarks (k = 20), cells find 98 % of the
# nearest 60 in 0.13 ms per object; comparing all takes 0.5 ms.
CELL = 8
# Comparisons that tell rows apart.
KEY_BITS = 256


@dataclass(frozen=True, eq=False)
class NodePaths:
    """Lengths of shortest paths between nodes of a graph and landmarks, as far as searched.

    Parameters
    ----------
    from_sources : ndarray of shape (G, n)
        Lengths of the paths from the global landmarks to all nodes.
    near : ndarray of shape (n, n_near)
        Numbers, among the landmarks, of those near every node.
    near_lengths : ndarray of shape (n, n_near)
        Lengths of the paths to these; NaN where one is not known.
    like : array
        Nodes are placed with its library, on its device.
    """

    from_sources: Array
    near: Numbers
    near_lengths: Array
    like: Array


@dataclass(frozen=True, eq=False)
class LandmarkFit:
    """Embedded landmarks, and what places other objects among them.

    Parameters
    ----------
    landmarks : ndarray of shape (L,)
        The objects that are landmarks.
    embedding : Embedding
        Embedding of the landmarks; its `placement` is the rule for other objects.
    recipe : Recipe or None
        The choices made on held-out landmarks.
    n : int
        Number of objects.
    sources : ndarray of shape (G,)
        Numbers, among the landmarks, of the global ones, in random order; in one level of all.
    n_global, n_near : int
        How many landmarks of each kind an object is compared with in two levels; in one level
        `n_near` is 0, and an object is compared with all.
    metric : Metric, optional
        The metric and the landmarks' features, where objects are rows of features.
    nodes : NodePaths, optional
        Where objects are nodes of a graph.
    key_columns, key_values : ndarray of shape (KEY_BITS,), optional
        Columns of rows, and an entry of some landmark in each, that rows are told apart by.
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
    key_columns: Indices | None = None
    key_values: Array = None

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
        """Return squared dissimilarities (m, L) of objects to all landmarks, NaN if not known.

        Parameters
        ----------
        rows : array of shape (m, n_features), (m, L), (m, n), or (m,) for nodes
        first : int, default=0
            Number of the first object, for messages.
        """
        if self.nodes is not None:
            # In float64, which holds the squares of what is stored in float32.
            lengths = np.full((rows.size, self.width), np.nan)
            np.put_along_axis(
                lengths,
                self.nodes.near[rows],
                self.nodes.near_lengths[rows],
                axis=1,
            )
            lengths[:, self.sources] = self.nodes.from_sources[:, rows].T
            return lengths**2
        block = rows
        if self.metric is not None:
            block = self.metric.squares_to(in_double(rows))
        elif rows.shape[1] == self.n:
            block = take(rows, slice(None), self.landmarks)
        objects = np.arange(first, first + block.shape[0])
        return self._checked(block, objects, self.landmarks)

    def listed_squares(
        self,
        rows: Array,
        partners: Sequence[Indices],
        objects: Indices,
        row_of: Indices | None = None,
    ) -> Array:
        """Return squared dissimilarities of each object to its own landmarks, in one flat array.

        ``objects[a]`` is compared with the landmarks ``partners[a]``; it is row ``row_of[a]``, or
        row a without `row_of`.
        """
        sizes = list(map(len, partners))
        landmarks = self.landmarks[np.concatenate(partners)]
        if row_of is None:
            row_of = np.arange(len(partners))
        if self.metric is not None:
            features = in_double(take(rows, row_of))
            flat = self.metric.listed_squares_to(features, partners)
        else:
            flat = rows[row_of.repeat(sizes), landmarks]
        checked = self._checked(
            flat[:, None], objects.repeat(sizes), landmarks
        )
        return checked[:, 0]

    def _checked(
        self, block: Array, objects: Indices, landmarks: Indices
    ) -> Array:
        """Return squared dissimilarities of objects to landmarks, and refuse what is not finite.

        A block of one column holds pairs: row a compares ``objects[a]`` with ``landmarks[a]``.
        """
        xp = namespace(block)
        # One sum tells whether any entry is not finite; the search for it takes longer.
        if not math.isfinite(float(xp.sum(block, dtype=xp.float64))):
            # In messages; without a metric, X holds dissimilarities.
            source = getattr(self.metric, "name", "X")
            if block.shape[1] == 1:
                refuse_undefined(block[:, 0], source, objects, landmarks)
            refuse_undefined(block, source, objects, landmarks)
        embedding = self.embedding
        return sq_rows(
            block,
            embedding.coordinates,
            # Metrics come squared.
            squared=embedding.squared or self.metric is not None,
            # Only what a user passes as squared may be negative, and is checked by the loss.
            loss=embedding.loss if embedding.squared else "squared",
            first=int(objects[0]),
        )

    def embedding_at(self, x: Array, labels: Labels) -> Embedding:
        """Return the embedding of all objects at the coordinates x."""
        if is_dask(x):
            x = to_numpy(x)
        return replace(
            self.embedding,
            coordinates=x,
            labels=labels,
            landmarks=self.landmarks,
        )

    # Placing

    def place(
        self, rows: Array, first: int = 0, *, landmarks_stay: bool = False
    ) -> Array:
        """Return coordinates (m, k) of objects, numbered from `first`, in the dtype of their rows.

        With `landmarks_stay` these are objects of the fit, and landmarks stay where they are.
        """
        objects = np.arange(first, first + rows.shape[0])
        if not landmarks_stay:
            return self._place(rows, objects)
        _, landmark_rows, landmarks = np.intersect1d(
            objects, self.landmarks, return_indices=True
        )
        others = np.delete(np.arange(objects.size), landmark_rows)
        x = np.empty((objects.size, self.embedding.k))
        x[landmark_rows] = to_numpy(self.embedding.coordinates)[landmarks]
        x = asarray_like(x, self._like(rows), self._dtype(rows))
        if others.size:
            x[index_like(others, x)] = self._place(
                take(rows, others), objects[others]
            )
        return x

    def _place(self, rows: Array, objects: Indices) -> Array:
        """Return coordinates of objects from their own landmarks of two levels, or from all."""
        # Numbers of the landmarks of each object (m, c), if these are not all.
        partners = None
        if self.n_near and self.nodes is not None:
            partners, squares = self._listed_paths(rows)
        elif self.n_near and (
            self.metric is not None or rows.shape[1] == self.n
        ):
            partners, squares = self._listed_near(rows, objects)
        else:
            # One level, or rows that hold dissimilarities to the landmarks alone.
            squares = self.squares(rows, int(objects[0]))
        if self.nodes is not None:
            squares = asarray_like(squares, self.nodes.like, self._dtype(rows))
        if partners is not None:
            partners = index_like(partners, squares)
        placed = self.rule.place(squares, partners=partners)
        return namespace(placed).astype(placed, self._dtype(rows), copy=False)

    def _like(self, rows: Array) -> Array:
        """Return an array of the library and on the device that objects are placed with."""
        return rows if self.nodes is None else self.nodes.like

    def _dtype(self, rows: Array) -> Any:
        """Return the dtype of coordinates: that of the rows, or float64 for nodes of a graph."""
        if self.nodes is not None:
            return namespace(self.nodes.like).float64
        return rows.dtype

    # Two levels

    def global_landmarks(self, keys: Numbers) -> Indices:
        """Return the global landmarks (m, n_global) of m objects, by a whole number for each."""
        return self.sources[self._turns(keys)]

    def _turns(self, keys: Numbers) -> Indices:
        """Return n_global positions in `sources` for each key, one after the other, in a circle."""
        steps = keys[:, None] + np.arange(self.n_global)
        return np.asarray(steps % self.sources.size)

    def _listed_near(
        self, rows: Array, objects: Indices
    ) -> tuple[Indices, Array]:
        """Return the landmarks (m, c) of each object, and squared dissimilarities to these.

        Rows are compared with global landmarks, then in two rounds with those near a provisional
        place.
        """
        xp = namespace(rows)
        # On a device comparing all takes less time than choosing.
        all_squares = None
        if not is_numpy(rows):
            all_squares = self.squares(rows, int(objects[0]))
        row_numbers = np.arange(objects.size)[:, None]

        def squares_to(landmarks: Indices) -> Array:
            """Return squared dissimilarities of each object to its row of landmarks."""
            if all_squares is not None:
                return all_squares[
                    index_like(row_numbers, rows), index_like(landmarks, rows)
                ]
            flat = self.listed_squares(rows, list(landmarks), objects)
            return np.reshape(flat, landmarks.shape)

        partners = self.global_landmarks(self._keys(rows))
        squares = squares_to(partners)
        first_round = round(FIRST_SHARE * self.n_near)
        for count in (first_round, self.n_near - first_round):
            places = self.rule.place(
                squares, partners=index_like(partners, squares)
            )
            near = self.near_landmarks(places, partners, count)
            partners = np.concatenate([partners, near], axis=1)
            squares = xp.concat([squares, squares_to(near)], axis=1)
        return partners, squares

    def _listed_paths(self, nodes: Indices) -> tuple[Indices, Array]:
        """Return the landmarks (m, c) of each node, and squared lengths of the paths to these."""
        paths = self.nodes
        assert paths is not None
        turns = self._turns(nodes)
        far = paths.from_sources[turns, nodes[:, None]]
        lengths = np.concatenate([far, paths.near_lengths[nodes]], axis=1)
        partners = np.concatenate(
            [self.sources[turns], paths.near[nodes]], axis=1
        )
        return partners, lengths.astype(np.float64) ** 2

    def near_landmarks(
        self, places: Array, known: Indices, count: int
    ) -> Indices:
        """Return landmarks (m, count) of least D̂ from coordinates, without those `known` to each.

        With many landmarks only those in the cell of the nearest global landmark are compared, so
        that the time per object does not depend on the number of landmarks.
        """
        form = self.embedding.form
        if self._n_compared == self.width or not is_numpy(places):
            return roughly_nearest(
                form, places, self.embedding.coordinates, known, count
            )
        nearest = np.empty((len(places), count), dtype=np.intp)
        for block in row_blocks(len(places), self._n_compared):
            scaled = (places[block] / self._unit).astype(np.float32)
            nearest[block] = self._near_in_cells(scaled, known[block], count)
        return nearest

    def _near_in_cells(
        self, places: Array, known: Indices, count: int
    ) -> Indices:
        """Return the landmarks of least D̂ in the cell of each place, without `known` ones.

        A place is coordinates x by `_unit` in float32, A has the signs. The rank yᵀAy − 2yᵀAx of
        landmark y is its D̂ from x but for xᵀAx, as of `sq_ranks`.
        """
        members, norms = self._cells
        centers = self._coordinates[self.sources]
        landmarks = members[sq_ranks(places, centers).argmin(axis=1)]
        signed = (places * self._signs)[:, :, None]
        inner = (self._coordinates[landmarks] @ signed)[:, :, 0]
        # All `known` ones may be among the nearest.
        ranks, nearest = k_smallest(
            norms[landmarks] - 2 * inner, count + known.shape[1]
        )
        landmarks = np.take_along_axis(landmarks, nearest, axis=1)
        is_known = (landmarks[:, :, None] == known[:, None, :]).any(axis=2)
        ranks[is_known] = np.inf
        _, nearest = k_smallest(ranks, count)
        return np.take_along_axis(landmarks, nearest, axis=1)

    @property
    def _n_compared(self) -> int:
        """Number of landmarks that a place is compared with: those of a cell, or all."""
        cell_size = CELL * self.n_near + self.n_global
        if self.width > CELL * cell_size:
            return cell_size
        return self.width

    @cached_property
    def _unit(self) -> float:
        """A power of two. Coordinates are divided by it, so that float32 holds their squares."""
        return power_of_four(self.embedding.coordinates)

    @cached_property
    def _coordinates(self) -> Array:
        """Coordinates of the landmarks by `_unit`, in float32."""
        coordinates = to_numpy(self.embedding.coordinates)
        return (coordinates / self._unit).astype(np.float32)

    @cached_property
    def _signs(self) -> Array:
        """Signs of the coordinates, in float32."""
        return to_numpy(self.embedding.signs).astype(np.float32)

    @cached_property
    def _cells(self) -> tuple[Indices, Array]:
        """The landmarks in the cell of each global one, a row each, and yᵀAy of every landmark y.

        A cell has the landmarks at the shortest Euclidean distances, all signs taken as positive.
        """
        y = self._coordinates
        centers = y[self.sources]
        members = [
            k_smallest(sq_ranks(centers[block], y), self._n_compared)[1]
            for block in row_blocks(len(centers), len(y))
        ]
        return np.concatenate(members), (y * y) @ self._signs

    def _keys(self, rows: Array) -> Numbers:
        """Return a whole number for every row by what it holds, the same in float32 and float64.

        It decides the global landmarks of an object, so that the same row is always placed alike.
        Entries are compared with those of landmarks: at any scale of the data keys are the same.
        Objects of a user's function, which are no numbers, have a hash.
        """
        items = getattr(self.metric, "items", None)
        if items is not None:
            texts = [joblib.hash(items[int(i)]).encode() for i in rows[:, 0]]
            return np.array(list(map(crc32, texts)))
        entries = to_numpy(take(rows, slice(None), self.key_columns))
        unit = power_of_four(self.key_values)
        bits = (entries / unit).astype(np.float32) > self.key_values / unit
        return np.array(list(map(crc32, np.packbits(bits, axis=1))))

    # All objects

    def place_all(
        self,
        rows: Array,
        out: AnyPath | None = None,
        *,
        landmarks_stay: bool = False,
        n_jobs: int | None = None,
        callback: Callback | None = None,
    ) -> Array:
        """Return coordinates of objects, placed in blocks: in threads, on a device, or by dask.

        Parameters
        ----------
        rows : array
            As for `squares`.
        out, n_jobs
            As for `LandmarkNeucMDS`.
        landmarks_stay : bool, default=False
            Whether landmarks stay where they are: `rows` are then all objects of the fit.
        callback : callable, optional
            Told how many of all rows are placed.
        """
        place_rows = partial(self.place, landmarks_stay=landmarks_stay)
        like = self._like(rows)
        shape = (rows.shape[0], self.embedding.k)
        if is_dask(like):
            from neucmds.backend.dask_arrays import map_rows

            if out is not None:
                raise InputError(
                    "out= is for arrays in memory; store the dask array that returns."
                )
            return map_rows(
                rows, place_rows, self.embedding.k, self._row_width(rows)
            )
        dtype = self._dtype(rows)

        def place_block(block: slice) -> Array:
            """Place rows, in NumPy if they go to a file."""
            placed = place_rows(rows[block], block.start)
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
            # NumPy's dtype of that of another library.
            numpy_dtype = to_numpy(empty_like(like, (0,), dtype)).dtype
            fill(open_memmap(file.name, "w+", numpy_dtype, shape))
        return np.load(out, mmap_mode="r")

    def _block_sizes(self, like: Array, n_jobs: int | None) -> tuple[int, int]:
        """Return the number of threads, and the entries of a block."""
        if not is_numpy(like):
            # Some ten arrays of 8 bytes per entry live at a time, and as much is left free. Beyond
            # 2²⁷ entries nothing runs faster.
            entries = min(2**27, (free_memory(like) or 0) // 160)
            return 1, max(BLOCK_ELEMENTS, entries)
        # A user's function runs in processes.
        if self.metric is not None and self.metric.by_pairs:
            return 1, BLOCK_ELEMENTS
        return thread_count(n_jobs), BLOCK_ELEMENTS

    def _row_width(self, rows: Array) -> int:
        """Return the most entries that one object takes: its row, or what it is compared with."""
        on_cpu = is_numpy(rows) or is_dask(rows)
        width = self.width
        if self.n_near and self.nodes is not None:
            width = self.n_global + self.n_near
        elif self.n_near and on_cpu:
            width = self._n_compared
        return max(width, *map(int, rows.shape[1:]), 1)


def take(X: Any, rows: Any, columns: Any = slice(None)) -> Any:
    """Return rows and columns of X by number or slice, in memory."""
    if is_dask(X):
        return np.asarray(X[rows][:, columns].compute())
    if (
        is_numpy(X)
        and not isinstance(rows, slice)
        and not isinstance(columns, slice)
    ):
        # A memory map reads no more than these entries.
        return X[np.ix_(rows, columns)]
    xp = namespace(X)
    for axis, numbers in enumerate((rows, columns)):
        if not isinstance(numbers, slice):
            X = xp.take(X, index_like(numbers, X), axis=axis)
    return X
