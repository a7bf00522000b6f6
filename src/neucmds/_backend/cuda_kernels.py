"""Walks over a large matrix on a GPU that no library has in one kernel, compiled when first used.

Each function returns None where there is no such compiler, or where the matrix is not one
contiguous block: whoever calls it then takes the steps that the library has. What they are worth,
one H200, n = 50,000 in float64: benchmarks/records/gpu_dense.json.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import array_api_compat as compat

from neucmds._backend.arrays import Array, namespace, on_cpu, to_numpy

# What fills an H200 several times over.
_BLOCKS = 132 * 16
_THREADS = 256

_MIRRORED = """
// Compares every entry with its mirror image, and finds the lowest and the highest.
extern "C" __global__ void mirrored(const T* d, int n, T* low, T* high, int* differs) {
  __shared__ T tile[64][65];
  T lo = d[0], hi = d[0];
  bool other = false;
  const int side = (n + 63) / 64, x = threadIdx.x % 64;
  for (long long at = blockIdx.x; at < (long long)side * side; at += gridDim.x) {
    const int top = (int)(at / side) * 64, left = (int)(at % side) * 64;
    if (left < top) continue;
    for (int y = threadIdx.x / 64; y < 64; y += 4)
      if (top + y < n && left + x < n) tile[y][x] = d[(long long)(top + y) * n + left + x];
    __syncthreads();
    for (int y = threadIdx.x / 64; y < 64; y += 4)
      if (left + y < n && top + x < n) {
        const T v = d[(long long)(left + y) * n + top + x];
        other = other || !(v == tile[x][y]);  // NaN included
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
      }
    __syncthreads();
  }
  T* ends = &tile[0][0];
  ends[threadIdx.x] = lo;
  ends[256 + threadIdx.x] = hi;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const T a = ends[threadIdx.x + half], b = ends[256 + threadIdx.x + half];
      if (a < ends[threadIdx.x]) ends[threadIdx.x] = a;
      if (b > ends[256 + threadIdx.x]) ends[256 + threadIdx.x] = b;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) { low[blockIdx.x] = ends[0]; high[blockIdx.x] = ends[256]; }
  if (other) *differs = 1;
}
"""

_SUMS = """
// Sums of every row and of its squares, in double precision.
extern "C" __global__ void row_sums(const T* d, int rows, int n, double* sums, double* squares) {
  __shared__ double parts[512];
  for (int i = blockIdx.x; i < rows; i += gridDim.x) {
    const T* row = d + (long long)i * n;
    double sum = 0, square = 0;
    for (int j = threadIdx.x; j < n; j += 256) {
      const double v = row[j];
      sum += v;
      square += v * v;
    }
    parts[threadIdx.x] = sum;
    parts[256 + threadIdx.x] = square;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
      if (threadIdx.x < half) {
        parts[threadIdx.x] += parts[threadIdx.x + half];
        parts[256 + threadIdx.x] += parts[256 + threadIdx.x + half];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) { sums[i] = parts[0]; squares[i] = parts[256]; }
    __syncthreads();
  }
}
"""

_ROUNDED = """
// (d - left - right) * factor in double precision, stored in single.
extern "C" __global__ void centered_single(
    const T* d, int rows, int n, const double* left, const double* right, const double* factor,
    float* out) {
  const double f = factor[0];
  for (int i = blockIdx.y; i < rows; i += gridDim.y) {
    const T* from = d + (long long)i * n;
    float* to = out + (long long)i * n;
    const double own = left[i];
    for (int j = blockIdx.x * 256 + threadIdx.x; j < n; j += gridDim.x * 256)
      to[j] = (float)(((double)from[j] - own - right[j]) * f);
  }
}
"""


def symmetric_extremes(matrix: Array) -> tuple[float, float] | None:
    """Lowest and highest entry of a square matrix that equals its transpose to the last bit.

    Returns
    -------
    (float, float) or None
        None also where the matrix is not symmetric, or holds NaN.
    """
    launch = _launcher(_MIRRORED, "mirrored", matrix)
    if launch is None:
        return None
    xp, n = namespace(matrix), int(matrix.shape[0])
    low, high = (_empty(matrix, _BLOCKS, matrix.dtype) for _ in range(2))
    differs = xp.zeros((1,), dtype=xp.int32, device=compat.device(matrix))
    launch((_BLOCKS, 1, 1), [matrix, n, low, high, differs])
    ends = [xp.min(low), xp.max(high), xp.astype(differs[0], matrix.dtype)]
    lowest, highest, other = map(float, to_numpy(xp.stack(ends)))
    return None if other else (lowest, highest)


def row_sums(block: Array) -> tuple[Array, Array] | None:
    """Add up every row and its squares, in float64."""
    launch = _launcher(_SUMS, "row_sums", block)
    if launch is None:
        return None
    rows, n = (int(size) for size in block.shape)
    sums, squares = (_empty(block, rows, namespace(block).float64) for _ in range(2))
    launch((min(rows, 65535), 1, 1), [block, rows, n, sums, squares])
    return sums, squares


def centered_single(
    block: Array, left: Array, right: Array, factor: float, out: Array
) -> Array | None:
    """Write ``(block − left[:, None] − right) · factor`` to a float32 array of the same shape."""
    launch = _launcher(_ROUNDED, "centered_single", block)
    if launch is None or not _is_whole(out):
        return None
    rows, n = (int(size) for size in block.shape)
    xp = namespace(block)
    scalar = xp.full((1,), factor, dtype=xp.float64, device=compat.device(block))
    grid = (min(64, -(-n // _THREADS)), min(rows, 65535), 1)
    launch(grid, [block, rows, n, _packed(left), _packed(right), scalar, out])
    return out


def _launcher(source: str, name: str, array: Array) -> Callable[..., None] | None:
    """Return what starts a kernel with a grid and arguments on the device of an array."""
    dtype = str(array.dtype).removeprefix("torch.")
    if on_cpu(array) or dtype not in ("float32", "float64") or not _is_whole(array):
        return None
    text = f"typedef {'float' if dtype == 'float32' else 'double'} T;\n{source}"
    if compat.is_cupy_array(array):
        return _cupy_kernel(text, name, int(array.device.id))
    if compat.is_torch_array(array) and array.device.type == "cuda":
        return _torch_kernel(text, name, array.device.index or 0)
    return None


@cache
def _cupy_kernel(text: str, name: str, device: int) -> Callable[..., None] | None:
    import cupy

    try:
        with cupy.cuda.Device(device):
            kernel = cupy.RawKernel(text, name)
            kernel.compile()
    except Exception:  # no compiler, or one that fails: its errors have no common base
        return None

    def launch(grid: tuple[int, int, int], arguments: list[Any]) -> None:
        import numpy as np

        given = tuple(np.int32(one) if isinstance(one, int) else one for one in arguments)
        with cupy.cuda.Device(device):
            kernel(grid, (_THREADS, 1, 1), given)

    return launch


@cache
def _torch_kernel(text: str, name: str, device: int) -> Callable[..., None] | None:
    import torch

    try:
        with torch.cuda.device(device):
            kernel = torch.cuda._compile_kernel(text, name)
    except Exception:  # no run-time compiler, or a torch without this (private) interface
        return None

    def launch(grid: tuple[int, int, int], arguments: list[Any]) -> None:
        with torch.cuda.device(device):
            kernel(grid=grid, block=(_THREADS, 1, 1), args=arguments)

    return launch


def _is_whole(array: Array) -> bool:
    """Tell whether an array is one contiguous block, row by row."""
    if compat.is_torch_array(array):
        return bool(array.is_contiguous())
    return bool(array.flags.c_contiguous)


def _packed(vector: Array) -> Array:
    xp = namespace(vector)
    wide = xp.astype(vector, xp.float64, copy=False)
    return wide.contiguous() if compat.is_torch_array(wide) else xp.ascontiguousarray(wide)


def _empty(like: Array, size: int, dtype: Any) -> Array:
    return namespace(like).empty((size,), dtype=dtype, device=compat.device(like))
