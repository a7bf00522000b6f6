"""The walk over a dask array: every chunk with its mirror image, where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from neucmds._backend import dask_arrays as lazy
from neucmds._backend.arrays import Array
from neucmds._input.dissimilarity import Dissimilarity
from neucmds._input.names import as_labels
from neucmds._input.tiles import averaged, find_in, finished, pair_findings
from neucmds._input.validation import (
    Findings,
    Floats,
    Half,
    Rules,
    Tile,
    diagonal_findings,
    validate,
    working_dtype,
)
from neucmds.errors import InputError


def lazy_dissimilarity(
    data: Array,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    labels: Sequence[object] | None = None,
) -> Dissimilarity:
    """Check a dask array, put it on the squared scale and keep its chunks on the workers.

    Nothing but a few numbers of each chunk comes to the client. Parameters are those of
    `as_dissimilarity`; there is no copy to be made or saved, and no entry may be missing.
    """
    data = _square_chunks(data)
    n = int(data.shape[0])
    names = as_labels(labels, n)
    rules = Rules(squared, symmetrize, False, names, in_memory=False)
    dtype = np.dtype(working_dtype(data))
    # Kept, as it is walked twice. A cluster frees each of these chunks as its square is made.
    given = data.astype(dtype).persist()
    findings = _survey(given)
    validate(findings, rules, n, dtype, find=find_in(given))
    values = _finished(given, rules, findings.triangle)
    del data, given
    return Dissimilarity(values.persist(), names)


def _square_chunks(data: Array) -> Array:
    """Refuse what can be told from shape and chunks alone; drop chunks without entries."""
    lazy.require_known_chunks(data, "D")
    if data.ndim != 2 or data.shape[0] != data.shape[1]:
        size = " × ".join(str(size) for size in data.shape)
        raise InputError(f"D is not square: {size}; a dask array must be n × n.")
    if data.shape[0] < 2:
        raise InputError(f"D has {data.shape[0]} objects; at least 2 are needed.")
    filled = tuple(tuple(size for size in sizes if size) for sizes in data.chunks)
    if filled != data.chunks:
        data = data.rechunk(filled)
    if data.chunks[0] != data.chunks[1]:
        rows, cols = (f"{len(sizes)} × {sizes[0]}" for sizes in data.chunks)
        raise InputError(
            f"D is not square in chunks: rows are cut into {rows}, columns into {cols}; call "
            f"D.rechunk({{0: {data.chunks[0][0]}, 1: {data.chunks[0][0]}}})."
        )
    return data


def _survey(data: Array) -> Findings:
    """Note what every chunk on or above the diagonal and its mirror image hold."""
    dask = lazy.require_dask(whole=True)
    chunks, ends = data.to_delayed(), np.cumsum(data.chunks[0])
    places = [
        slice(int(end - size), int(end)) for end, size in zip(ends, data.chunks[0], strict=True)
    ]
    note = dask.delayed(_pair, pure=True)
    pairs = combinations_with_replacement(range(len(places)), 2)
    found: tuple[Findings, ...] = dask.compute(
        *(
            note(chunks[i, j], chunks[j, i], (places[i], places[j]), int(data.shape[0]))
            for i, j in pairs
        )
    )
    return reduce(Findings.merged, found)


def _pair(upper: Floats, lower: Floats, tile: Tile, n: int) -> Findings:
    with np.errstate(invalid="ignore", over="ignore"):
        found = pair_findings(upper, lower, tile, n)
    if tile[0] == tile[1]:
        return found.merged(diagonal_findings(np.diagonal(upper), tile[0].start))
    return found


def _finished(data: Array, rules: Rules, triangle: Half | None) -> Array:
    """Put every chunk on the squared scale, averaged if asked for; itself if it is so already."""
    da = lazy.require_dask()

    def finish(chunk: Floats, *mirror: Floats, block_info: Any = None) -> Floats:
        (row, _), (col, _) = block_info[0]["array-location"]
        if mirror:
            above, below = (chunk, mirror[0]) if row <= col else (mirror[0], chunk)
            chunk = averaged(above, below, row == col, triangle)
        hollow = row == col and bool(np.diagonal(chunk).any())
        return np.asarray(finished(chunk, rules, hollow))

    sources = (data, data.T) if rules.symmetrize else (data,)
    return da.map_blocks(finish, *sources, dtype=data.dtype, meta=np.empty((0, 0), data.dtype))
