"""Rows of dask arrays: refused by their shape alone, placed chunk by chunk."""

from __future__ import annotations

import numpy as np
import pytest

from neucmds import InputError
from neucmds._backend.dask_arrays import check_rows, map_rows, require_known_chunks

da = pytest.importorskip("dask.array")


def lazy(values, chunks):
    """An array that fails when anything of it is computed."""
    return da.from_array(values, chunks=chunks).map_blocks(
        lambda block: pytest.fail("computed"), dtype=values.dtype, meta=np.empty((0,) * 2)
    )


def test_rows_are_brought_into_one_chunk_of_floats_without_computing():
    assert check_rows(lazy(np.ones((10, 6)), (4, 2))).chunks == ((4, 4, 2), (6,))
    kept = {"f4": "f4", "f8": "f8", "i4": "f8", "?": "f8"}
    for given, dtype in kept.items():
        assert check_rows(da.ones((4, 2), dtype=given)).dtype == dtype


def test_wrong_rows_are_refused():
    with pytest.raises(InputError, match="3 dimensions"):
        check_rows(da.ones((2, 2, 2)))
    with pytest.raises(InputError, match="dtype complex128"):
        check_rows(da.ones((2, 2), dtype=complex))
    x = da.ones((6, 2), chunks=2)
    with pytest.raises(InputError, match=r"X\.compute_chunk_sizes\(\)"):
        require_known_chunks(x[x[:, 0] > 0], "X")


def test_work_is_told_where_its_rows_begin(monkeypatch):
    monkeypatch.setattr("neucmds._backend.arrays.BLOCK_ELEMENTS", 8)
    values = np.arange(22.0).reshape(11, 2)
    x = da.from_array(values, chunks=(4, 2))

    def work(rows, start):
        return np.column_stack([np.arange(start, start + len(rows)), rows[:, 0], rows[:, 1]])

    placed = map_rows(x, work, 3, 4)
    assert placed.chunks == ((4, 4, 3), (3,))
    np.testing.assert_array_equal(placed.compute(), np.column_stack([np.arange(11), values]))
