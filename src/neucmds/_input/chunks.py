"""A dask array is checked where it lies: every chunk by itself, then each with its mirror image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend import dask_arrays as lazy
from neucmds._backend.arrays import Array, eps
from neucmds._input import containers, walk
from neucmds._input.dissimilarity import Dissimilarity
from neucmds._input.validation import Rules
from neucmds.errors import InputError, option

__all__ = ["lazy_dissimilarity"]

Floats = npt.NDArray[Any]


def lazy_dissimilarity(
    data: Array,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    labels: Sequence[object] | None = None,
) -> Dissimilarity:
    """Check a dask array, put it on the squared scale and keep its chunks on the workers.

    Nothing but a few numbers a chunk comes to the client. Parameters are those of
    `as_dissimilarity`; there is no copy to be made or saved, and no entry may be missing.
    """
    _check_layout(data)
    names = containers.as_labels(labels, int(data.shape[0]))
    rules = Rules(squared, symmetrize, False, names)
    dtype = np.dtype(walk.working_dtype(data))
    source = 0.5 * data + 0.5 * data.T if symmetrize else data
    values = _prepared(source, rules, dtype).persist()
    if not symmetrize:
        _check_symmetry(values, rules, dtype)
    return Dissimilarity(values, names)


def _check_layout(data: Array) -> None:
    """Refuse what can be told from shape and chunks alone."""
    lazy.require_known_chunks(data, "D")
    if data.ndim != 2 or data.shape[0] != data.shape[1]:
        size = " × ".join(str(size) for size in data.shape)
        raise InputError(f"D is not square: {size}; a dask array must be n × n.")
    if data.chunks[0] != data.chunks[1]:
        rows, cols = (f"{len(sizes)} × {sizes[0]}" for sizes in data.chunks)
        raise InputError(
            f"D is not square in chunks: rows are cut into {rows}, columns into {cols}; call "
            f"D.rechunk({{0: {data.chunks[0][0]}, 1: {data.chunks[0][0]}}})."
        )
    if data.shape[0] < 2:
        raise InputError(f"D has {data.shape[0]} objects; at least 2 are needed.")


def _prepared(source: Array, rules: Rules, dtype: np.dtype[Any]) -> Array:
    da = lazy.require_dask()

    def prepare(chunk: Floats, block_info: Any = None) -> Floats:
        (row, _), (col, _) = block_info[0]["array-location"]
        return _chunk(np.asarray(chunk, dtype=dtype), int(row), int(col), rules)

    return da.map_blocks(prepare, source, dtype=dtype, meta=np.empty((0, 0), dtype))


def _chunk(chunk: Floats, row: int, col: int, rules: Rules) -> Floats:
    """Check one chunk and return it on the squared scale, hollow; itself if it is that already."""

    def place(i: int, j: int) -> str:
        return rules.place(row + i, col + j)

    if not np.isfinite(chunk).all():
        bad = ~np.isfinite(chunk)
        i, j = (int(at) for at in np.argwhere(bad)[0])
        raise InputError(
            f"D holds {chunk[i, j]} at {place(i, j)}, and {int(bad.sum()) - 1} more in that chunk; "
            "a dask array must be complete."
        )
    if not rules.squared and chunk.min() < 0:
        i, j = (int(at) for at in np.unravel_index(int(chunk.argmin()), chunk.shape))
        raise InputError(
            f"Negative values in data: {chunk[i, j]:.4g} at {place(i, j)}; pass "
            f"{option('squared', True)} if D "
            "already holds squared dissimilarities."
        )
    if row == col:
        chunk = _hollow(chunk, row, rules)
    return chunk if rules.squared else chunk * chunk


def _hollow(chunk: Floats, start: int, rules: Rules) -> Floats:
    diagonal = np.abs(np.diagonal(chunk))
    worst = int(diagonal.argmax())
    if diagonal[worst] > math.sqrt(eps(chunk.dtype)) * np.abs(chunk).max():
        raise InputError(
            f"D has a diagonal that is not zero: {chunk[worst, worst]:.4g} at "
            f"{rules.place(start + worst, start + worst)}; set it to 0, or convert D if it holds "
            "similarities."
        )
    if diagonal[worst] == 0:
        return chunk
    chunk = chunk.copy()
    np.fill_diagonal(chunk, 0)
    return chunk


@dataclass(frozen=True)
class _Gap:
    """Largest entry of a chunk, and its largest difference to the chunk across the diagonal."""

    size: float
    gap: float
    at: tuple[int, int]


def _check_symmetry(values: Array, rules: Rules, dtype: np.dtype[Any]) -> None:
    """Compare every chunk above the diagonal with its mirror image."""
    dask = lazy.require_dask(whole=True)
    chunks = values.to_delayed()
    starts = np.concatenate([[0], np.cumsum(values.chunks[0])])
    compare = dask.delayed(_compare, pure=True)
    gaps: tuple[_Gap, ...] = dask.compute(
        *(
            compare(chunks[i, j], chunks[j, i], int(starts[i]), int(starts[j]), rules.squared)
            for i in range(chunks.shape[0])
            for j in range(i, chunks.shape[0])
        )
    )
    worst = max(gaps, key=lambda found: found.gap)
    if worst.gap > math.sqrt(eps(dtype)) * max(found.size for found in gaps):
        raise InputError(
            f"D is not symmetric: largest gap {worst.gap:.2g} at {rules.place(*worst.at)}; "
            f"pass {option('symmetrize', True)} to average."
        )


def _compare(upper: Floats, lower: Floats, row: int, col: int, squared: bool) -> _Gap:
    if not squared:  # gaps are told on the scale that the user gave
        upper, lower = np.sqrt(upper), np.sqrt(lower)
    gap = np.abs(upper - lower.T)
    i, j = np.unravel_index(int(gap.argmax()), gap.shape)
    size = max(float(np.abs(upper).max()), float(np.abs(lower).max()))
    return _Gap(size, float(gap[i, j]), (row + int(i), col + int(j)))
