"""What array libraries do differently; all other modules use the array standard, `xp`."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import array_api_compat as compat
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.spatial.distance import cdist

# Most matrices of a stack that a GPU decomposes at a time: of 2¹⁵ of 20 × 20 cuSOLVER takes 22 GB.
_MOST_STACKED = 8192

# An array of any library with the array API; there is no static type for that yet.
Array = Any
# NumPy's arrays of numbers of any kind, of real numbers, of row numbers, and of truth values.
Numbers = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Marks = npt.NDArray[np.bool_]

# Entries in one block of rows: 16 MB in float64.
BLOCK_ELEMENTS = 2_097_152
# Entries that stay in cache through several steps: 1 MB in float64.
CACHED_ELEMENTS = 131_072
# Entries of a block on a GPU, where every block costs a wait.
DEVICE_ELEMENTS = 67_108_864

# Rounding of float64, and its least number with all digits.
EPS = sys.float_info.epsilon
TINY = sys.float_info.min

_NUMPY = compat.array_namespace(np.empty(()))


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace shared by all arrays (NumPy's, torch's, CuPy's, dask's)."""
    # This shortcut saves 5 % of the time of a descent on 50 objects.
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:
        return _NUMPY
    return compat.array_namespace(*arrays)


def contiguous(array: Array) -> Array:
    """Return the array with its last axis contiguous in memory, copied if it is not."""
    if is_torch(array):
        return array.contiguous()
    if is_numpy(array) or is_cupy(array):
        return namespace(array).ascontiguousarray(array)
    return array


def on_cpu(array: Array) -> bool:
    """Tell whether an array lies in the memory of the CPU."""
    return is_numpy(array) or not str(compat.device(array)).startswith(
        ("cuda", "<CUDA", "mps", "xpu")
    )


def is_array(value: object) -> bool:
    """Tell whether a value is an array of a library this package can compute with."""
    return compat.is_array_api_obj(value)


def is_numpy(value: object) -> bool:
    """Tell whether a value is a NumPy array (memory maps included)."""
    return isinstance(value, np.ndarray)


def is_torch(value: object) -> bool:
    """Tell whether a value is a tensor of PyTorch."""
    return compat.is_torch_array(value)


def is_cupy(value: object) -> bool:
    """Tell whether a value is a CuPy array."""
    return compat.is_cupy_array(value)


def is_dask(value: object) -> bool:
    """Tell whether a value is a dask array."""
    return compat.is_dask_array(value)


def is_writable(value: Array) -> bool:
    """Tell whether entries of an array can be set (read-only NumPy and JAX arrays: no)."""
    return compat.is_writeable_array(value)


def to_numpy(value: Array) -> Numbers:
    """Return an array of any library and device as NumPy's, copied unless it is NumPy's."""
    if is_numpy(value):
        return np.asarray(value)
    if is_cupy(value):
        return np.asarray(value.get())
    if is_torch(value):
        return np.asarray(value.detach().cpu().numpy())
    return np.asarray(value)


def to_floats(value: Array) -> Floats:
    """Return a copy of an array of any library and device, as NumPy's in float64."""
    xp = namespace(value)
    # Converted in its library: NumPy has no bfloat16.
    return to_numpy(xp.astype(value, xp.float64))


def sparse_in_memory(matrix: Any) -> tuple[Any, Array | None]:
    """Return a sparse matrix of PyTorch or CuPy as SciPy's, and an empty array on its device.

    Anything else is returned unchanged, with None.
    """
    if is_torch(matrix) and "strided" not in str(matrix.layout):
        stored = matrix.to_sparse_coo().coalesce()
        row_and_column = tuple(to_numpy(stored.indices()))
        values = stored.values()
        parts = (to_numpy(values), row_and_column)
        return sparse.coo_array(parts, tuple(matrix.shape)), values[:0]
    if hasattr(matrix, "get") and hasattr(matrix, "tocoo"):
        return matrix.get(), matrix.data[:0]
    return matrix, None


def taken(array: Array, rows: Array) -> Array:
    """Return rows of an array by their numbers."""
    return namespace(array).take(array, index_like(rows, array), axis=0)


def index_like(ids: Array, array: Array) -> Array:
    """Return numbers as an array of the library and on the device of another."""
    return asarray_like(ids, array, dtype=namespace(array).int64)


def asarray_like(value: object, like: Array, dtype: Any = None) -> Array:
    """Turn a value into an array of the library and on the device of `like`."""
    if dtype is None:
        dtype = like.dtype
    return namespace(like).asarray(
        value, dtype=dtype, device=compat.device(like)
    )


def in_double(array: Array) -> Array:
    """Return an array in float64, the array itself if it is float64 already."""
    xp = namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def uniform_rows(count: int, like: Array, rng: np.random.Generator) -> Array:
    """Draw rows as long as those of `like`, uniform in [0, 1), on its device.

    They are drawn in float32, which is fastest, and on a GPU by Torch's own generator.
    """
    xp = namespace(like)
    shape = (count, like.shape[1])
    if is_torch(like) and not on_cpu(like):
        generator = xp.Generator(like.device)
        generator.manual_seed(int(rng.integers(2**31)))
        return empty_like(like, shape).uniform_(generator=generator)
    draws = rng.random(shape, dtype=np.float32)
    return xp.astype(asarray_like(draws, like, xp.float32), like.dtype)


def centered(block: Array) -> Array:
    """Return a block minus the mean of every column: the action of the centering matrix C."""
    return block - namespace(block).mean(block, axis=0, keepdims=True)


def center_rows(block: Array) -> None:
    """Subtract the mean of every row, in place."""
    block -= namespace(block).mean(block, axis=1, keepdims=True)


def empty_like(
    like: Array, shape: tuple[int, ...], dtype: Any = None
) -> Array:
    """Make an unfilled array of any shape in the library and on the device of `like`."""
    if dtype is None:
        dtype = like.dtype
    return namespace(like).empty(
        shape, dtype=dtype, device=compat.device(like)
    )


def sparse_times(
    starts: Array, columns: Array, values: Array, block: Array
) -> Array:
    """Multiply a sparse matrix, as the three arrays of CSR, with a block of columns."""
    shape = (starts.shape[0] - 1, block.shape[0])
    if is_torch(values):
        import torch

        # Torch warns that the format is in beta.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Ss]parse")
            matrix = torch.sparse_csr_tensor(
                starts, columns, values, size=shape, check_invariants=False
            )
            return matrix @ block
    if is_cupy(values):
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix((values, columns, starts), shape=shape) @ block
    parts = (to_numpy(values), to_numpy(columns), to_numpy(starts))
    return asarray_like(
        sparse.csr_array(parts, shape=shape) @ to_numpy(block), block
    )


def minkowski(x: Array, y: Array, p: float) -> Array:
    """(Σ|x − y|^p)^(1/p) between all rows, p = 1 or ∞; p = 0 counts features that differ."""
    if is_torch(x):
        return namespace(x).cdist(x, y, p=p)
    names: Any = {0: "hamming", 1: "cityblock", math.inf: "chebyshev"}
    values = cdist(to_numpy(x), to_numpy(y), names[p])
    if p == 0:
        values *= x.shape[1]
    return asarray_like(values, x)


def k_smallest(matrix: Array, k: int) -> tuple[Array, Array]:
    """Return the k smallest entries of every row and their columns, in no particular order."""
    if is_torch(matrix):
        values, columns = matrix.topk(k, dim=1, largest=False)
        return values, columns
    xp = namespace(matrix)
    if is_numpy(matrix) or is_cupy(matrix):
        columns = matrix.argpartition(k - 1, axis=1)[:, :k]
        return xp.take_along_axis(matrix, columns, axis=1), columns
    return xp.sort(matrix, axis=1)[:, :k], xp.argsort(matrix, axis=1)[:, :k]


def smallest_of_groups(matrix: Numbers, k: int) -> tuple[Numbers, Indices]:
    """Return what `k_smallest` returns, faster: for 16 of 20,000 columns in a fifth of the time.

    Columns are cut into groups. The k smallest entries of a row are in the k groups with the least
    minima, or in the rest that makes no group.
    """
    m, n = matrix.shape
    # Columns in a group. With fewer than 4 whole rows are faster.
    size = math.isqrt(n // k)
    if size < 4:
        values, columns = k_smallest(matrix, k)
        return values, columns
    n_groups = n // size
    grouped = matrix[:, : n_groups * size].reshape(m, size, n_groups)
    groups = grouped.min(axis=1).argpartition(k - 1, axis=1)[:, None, :k]
    members = (groups + n_groups * np.arange(size)[:, None]).reshape(m, -1)
    rest = np.tile(np.arange(n_groups * size, n), (m, 1))
    columns = np.concatenate([members, rest], axis=1)
    values = np.take_along_axis(matrix, columns, axis=1)
    values, ranks = k_smallest(values, k)
    return values, np.take_along_axis(columns, ranks, axis=1)


def stacked_eigh(matrices: Array) -> tuple[Array, Array]:
    """Eigenpairs of every matrix of a stack; on a GPU in parts: cuSOLVER fails on 2¹⁶ at a time."""
    xp = namespace(matrices)
    count = matrices.shape[0]
    if on_cpu(matrices) or count <= _MOST_STACKED:
        values, vectors = xp.linalg.eigh(matrices)
        return values, vectors
    parts = [
        xp.linalg.eigh(matrices[part])
        for part in row_blocks(count, 1, _MOST_STACKED)
    ]
    values, vectors = (
        xp.concat(list(column), axis=0) for column in zip(*parts, strict=True)
    )
    return values, vectors


def stacked_cholesky(matrices: Array) -> tuple[Array, Array] | None:
    """Cholesky factors of a stack of matrices, and which of the matrices have none.

    A matrix has one if it is positive definite. None instead of both if the library stops at one
    that has none, or does not say which. This takes a tenth of the time of eigenpairs.
    """
    if is_torch(matrices):
        factors, info = namespace(matrices).linalg.cholesky_ex(matrices)
        return factors, info > 0
    if not is_numpy(matrices):
        return None
    try:
        return np.linalg.cholesky(matrices), np.zeros(
            len(matrices), dtype=bool
        )
    except np.linalg.LinAlgError:
        return None


def cholesky_and_inverse(matrix: Array) -> tuple[Array, Array]:
    """Return the Cholesky factor of a matrix and the inverse of the factor.

    Both are NaN if the matrix is not positive definite: so torch need not wait for a GPU.
    """
    if is_torch(matrix):
        xp = namespace(matrix)
        lower, info = xp.linalg.cholesky_ex(matrix)
        lower = xp.where(info > 0, xp.nan, lower)
        identity = xp.eye(
            matrix.shape[0], dtype=matrix.dtype, device=matrix.device
        )
        return lower, xp.linalg.solve_triangular(lower, identity, upper=False)
    in_numpy = to_numpy(matrix)
    try:
        lower = np.linalg.cholesky(in_numpy)
        inverse = np.linalg.inv(lower)
    except np.linalg.LinAlgError:
        lower = np.full_like(in_numpy, np.nan)
        inverse = lower
    return asarray_like(lower, matrix), asarray_like(inverse, matrix)


def solve_definite(matrices: Array, right_sides: Array) -> Array:
    """Solve one system for every positive definite matrix of a stack."""
    xp = namespace(matrices)
    if is_torch(matrices):
        factors = xp.linalg.cholesky_ex(matrices)[0]
        return xp.cholesky_solve(right_sides[:, :, None], factors)[:, :, 0]
    return xp.linalg.solve(matrices, right_sides[:, :, None])[:, :, 0]


def min_and_max(array: Array) -> tuple[float, float]:
    """Smallest and largest entry, in one pass where the library can; NaN if any entry is NaN."""
    xp = namespace(array)
    if is_torch(array):
        extremes = list(xp.aminmax(array))
    else:
        extremes = [xp.min(array), xp.max(array)]
    low, high = to_numpy(xp.stack(extremes))
    return float(low), float(high)


def eps(dtype: Any, xp: Any = np) -> float:
    """Machine epsilon of a real floating dtype."""
    return float(xp.finfo(dtype).eps)


def free_memory(like: Array) -> int | None:
    """Return the free bytes of the GPU of `like`; None for arrays in main memory."""
    if is_cupy(like):
        import cupy

        with like.device:
            unused = cupy.get_default_memory_pool().free_bytes()
            return int(cupy.cuda.runtime.memGetInfo()[0]) + int(unused)
    if is_torch(like) and like.device.type == "cuda":
        import torch

        unused = torch.cuda.memory_reserved(
            like.device
        ) - torch.cuda.memory_allocated(like.device)
        return int(torch.cuda.mem_get_info(like.device)[0]) + int(unused)
    return None


def in_place(name: str, array: Array, *args: float) -> Array:
    """Return a function of the array standard of an array, which may be overwritten with it."""
    xp = namespace(array)
    if is_torch(array):
        return getattr(array, name + "_")(*args)
    if not (is_numpy(array) or is_cupy(array)):
        return getattr(xp, name)(array, *args)
    if name == "clip":
        return array.clip(*args, out=array)
    return getattr(xp, name)(array, *args, out=array)


def block_elements(like: Array, on_the_cpu: int) -> int:
    """Return the number of entries of a block: on a GPU more, because every block costs a wait."""
    if on_cpu(like):
        return on_the_cpu
    return DEVICE_ELEMENTS


def row_blocks(
    n_rows: int, n_cols: int, elements: int = BLOCK_ELEMENTS
) -> Iterator[slice]:
    """Cut rows into consecutive slices of about `elements` entries each."""
    step = max(1, min(n_rows, elements // max(1, n_cols)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
