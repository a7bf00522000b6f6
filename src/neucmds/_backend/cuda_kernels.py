"""Walks over a large matrix on a GPU that no library has in one kernel, compiled when first used.

Each function returns None (or False) where there is no such compiler, or the matrix is not one
contiguous block: whoever calls it then takes the steps that the library has. What they are worth,
one H200, n = 50,000 in float64: benchmarks/records/gpu_dense.json.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import array_api_compat as compat

from neucmds._backend.arrays import Array, namespace, on_cpu, to_numpy

# What fills an H200 several times over.
_BLOCKS = 132 * 16
_THREADS = 256
# Objects from which on a product is worth more than its launch.
_LARGE = 4096
# Rows of a Gram matrix that is factored in the shared memory of one block.
_MOST_ROWS = 48

_MIRRORED = """
// Compares every entry with its mirror image: the lowest, the highest, the largest gap, any NaN.
extern "C" __global__ void mirrored(const T* d, int n, T* low, T* high, T* gap, int* missing) {
  __shared__ T tile[64][65];
  T lo = d[0], hi = d[0], apart = 0;
  bool nan = false;
  const int side = (n + 63) / 64, x = threadIdx.x % 64;
  for (long long at = blockIdx.x; at < (long long)side * side; at += gridDim.x) {
    const int top = (int)(at / side) * 64, left = (int)(at % side) * 64;
    if (left < top) continue;
    for (int y = threadIdx.x / 64; y < 64; y += 4)
      if (top + y < n && left + x < n) tile[y][x] = d[(long long)(top + y) * n + left + x];
    __syncthreads();
    for (int y = threadIdx.x / 64; y < 64; y += 4)
      if (left + y < n && top + x < n) {
        const T v = d[(long long)(left + y) * n + top + x], w = tile[x][y];
        const T between = v < w ? w - v : v - w;
        nan = nan || v != v || w != w;
        apart = between > apart ? between : apart;
        lo = v < lo ? v : lo;
        lo = w < lo ? w : lo;
        hi = v > hi ? v : hi;
        hi = w > hi ? w : hi;
      }
    __syncthreads();
  }
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

_BETWEEN = """
// Sums over the features of all pairs of rows, 64 x 64 pairs a block and 4 x 4 a thread.
extern "C" __global__ void between(const T* x, const T* y, int m, int n, int d, T* out) {
  __shared__ T xs[16][65], ys[16][65];
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
          STEP;
        }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) {
      const long long i = top + ty + 16 * r, j = left + tx + 16 * c;
      if (i < m && j < n) out[i * n + j] = END;
    }
}
"""
# What a feature adds to the sums s and t of a pair, and what a metric makes of them.
_METRICS = {
    "braycurtis": ("s[r][c] += fabs(a - b); t[r][c] += fabs(a + b)", "s[r][c] / t[r][c]"),
    "chebyshev": ("s[r][c] = fmax(s[r][c], fabs(a - b))", "s[r][c]"),
    "cityblock": ("s[r][c] += fabs(a - b)", "s[r][c]"),
    "hamming": ("s[r][c] += a != b", "s[r][c] / d"),
}

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

_FORMS = """
// Signed sums of squared differences between two rows of x, a pair a thread.
extern "C" __global__ void pair_forms(
    const T* x, const T* signs, int k, const int* i, const int* j, int pairs, T* out) {
  for (long long at = blockIdx.x * 256LL + threadIdx.x; at < pairs; at += gridDim.x * 256LL) {
    const T *a = x + (long long)i[at] * k, *b = x + (long long)j[at] * k;
    T total = 0;
    for (int c = 0; c < k; ++c) total += signs[c] * (a[c] - b[c]) * (a[c] - b[c]);
    out[at] = total;
  }
}
"""

_CHANGES = """
// How these sums change from x to x + t p: t first + t^2 second.
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

_CHOLESKY = """
// Scales a Gram matrix to unit diagonal, factors it (Cholesky) and inverts the factor: one block.
extern "C" __global__ void scaled_cholesky(const T* inner, int b, T* mix, T* factor, T* health) {
  __shared__ T a[48][49], inverse[48][49], length[48], size[48];
  const int tid = threadIdx.x;
  if (tid < b) length[tid] = sqrt(inner[tid * b + tid]);
  __syncthreads();
  for (int at = tid; at < b * b; at += 256) {
    const int i = at / b, j = at % b;
    a[i][j] = inner[at] / (length[i] * length[j]);
    inverse[i][j] = 0;
  }
  for (int k = 0; k < b; ++k) {
    __syncthreads();
    const T pivot = sqrt(a[k][k]);
    __syncthreads();
    if (tid >= k && tid < b) a[tid][k] /= pivot;
    __syncthreads();
    for (int at = tid; at < b * b; at += 256) {
      const int i = at / b, j = at % b;
      if (j > k && j <= i) a[i][j] -= a[i][k] * a[j][k];
    }
  }
  __syncthreads();
  if (tid < b) {
    T total = 0;
    for (int i = tid; i < b; ++i) {
      T left = i == tid;
      for (int m = tid; m < i; ++m) left -= a[i][m] * inverse[m][tid];
      left /= a[i][i];
      inverse[i][tid] = left;
      total += left * left;
    }
    size[tid] = total;
  }
  __syncthreads();
  for (int at = tid; at < b * b; at += 256) {
    const int i = at / b, j = at % b;
    mix[at] = inverse[i][j] / length[j];
    factor[at] = j <= i ? length[i] * a[i][j] : T(0);
  }
  if (tid == 0) {
    T total = 0, shortest = length[0];
    for (int i = 0; i < b; ++i) {
      total += size[i];
      shortest = length[i] < shortest ? length[i] : shortest;
    }
    health[0] = total;
    health[1] = shortest;
  }
}
"""


def mirrored_extremes(matrix: Array) -> tuple[float, float, float] | None:
    """Lowest and highest entry of a square matrix, and the largest gap to a mirrored entry.

    Returns
    -------
    (float, float, float) or None
        None also where an entry is NaN.
    """
    launch = _launcher(_MIRRORED, "mirrored", matrix)
    if launch is None:
        return None
    xp, n = namespace(matrix), int(matrix.shape[0])
    low, high, gap = (_empty(matrix, _BLOCKS, matrix.dtype) for _ in range(3))
    missing = xp.zeros((1,), dtype=xp.int32, device=compat.device(matrix))
    launch((_BLOCKS, 1, 1), [matrix, n, low, high, gap, missing])
    ends = [xp.min(low), xp.max(high), xp.max(gap), xp.astype(missing[0], matrix.dtype)]
    lowest, highest, apart, nan = map(float, to_numpy(xp.stack(ends)))
    return None if nan else (lowest, highest, apart)


def row_sums(block: Array) -> tuple[Array, Array] | None:
    """Add up every row and its squares, in float64."""
    launch = _launcher(_SUMS, "row_sums", block)
    if launch is None:
        return None
    rows, n = (int(size) for size in block.shape)
    sums, squares = (_empty(block, rows, namespace(block).float64) for _ in range(2))
    launch((min(rows, 65535), 1, 1), [block, rows, n, sums, squares])
    return sums, squares


def centered_single(block: Array, left: Array, right: Array, factor: float, out: Array) -> bool:
    """Write ``(block − left[:, None] − right) · factor`` to a float32 array of the same shape.

    Returns
    -------
    bool
        Whether it was done.
    """
    launch = _launcher(_ROUNDED, "centered_single", block)
    if launch is None or not _is_whole(out):
        return False
    rows, n = (int(size) for size in block.shape)
    xp = namespace(block)
    scalar = xp.full((1,), factor, dtype=xp.float64, device=compat.device(block))
    grid = (min(64, -(-n // _THREADS)), min(rows, 65535), 1)
    launch(grid, [block, rows, n, _packed(left), _packed(right), scalar, out])
    return True


def between(metric: str, x: Array, y: Array) -> Array | None:
    """Compute a metric that is a sum over features between all rows of x and all of y.

    A million rows to 1000 others, 50 features in float64, take 1.5 s by torch's cdist on an H200.
    """
    step, end = _METRICS[metric]
    launch = _launcher(_BETWEEN.replace("STEP", step).replace("END", end), "between", x)
    if launch is None or not _is_whole(y) or x.dtype != y.dtype:
        return None
    (m, d), n = (int(size) for size in x.shape), int(y.shape[0])
    if m > 64 * 65535:
        return None
    out = namespace(x).empty((m, n), dtype=x.dtype, device=compat.device(x))
    launch((-(-n // 64), -(-m // 64), 1), [x, y, m, n, d, out])
    return out


def pair_forms(x: Array, signs: Array, i: Array, j: Array) -> Array | None:
    """Σ_a s_a (x_ia − x_ja)² of listed pairs; i and j are int32.

    16 million pairs, k = 20 in float32, on an H200: 0.7 ms, by gathered rows 25.
    """
    launch = _launcher(_FORMS, "pair_forms", x)
    count, k = int(i.shape[0]), int(x.shape[1])
    if launch is None or count >= 2**31:
        return None
    out = _empty(x, count, x.dtype)
    launch((_grid(count), 1, 1), [x, signs, k, i, j, count, out])
    return out


def pair_changes(
    x: Array, p: Array, signs: Array, i: Array, j: Array
) -> tuple[Array, Array] | None:
    """Return D₁ and D₂ of D̂(x + tp) = D̂(x) + tD₁ + t²D₂ for listed pairs, D̂ as of `pair_forms`."""
    launch = _launcher(_CHANGES, "pair_changes", x)
    count, k = int(i.shape[0]), int(x.shape[1])
    if launch is None or count >= 2**31 or not _is_whole(p):
        return None
    first, second = (_empty(x, count, x.dtype) for _ in range(2))
    launch((_grid(count), 1, 1), [x, p, signs, k, i, j, count, first, second])
    return first, second


def _grid(count: int) -> int:
    return max(1, min(-(-count // _THREADS), 8 * _BLOCKS))


def scaled_cholesky(inner: Array) -> tuple[Array, Array, Array] | None:
    """Factor the Gram matrix G of a few vectors, without waiting for it.

    Returns
    -------
    mix : array of shape (b, b)
        L⁻¹ of G = L Lᵀ: it makes the vectors orthonormal.
    factor : array of shape (b, b)
        L.
    health : array of shape (2,)
        ‖·‖² of the inverse of L with rows scaled to unit length, and the length of the shortest
        vector. NaN or infinite where G is not positive definite.
    """
    b = int(inner.shape[0])
    launch = _launcher(_CHOLESKY, "scaled_cholesky", inner) if 0 < b <= _MOST_ROWS else None
    if launch is None:
        return None
    xp, where = namespace(inner), compat.device(inner)
    mix, factor = (xp.empty((b, b), dtype=inner.dtype, device=where) for _ in range(2))
    health = _empty(inner, 2, inner.dtype)
    launch((1, 1, 1), [inner, b, mix, factor, health])
    return mix, factor, health


def narrow_product(matrix: Array, columns: Array) -> Array | None:
    """Return ``matrix @ columns`` for a large float32 matrix and a few columns, in float64."""
    if not compat.is_torch_array(matrix) or matrix.device.type != "cuda" or not _is_whole(matrix):
        return None
    n, width = (int(size) for size in columns.shape)
    single = str(matrix.dtype) == str(columns.dtype) == "torch.float32"
    if not single or n < _LARGE or not 0 < width <= 64:
        return None
    multiply = _by_triton(matrix.device.index or 0)
    return None if multiply is None else multiply(matrix, columns)


@cache
def _by_triton(device: int) -> Callable[[Array, Array], Array] | None:
    """Return the product by Triton, if that is there and works on this device."""
    import torch

    try:
        if torch.cuda.get_device_capability(device) < (8, 0):
            return None
        from neucmds._backend import triton_products

        probe = torch.eye(256, device=f"cuda:{device}")
        made = triton_products.narrow_product(probe, probe[:, :32])
        works = bool(torch.equal(made.float(), probe[:, :32]))
    except Exception:  # not installed, or no compiler: its errors have no common base
        return None
    return triton_products.narrow_product if works else None


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
            function = torch.cuda._compile_kernel(text, name).func
        start = torch.cuda._utils._get_gpu_runtime_library().cuLaunchKernel
    except Exception:  # no run-time compiler, or a torch without this (private) interface
        return None

    # By hand: torch opens the driver's library anew in every call, which takes 0.1 ms.
    def launch(grid: tuple[int, int, int], arguments: list[Any]) -> None:
        values = [_as_argument(one) for one in arguments]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        with torch.cuda.device(device):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            code = start(function, *grid, _THREADS, 1, 1, 0, stream, pointers, None)
        if code:
            raise RuntimeError(f"CUDA error {code} at the start of {name}")

    return launch


def _as_argument(value: Any) -> Any:
    return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_void_p(value.data_ptr())


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
