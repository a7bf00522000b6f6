"""CUDA kernels for passes over large arrays that no array library does in one.

Each function returns None (or False) where it does not apply, and the caller uses the array
library.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    Array,
    empty_like,
    is_cupy,
    is_torch,
    namespace,
    to_numpy,
)
from neucmds.errors import NeucmdsWarning

# Blocks that fill an H200 several times over: 16 for each of its 132 multiprocessors.
_BLOCKS = 2112
_THREADS = 256
# CUDA's limit on the second dimension of a grid.
_MOST_GRID_ROWS = 65535

_MIRRORED = """
// Compares every entry with its mirror image: the lowest, the highest, the largest gap, any NaN.
extern "C" __global__ void mirrored(const T* d, int n, T* low, T* high, T* gap, int* missing) {
  __shared__ T tile[64][65];  // 65: no bank conflicts when read by columns
  T lo = d[0], hi = d[0], apart = 0;
  bool nan = false;
  const int tiles_per_side = (n + 63) / 64;
  const long long tiles = (long long)tiles_per_side * tiles_per_side;
  const int x = threadIdx.x % 64;
  for (long long at = blockIdx.x; at < tiles; at += gridDim.x) {
    const int top = (int)(at / tiles_per_side) * 64, left = (int)(at % tiles_per_side) * 64;
    // Tiles of the upper triangle alone: each is compared with its mirror image below.
    if (left < top) continue;
    for (int y = threadIdx.x / 64; y < 64; y += 4)
      if (top + y < n && left + x < n) tile[y][x] = d[(long long)(top + y) * n + left + x];
    __syncthreads();
    for (int y = threadIdx.x / 64; y < 64; y += 4)
      if (left + y < n && top + x < n) {
        const T below = d[(long long)(left + y) * n + top + x], above = tile[x][y];
        const T between = below < above ? above - below : below - above;
        nan = nan || below != below || above != above;
        apart = between > apart ? between : apart;
        lo = below < lo ? below : lo;
        lo = above < lo ? above : lo;
        hi = below > hi ? below : hi;
        hi = above > hi ? above : hi;
      }
    __syncthreads();
  }
  // Three maxima, 256 entries each: -lowest, highest, gap.
  T* ends = &tile[0][0];
  ends[threadIdx.x] = -lo;
  ends[256 + threadIdx.x] = hi;
  ends[512 + threadIdx.x] = apart;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half)
      for (int at = threadIdx.x; at < 768; at += 256)
        if (ends[at + half] > ends[at]) ends[at] = ends[at + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    low[blockIdx.x] = -ends[0];
    high[blockIdx.x] = ends[256];
    gap[blockIdx.x] = ends[512];
  }
  if (nan) *missing = 1;
}
"""

_BETWEEN = """
// Sums over the features of all pairs of rows, 64 x 64 pairs a block and 4 x 4 a thread.
extern "C" __global__ void between(const T* x, const T* y, int m, int n, int d, T* out) {
  __shared__ T xs[16][65], ys[16][65];  // 65: no bank conflicts when written by columns
  const long long top = blockIdx.y * 64LL, left = blockIdx.x * 64LL;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  T s[4][4] = {}, t[4][4] = {};
  for (int first = 0; first < d; first += 16) {
    const int width = d - first < 16 ? d - first : 16;
    for (int at = threadIdx.x; at < 1024; at += 256) {
      const int f = at % 16, row = at / 16;
      const bool inside = f < width;
      xs[f][row] = inside && top + row < m ? x[(top + row) * d + first + f] : T(0);
      ys[f][row] = inside && left + row < n ? y[(left + row) * d + first + f] : T(0);
    }
    __syncthreads();
    for (int f = 0; f < width; ++f)
      for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) {
          const T a = xs[f][ty + 16 * r], b = ys[f][tx + 16 * c];
          STEP;  // text from _METRICS
        }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) {
      const long long i = top + ty + 16 * r, j = left + tx + 16 * c;
      if (i < m && j < n) out[i * n + j] = END;  // text from _METRICS
    }
}
"""
# Update of the sums s and t of a pair by a feature, and the metric from them.
_METRICS = {
    "braycurtis": (
        "s[r][c] += fabs(a - b); t[r][c] += fabs(a + b)",
        "s[r][c] / t[r][c]",
    ),
    "chebyshev": ("s[r][c] = fmax(s[r][c], fabs(a - b))", "s[r][c]"),
    "cityblock": ("s[r][c] += fabs(a - b)", "s[r][c]"),
    "hamming": ("s[r][c] += a != b", "s[r][c] / d"),
}

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
    const T* d, int rows, int n, const double* left, const double* right, double factor,
    float* out) {
  for (int i = blockIdx.y; i < rows; i += gridDim.y) {
    const T* from = d + (long long)i * n;
    float* to = out + (long long)i * n;
    const double own = left[i];
    for (int j = blockIdx.x * 256 + threadIdx.x; j < n; j += gridDim.x * 256)
      to[j] = (float)(((double)from[j] - own - right[j]) * factor);
  }
}
"""

_CHANGES = """
// Change of signed squared differences of two rows from x to x + t p: t first + t^2 second.
extern "C" __global__ void pair_changes(
    const T* x, const T* p, const T* signs, int k, const int* i, const int* j, int pairs, T* first,
    T* second) {
  for (long long at = blockIdx.x * 256LL + threadIdx.x; at < pairs; at += gridDim.x * 256LL) {
    const long long own = (long long)i[at] * k, other = (long long)j[at] * k;
    T one = 0, two = 0;
    for (int c = 0; c < k; ++c) {
      const T step = p[own + c] - p[other + c];
      one += signs[c] * (x[own + c] - x[other + c]) * step;
      two += signs[c] * step * step;
    }
    first[at] = 2 * one;
    second[at] = two;
  }
}
"""


def mirrored_extremes(matrix: Array) -> tuple[float, float, float] | None:
    """Lowest and highest entry of a square matrix, and the largest gap to a mirrored entry.

    None also where an entry is NaN.
    """
    launch = _kernel(_MIRRORED, "mirrored", matrix)
    if launch is None:
        return None
    xp = namespace(matrix)
    n = int(matrix.shape[0])
    low, high, gap = (empty_like(matrix, (_BLOCKS,)) for _ in range(3))
    missing = empty_like(matrix, (1,), xp.int32)
    missing[0] = 0
    launch((_BLOCKS, 1), matrix, n, low, high, gap, missing)
    ends = [
        xp.min(low),
        xp.max(high),
        xp.max(gap),
        xp.astype(missing[0], matrix.dtype),
    ]
    lowest, highest, apart, nan = map(float, to_numpy(xp.stack(ends)))
    if nan:
        return None
    return lowest, highest, apart


def row_moments(block: Array) -> tuple[Array, Array]:
    """Mean of every row and the sum of all squares, accumulated in float64."""
    xp = namespace(block)
    launch = _kernel(_SUMS, "row_sums", block)
    if launch is None:
        wide = xp.astype(block, xp.float64, copy=False)
        with np.errstate(over="ignore"):  # an infinite sum raises later
            return xp.mean(wide, axis=1), xp.sum(
                xp.vecdot(wide, wide, axis=-1)
            )
    rows, n = (int(size) for size in block.shape)
    sums = empty_like(block, (rows,), xp.float64)
    squares = empty_like(block, (rows,), xp.float64)
    launch((min(rows, _MOST_GRID_ROWS), 1), block, rows, n, sums, squares)
    return sums / n, xp.sum(squares)


def centered_single(
    block: Array, left: Array, right: Array, factor: float, out: Array
) -> bool:
    """Write ``(block − left[:, None] − right) · factor`` to a float32 array of the same shape.

    `left` and `right` are float64. False where it was not done.
    """
    launch = _kernel(_ROUNDED, "centered_single", block, left, right, out)
    if launch is None:
        return False
    rows, n = (int(size) for size in block.shape)
    grid = (min(64, math.ceil(n / _THREADS)), min(rows, _MOST_GRID_ROWS))
    launch(grid, block, rows, n, left, right, factor, out)
    return True


def between(metric: str, x: Array, y: Array) -> Array | None:
    """Compute a metric that is a sum over features between all rows of x and all of y."""
    if metric not in _METRICS:
        return None
    m, d = (int(size) for size in x.shape)
    n = int(y.shape[0])
    grid = (math.ceil(n / 64), math.ceil(m / 64))
    if x.dtype != y.dtype or grid[1] > _MOST_GRID_ROWS:
        return None
    step, end = _METRICS[metric]
    source = _BETWEEN.replace("STEP", step).replace("END", end)
    launch = _kernel(source, "between", x, y)
    if launch is None:
        return None
    out = empty_like(x, (m, n))
    launch(grid, x, y, m, n, d, out)
    return out


def pair_changes(
    x: Array, p: Array, signs: Array, i: Array, j: Array
) -> tuple[Array, Array] | None:
    """Return D₁ and D₂ of D̂(x + tp) = D̂(x) + tD₁ + t²D₂ for listed pairs; i and j are int32."""
    launch = _kernel(_CHANGES, "pair_changes", x, p)
    count = int(i.shape[0])
    k = int(x.shape[1])
    if launch is None or count >= 2**31:
        return None
    first, second = (empty_like(x, (count,)) for _ in range(2))
    blocks = max(1, min(math.ceil(count / _THREADS), 8 * _BLOCKS))
    launch((blocks, 1), x, p, signs, k, i, j, count, first, second)
    return first, second


def narrow_product(matrix: Array, columns: Array) -> Array | None:
    """Return ``matrix @ columns`` for a float32 matrix and at most 64 columns, in float64."""
    if not is_torch(matrix) or not _is_cuda(matrix) or not _is_whole(matrix):
        return None
    width = int(columns.shape[1])
    single = str(matrix.dtype) == str(columns.dtype) == "torch.float32"
    if not single or not 0 < width <= 64:
        return None
    multiply = _by_triton(matrix.device.index or 0)
    if multiply is None:
        return None
    return multiply(matrix, columns)


@cache
def _by_triton(device: int) -> Callable[[Array, Array], Array] | None:
    """Return the product by Triton; None, with one warning, if it does not work on this device."""
    import torch

    try:
        if torch.cuda.get_device_capability(device) < (8, 0):
            return None
        from neucmds.backend import triton_products

        multiply = triton_products.narrow_product
        probe = torch.eye(256, device=f"cuda:{device}")
        product = multiply(probe, probe[:, :32])
        works = bool(torch.equal(product.float(), probe[:, :32]))
    except (
        Exception
    ):  # not installed, or no compiler: its errors have no common base
        works = False
    if not works:
        message = "Triton does not work on this GPU: products with D take up to 1.6 times as long."
        warnings.warn(message, NeucmdsWarning, stacklevel=2)
        return None
    return multiply


def _kernel(
    source: str, name: str, *arrays: Array
) -> Callable[..., None] | None:
    """Return the function that launches a kernel with a grid and arguments; None if it cannot."""
    first = arrays[0]
    dtype = str(first.dtype).removeprefix("torch.")
    if not _is_cuda(first) or dtype not in ("float32", "float64"):
        return None
    if not all(map(_is_whole, arrays)):
        return None
    cupy = _cupy()
    if cupy is None:
        return None
    number = {"float32": "float", "float64": "double"}[dtype]
    kernel = _compiled(f"typedef {number} T;\n{source}", name)

    def launch(grid: tuple[int, int], *arguments: Any) -> None:
        with _stream(cupy, first):
            kernel(grid, (_THREADS,), tuple(map(_argument, arguments)))

    return launch


@cache
def _compiled(text: str, name: str) -> Any:
    return _cupy().RawKernel(text, name)


def _argument(value: Any) -> Any:
    """Return what CuPy passes as the kernel's int, double or pointer."""
    if isinstance(value, int):
        return np.int32(value)
    if isinstance(value, float):
        return np.float64(value)
    if is_torch(value):
        return value.data_ptr()
    return value


@cache
def _cupy() -> Any:
    """Return CuPy if it can compile; else None, with one warning."""
    try:
        import cupy

        cupy.RawKernel(
            'extern "C" __global__ void nothing() {}', "nothing"
        ).compile()
    except (
        Exception
    ):  # not installed, or no compiler: its errors have no common base
        message = (
            "CuPy is missing or cannot compile: a fit takes about 1.5 times as long, sums over "
            "features and listed pairs up to ten times; pip install cupy-cuda13x."
        )
        warnings.warn(message, NeucmdsWarning, stacklevel=2)
        return None
    return cupy


def _stream(cupy: Any, array: Array) -> Any:
    """Return the context in which CuPy uses the stream of the array's library.

    CuPy launches on its own current stream, which need not be that of Torch.
    """
    if is_cupy(array):
        return array.device
    import torch

    current = torch.cuda.current_stream(array.device)
    return cupy.cuda.ExternalStream(
        current.cuda_stream, array.device.index or 0
    )


def _is_cuda(array: Array) -> bool:
    if is_torch(array):
        return bool(array.device.type == "cuda")
    return is_cupy(array)


def _is_whole(array: Array) -> bool:
    """Tell whether an array is one contiguous block, row by row."""
    if is_torch(array):
        return bool(array.is_contiguous())
    return bool(array.flags.c_contiguous)
