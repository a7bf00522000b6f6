"""Choose the operator: a matrix in memory if it fits, else chunks or features."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from neucmds.backend import memory
from neucmds.backend.arrays import Array, free_memory
from neucmds.backend.dask_arrays import from_store
from neucmds.backend.progress import Callback
from neucmds.errors import InputError
from neucmds.problem.components import NComponents, checked_size, total_of
from neucmds.problem.files import read_table
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.features import FeatureGram
from neucmds.spectrum.operators.gram import Gram


def feature_operator(
    features: Array,
    n_components: NComponents,
    metric: Any,
    *,
    squared: bool = False,
    callback: Callback | None = None,
) -> Gram:
    """Return D between features, stored if it fits and else computed in every pass."""
    space = FeatureGram(features, metric, squared=squared, callback=callback)
    room = _room_beside_vectors(space.n, n_components, space.points)
    if _dense_bytes(space.n, space.dtype, space.xp) <= room:
        return DenseGram(space.dense())
    return space


def dense_operator(sq_dissimilarity: Array, n_components: Any) -> DenseGram:
    """Return a D that is in memory behind its operator, with a float32 copy if there is room."""
    n = sq_dissimilarity.shape[0]
    room = _room_beside_vectors(n, n_components, sq_dissimilarity)
    return DenseGram(sq_dissimilarity, working_copy=4 * n**2 <= room)


def _room_beside_vectors(n: int, n_components: Any, like: Any) -> float:
    """Return the memory that is left beside the solver's vectors, which must fit."""
    free = free_memory(like) or memory.available_memory() or math.inf
    k = total_of(checked_size(n_components, n))
    # The basis has 6k vectors or more, and as much again is made of them.
    vectors = 8 * n * (8 * max(k, 30) + 100)
    if vectors > free:
        raise InputError(
            f"{n} objects and {k} coordinates need {memory.format_bytes(vectors)} beyond D, but "
            f"{memory.format_bytes(free)} are free; ask for fewer coordinates, pass D as float32 "
            "or as a file, or use LandmarkNeucMDS."
        )
    return free - vectors


def is_store(value: Any) -> bool:
    """Tell whether a value is a matrix outside memory: a map, or sliceable and no known array."""
    if isinstance(value, np.memmap):
        return True
    # zarr arrays and HDF5 datasets have the first, but not the others: these are of tables, sparse
    # matrices, arrays in memory and scikit-bio's matrices.
    required = ("shape", "dtype", "__getitem__")
    foreign = ("index", "tocsr", "__array_ufunc__", "__dlpack__", "ids")
    return all(hasattr(value, name) for name in required) and not any(
        hasattr(value, name) for name in foreign
    )


def lazy_if_large(D: Any) -> Any:
    """Return D as a dask array if it lies outside memory and does not fit, else D itself."""
    store = D
    if isinstance(D, (str, os.PathLike)):
        if Path(D).suffix.lower() != ".npy" or not Path(D).is_file():
            return D
        store, _ = read_table(D, mmap=True)
    # A store that is not square is refused, or spread out, where matrices in memory are checked.
    if (
        not is_store(store)
        or len(store.shape) != 2
        or store.shape[0] != store.shape[1]
    ):
        return D
    wide = (
        np.float32 if store.dtype in (np.float16, np.float32) else np.float64
    )
    free = memory.available_memory() or math.inf
    if _dense_bytes(store.shape[0], wide, np) <= free:
        return D
    return from_store(store)


def _dense_bytes(n: int, dtype: Any, xp: Any) -> int:
    """D, and the float32 copy of a float64 D."""
    return n * n * (4 if xp.finfo(dtype).bits == 32 else 12)
