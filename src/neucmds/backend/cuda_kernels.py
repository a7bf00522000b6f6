"""CUDA kernels for passes over large arrays that no array library does in one.

A public function returns None (or False) where it does not apply: then its caller uses the array
library. `row_moments` does so itself.
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
    in_double,
    is_cupy,
    is_torch,
    namespace,
    to_numpy,
)
from neucmds.errors import NeucmdsWarning

# Threads of a block, which the sources below count on.
_THREADS = 256
# Blocks that fill an H200 several times over: 16 for each of its 132 multiprocessors.
_BLOCKS = 2112
# CUDA's limit on the second dimension of a grid.
_MOST_GRID_ROWS = 65535

# The element type T is defined when a source is compiled. In every kernel a loop that begins at
# the number of a thread or block and goes on by their count shares its work among all of them.

_MIRRORED = """
// Compares every entry with its mirror image: the lowest, the highest, the largest gap, any NaN.
// A block reads 64 x 64 entries, 4 rows of them at a time.
extern "C" __global__ void mirrored(
    const T* matrix, int n, T* low, T* high, T* gap, int* missing) {
  __shared__ T tile[64][65];  // 65: no bank conflicts when read by columns
  T lowest = matrix[0], highest = matrix[0], largest_gap = 0;
  bool nan = false;
  const int tiles_per_side = (n + 63) / 64;
  const long long n_tiles = (long long)tiles_per_side * tiles_per_side;
  const int x = threadIdx.x % 64;
  for (long long number = blockIdx.x; number < n_tiles; number += gridDim.x) {
    const int top = (int)(number / tiles_per_side) * 64;
    const int left = (int)(number % tiles_per_side) * 64;
    // Tiles of the upper triangle alone: each is compared with its mirror image below.
    if (left < top) continue;
    for (int y = threadIdx.x / 64; y < 64; y += 4)
      if (top + y < n && left + x < n) tile[y][x] = matrix[(long long)(top + y) * n + left + x];
    __syncthreads();
    for (int y = threadIdx.x / 64; y < 64; y += 4)
      if (left + y < n && top + x < n) {
        const T below = matrix[(long long)(left + y) * n + top + x];
        const T above = tile[x][y];
        const T between = below < above ? above - below : below - above;
        nan = nan || below != below || above != above;
        largest_gap = between > largest_gap ? between : largest_gap;
        lowest = below < lowest ? below : lowest;
        lowest = above < lowest ? above : lowest;
        highest = below > highest ? below : highest;
        highest = above > highest ? above : highest;
      }
    __syncthreads();
  }
  // Each thread has its three figures. Three times 256 are halved to one each: maxima, so that the
  // lowest entry takes part with its sign changed. The memory of the tile is free by now.
  T* maxima = &tile[0][0];
  maxima[threadIdx.x] = -lowest;
  maxima[256 + threadIdx.x] = highest;
  maxima[512 + threadIdx.x] = largest_gap;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half)
      for (int own = threadIdx.x; own < 768; own += 256)
        if (maxima[own + half] > maxima[own]) maxima[own] = maxima[own + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    low[blockIdx.x] = -maxima[0];
    high[blockIdx.x] = maxima[256];
    gap[blockIdx.x] = maxima[512];
  }
  if (nan) *missing = 1;
}
"""

_BETWEEN = """
// Sums over the features of all pairs of rows of x and y, 64 x 64 pairs a block, 4 x 4 a thread.
// 16 features at a time are brought to shared memory.
extern "C" __global__ void between(
    const T* x, const T* y, int n_x, int n_y, int n_features, T* out) {
  __shared__ T xs[16][65], ys[16][65];  // 65: no bank conflicts when written by columns
  const long long top = blockIdx.y * 64LL, left = blockIdx.x * 64LL;
  const int column = threadIdx.x % 16, row = threadIdx.x / 16;
  T s[4][4] = {}, t[4][4] = {};  // the sums of each pair, which UPDATE and RESULT name
  for (int first = 0; first < n_features; first += 16) {
    const int width = n_features - first < 16 ? n_features - first : 16;
    for (int entry = threadIdx.x; entry < 1024; entry += 256) {
      const int f = entry % 16, object = entry / 16;
      const bool inside = f < width;
      const long long feature = first + f;
      xs[f][object] =
          inside && top + object < n_x ? x[(top + object) * n_features + feature] : T(0);
      ys[f][object] =
          inside && left + object < n_y ? y[(left + object) * n_features + feature] : T(0);
    }
    __syncthreads();
    for (int f = 0; f < width; ++f)
      for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) {
          const T a = xs[f][row + 16 * r], b = ys[f][column + 16 * c];
          UPDATE;
        }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) {
      const long long i = top + row + 16 * r, j = left + column + 16 * c;
      if (i < n_x && j < n_y) out[i * n_y + j] = RESULT;
    }
}
"""
# UPDATE: how a feature, a in x and b in y, changes the sums s and t of a pair. RESULT: the metric.
_METRICS = {
    "braycurtis": (
        "s[r][c] += fabs(a - b); t[r][c] += fabs(a + b)",
        "s[r][c] / t[r][c]",
    ),
    "chebyshev": ("s[r][c] = fmax(s[r][c], fabs(a - b))", "s[r][c]"),
    "cityblock": ("s[r][c] += fabs(a - b)", "s[r][c]"),
    "hamming": ("s[r][c] += a != b", "s[r][c] / n_features"),
}

_ROW_SUMS = """
// Sums of every row and of its squares, in double precision; a block adds up a row.
extern "C" __global__ void row_sums(
    const T* matrix, int n_rows, int n, double* sums, double* squares) {
  __shared__ double parts[512];  // a sum and a sum of squares per thread
  for (int i = blockIdx.x; i < n_rows; i += gridDim.x) {
    const T* row = matrix + (long long)i * n;
    double sum = 0, square = 0;
    for (int j = threadIdx.x; j < n; j += 256) {
      const double value = row[j];
      sum += value;
      square += value * value;
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

_CENTERED_SINGLE = """
// (entry - left of its row - right of its column) * factor in double precision, stored in single.
extern "C" __global__ void centered_single(
    const T* matrix, int n_rows, int n, const double* left, const double* right, double factor,
    float* out) {
  for (int i = blockIdx.y; i < n_rows; i += gridDim.y) {
    const T* row = matrix + (long long)i * n;
    float* rounded = out + (long long)i * n;
    const double of_row = left[i];
    for (int j = blockIdx.x * 256 + threadIdx.x; j < n; j += gridDim.x * 256)
      rounded[j] = (float)(((double)row[j] - of_row - right[j]) * factor);
  }
}
"""

_PAIR_CHANGES = """
// Change of signed squared differences of two rows from x to x + t p: t first + t^2 second.
extern "C" __global__ void pair_changes(
    const T* x, const T* p, const T* signs, int k, const int* i, const int* j, int n_pairs,
    T* first, T* second) {
  for (long long pair = blockIdx.x * 256LL + threadIdx.x; pair < n_pairs;
       pair += gridDim.x * 256LL) {
    const long long row_i = (long long)i[pair] * k, row_j = (long long)j[pair] * k;
    T product = 0, square = 0;
    for (int c = 0; c < k; ++c) {
      const T step = p[row_i + c] - p[row_j + c];
      product += signs[c] * (x[row_i + c] - x[row_j + c]) * step;
      square += signs[c] * step * step;
    }
    first[pair] = 2 * product;
    second[pair] = square;
  }
}
"""


def mirrored_extremes(matrix: Array) -> tuple[float, float, float] | None:
    """Lowest and highest entry of a square matrix, and the largest gap of two mirrored ones.

    None also if an entry is NaN.
    """
    launch = _kernel(_MIRRORED, "mirrored", matrix)
    if launch is None:
        return None
    xp = namespace(matrix)
    n = matrix.shape[0]
    low, high, gap = (empty_like(matrix, (_BLOCKS,)) for _ in range(3))
    missing = empty_like(matrix, (1,), xp.int32)
    missing[0] = 0
    launch((_BLOCKS, 1), matrix, n, low, high, gap, missing)
    # One transfer for all four.
    figures = [
        xp.min(low),
        xp.max(high),
        xp.max(gap),
        xp.astype(missing[0], matrix.dtype),
    ]
    lowest, highest, largest_gap, nan = map(float, to_numpy(xp.stack(figures)))
    if nan:
        return None
    return lowest, highest, largest_gap


def row_moments(block: Array) -> tuple[Array, Array]:
    """Mean of every row and the sum of all squares of the block, in float64."""
    xp = namespace(block)
    launch = _kernel(_ROW_SUMS, "row_sums", block)
    if launch is None:
        wide = in_double(block)
        # Infinite sums are refused by the caller.
        with np.errstate(over="ignore"):
            squares = xp.vecdot(wide, wide, axis=-1)
            return xp.mean(wide, axis=1), xp.sum(squares)
    rows, n = block.shape
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
    launch = _kernel(
        _CENTERED_SINGLE, "centered_single", block, left, right, out
    )
    if launch is None:
        return False
    rows, n = block.shape
    # At most 64 blocks share a row.
    grid = (min(64, math.ceil(n / _THREADS)), min(rows, _MOST_GRID_ROWS))
    launch(grid, block, rows, n, left, right, factor, out)
    return True


def between(metric: str, x: Array, y: Array) -> Array | None:
    """Compute a metric that is a sum over features between all rows of x and all of y."""
    if metric not in _METRICS:
        return None
    n_x, n_features = x.shape
    n_y = y.shape[0]
    # A block computes 64 × 64 pairs.
    grid = (math.ceil(n_y / 64), math.ceil(n_x / 64))
    if x.dtype != y.dtype or grid[1] > _MOST_GRID_ROWS:
        return None
    update, result = _METRICS[metric]
    source = _BETWEEN.replace("UPDATE", update).replace("RESULT", result)
    launch = _kernel(source, "between", x, y)
    if launch is None:
        return None
    out = empty_like(x, (n_x, n_y))
    launch(grid, x, y, n_x, n_y, n_features, out)
    return out


def pair_changes(
    x: Array, p: Array, signs: Array, i: Array, j: Array
) -> tuple[Array, Array] | None:
    """Return D₁ and D₂ of D̂(x + tp) = D̂(x) + tD₁ + t²D₂ for listed pairs; i and j are int32."""
    launch = _kernel(_PAIR_CHANGES, "pair_changes", x, p)
    count = i.shape[0]
    k = x.shape[1]
    # The kernel counts pairs by an int of 32 bits.
    if launch is None or count >= 2**31:
        return None
    first, second = (empty_like(x, (count,)) for _ in range(2))
    # A thread per pair, up to eight times the blocks that fill the GPU.
    blocks = max(1, min(math.ceil(count / _THREADS), 8 * _BLOCKS))
    launch((blocks, 1), x, p, signs, k, i, j, count, first, second)
    return first, second


def narrow_product(matrix: Array, columns: Array) -> Array | None:
    """Return ``matrix @ columns`` for a float32 matrix and at most 64 columns, in float64."""
    if not is_torch(matrix) or not _is_cuda(matrix) or not _is_whole(matrix):
        return None
    width = columns.shape[1]
    is_float32 = str(matrix.dtype) == str(columns.dtype) == "torch.float32"
    if not is_float32 or not 0 < width <= 64:
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
        # Tensor cores take TF32 from this version on.
        if torch.cuda.get_device_capability(device) < (8, 0):
            return None
        from neucmds.backend import triton_products

        multiply = triton_products.narrow_product
        probe = torch.eye(256, device=f"cuda:{device}")
        product = multiply(probe, probe[:, :32])
        works = bool(torch.equal(product.float(), probe[:, :32]))
    except Exception:  # not installed, or errors without a common base
        works = False
    if not works:
        message = "Triton does not work on this GPU: products with D take up to 1.6 times as long."
        warnings.warn(message, NeucmdsWarning, stacklevel=2)
        return None
    return multiply


def _kernel(
    source: str, name: str, *arrays: Array
) -> Callable[..., None] | None:
    """Return the function that launches a kernel with a grid and arguments.

    None unless all arrays are contiguous, and the first is of float32 or float64 on a CUDA device
    for which CuPy compiles. T in the source is the type of the first.
    """
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
    """Return the kernel of a source, which is compiled at its first launch."""
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
    except Exception:  # not installed, or errors without a common base
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
    """Tell whether an array of Torch or CuPy lies on a CUDA device."""
    if is_torch(array):
        return bool(array.device.type == "cuda")
    return is_cupy(array)


def _is_whole(array: Array) -> bool:
    """Tell whether an array is one contiguous block, row by row."""
    if is_torch(array):
        return bool(array.is_contiguous())
    return bool(array.flags.c_contiguous)
