"""Choose the operator: D in memory if it fits, else chunks of D, or features."""

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
from neucmds.problem.names import Labels
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
    labels: Labels = None,
) -> Gram:
    """Return the operator of D between features: stored if D fits, else computed in every pass.

    Messages call objects by their `labels`.
    """
    gram = FeatureGram(features, metric, squared=squared, callback=callback)
    room = _room_beside_vectors(gram.n, n_components, gram.points)
    if _dense_bytes(gram.n, gram.dtype, gram.xp) <= room:
        return DenseGram(gram.dense(labels))
    return gram


def dense_operator(sq_dissimilarity: Array, n_components: Any) -> DenseGram:
    """Return the operator of a D in memory, with a float32 copy of B if there is room."""
    n = sq_dissimilarity.shape[0]
    room = _room_beside_vectors(n, n_components, sq_dissimilarity)
    return DenseGram(sq_dissimilarity, working_copy=4 * n**2 <= room)


def _room_beside_vectors(n: int, n_components: Any, like: Any) -> float:
    """Return the bytes that the solver's vectors leave free, or refuse k: they do not fit.

    `like` is an array in the memory that is meant, of the CPU or of a GPU.
    """
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
    """Tell whether a value is a matrix outside memory: a map, a zarr array or an HDF5 dataset."""
    if isinstance(value, np.memmap):
        return True
    required = ("shape", "dtype", "__getitem__")
    # Attributes of tables, sparse matrices, arrays in memory and scikit-bio's matrices.
    foreign = ("index", "tocsr", "__array_ufunc__", "__dlpack__", "ids")
    return all(hasattr(value, name) for name in required) and not any(
        hasattr(value, name) for name in foreign
    )


def lazy_if_large(D: Any) -> Any:
    """Return a D outside memory, or in an npy file, as a dask array if it does not fit, else D."""
    store = D
    if isinstance(D, (str, os.PathLike)):
        if Path(D).suffix.lower() != ".npy" or not Path(D).is_file():
            return D
        store, _ = read_table(D, mmap=True)
    # A condensed D, and one that is not square, go the way of matrices in memory.
    if (
        not is_store(store)
        or len(store.shape) != 2
        or store.shape[0] != store.shape[1]
    ):
        return D
    dtype: Any = np.float64
    if store.dtype in (np.float16, np.float32):
        dtype = np.float32
    free = memory.available_memory() or math.inf
    if _dense_bytes(store.shape[0], dtype, np) <= free:
        return D
    return from_store(store)


def _dense_bytes(n: int, dtype: Any, xp: Any) -> int:
    """Return the bytes of D and, if D is float64, of a float32 copy of B."""
    if xp.finfo(dtype).bits == 32:
        return 4 * n * n
    return 12 * n * n
