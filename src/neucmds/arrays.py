"""The only file that tells array libraries apart; everywhere else there is one namespace, `xp`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import array_api_compat as compat
import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "asarray_like",
    "device",
    "empty_like",
    "eps",
    "is_array",
    "is_dask",
    "is_numpy",
    "is_writable",
    "namespace",
    "on_cpu",
    "row_blocks",
    "row_moments",
    "to_numpy",
]

# An array of any library with the array API; there is no static type for that yet.
Array = Any

# Entries in one block of rows: 16 MB in float64, so that a temporary of that size never matters.
BLOCK_ELEMENTS = 2**21


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace shared by all arrays (NumPy's, torch's, CuPy's, dask's)."""
    return compat.array_namespace(*arrays)


def device(array: Array) -> Any:
    """Return the device that an array lies on."""
    return compat.device(array)


def on_cpu(array: Array) -> bool:
    """Tell whether an array lies in the memory of the CPU."""
    return is_numpy(array) or not str(device(array)).startswith(("cuda", "<CUDA", "mps", "xpu"))


def is_array(value: object) -> bool:
    """Tell whether a value is an array of a library this package can compute with."""
    return bool(compat.is_array_api_obj(value))


def is_numpy(value: object) -> bool:
    """Tell whether a value is a NumPy array (memory maps included)."""
    return isinstance(value, np.ndarray)


def is_dask(value: object) -> bool:
    """Tell whether a value is a dask array."""
    return bool(compat.is_dask_array(value))


def is_writable(value: Array) -> bool:
    """Tell whether entries of an array can be set (read-only NumPy and JAX arrays: no)."""
    if is_numpy(value):
        return bool(value.flags.writeable)
    return bool(compat.is_writeable_array(value))


def to_numpy(value: Array) -> npt.NDArray[Any]:
    """Copy an array of any library and device to NumPy (NumPy itself is passed through)."""
    if is_numpy(value):
        return np.asarray(value)
    if compat.is_cupy_array(value):
        return np.asarray(value.get())
    if compat.is_torch_array(value):
        return np.asarray(value.detach().cpu().numpy())
    if is_dask(value):
        return np.asarray(value.compute())
    return np.asarray(value)


def asarray_like(value: object, like: Array, dtype: Any = None) -> Array:
    """Turn a value into an array of the library and on the device of `like`."""
    xp = namespace(like)
    return xp.asarray(
        value, dtype=like.dtype if dtype is None else dtype, device=compat.device(like)
    )


def empty_like(like: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Make an unfilled array of any shape in the library and on the device of `like`."""
    xp = namespace(like)
    return xp.empty(shape, dtype=like.dtype if dtype is None else dtype, device=compat.device(like))


def row_moments(block: Array) -> tuple[Array, float]:
    """Mean of every row and the sum of all squares, accumulated in float64.

    torch accumulates in another precision than it reads, in one walk; elsewhere a float32 block is
    widened first.
    """
    xp = namespace(block)
    if compat.is_torch_array(block):
        norms = xp.linalg.vector_norm(block, axis=1, dtype=xp.float64)
        return xp.mean(block, axis=1, dtype=xp.float64), float(norms @ norms)
    wide = xp.astype(block, xp.float64, copy=False)
    return xp.mean(wide, axis=1), float(xp.sum(xp.vecdot(wide, wide, axis=-1)))


def eps(dtype: Any, xp: Any = np) -> float:
    """Machine epsilon of a real floating dtype."""
    return float(xp.finfo(dtype).eps)


def row_blocks(n_rows: int, n_cols: int, elements: int = BLOCK_ELEMENTS) -> Iterator[slice]:
    """Cut rows into consecutive slices of about `elements` entries each."""
    step = max(1, min(n_rows, elements // max(1, n_cols)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
