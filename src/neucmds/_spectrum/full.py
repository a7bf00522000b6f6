"""All eigenpairs by LAPACK, with the constant vector deflated exactly."""

from __future__ import annotations

import math

import numpy as np

from neucmds._backend.arrays import Array, eps, is_numpy
from neucmds._backend.memory import require_memory
from neucmds._operator import Gram
from neucmds._spectrum.spectrum import Spectrum

# Matrices n × n in float64: B, the eigenvectors and the work space of LAPACK.
_MATRICES = 5


def full_spectrum(gram: Gram) -> Spectrum:
    """Compute all n − 1 eigenpairs of B that the constant vector has no part in.

    B = Q [Φ 0; 0 0] Qᵀ with Q the Householder reflection that sends the constant vector to the
    last axis, so the eigenpairs of Φ are those of B without the constant vector: it can never be
    selected, not even when B has other null vectors to mix with (errata E3).

    Paper: lm:vdv_qdq.
    """
    xp = gram.xp
    if is_numpy(gram.diagonal()):
        require_memory(
            _MATRICES * 8 * gram.n**2,
            f"the whole spectrum of {gram.n} objects",
            "ask for fewer coordinates, which are found from both ends of the spectrum",
        )
    # Q = I − βvvᵀ with v = (1, …, 1, 1 + √n) and β = 2/vᵀv.
    ones = xp.ones((gram.n,), dtype=xp.float64, device=gram.device)
    v = xp.concat([ones[:-1], ones[-1:] + math.sqrt(gram.n)])
    beta = 1.0 / (gram.n + math.sqrt(gram.n))
    values, small = xp.linalg.eigh(_reflected_block(gram, v, beta))
    values, small = xp.flip(values, axis=0), xp.flip(small, axis=1)
    zero_row = xp.zeros((1, gram.n - 1), dtype=small.dtype, device=gram.device)
    small = xp.concat([small, zero_row], axis=0)
    vectors = small - beta * v[:, None] * xp.matmul(v[None, :], small)
    # LAPACK's backward error bounds ‖Bu − λu‖.
    scale = float(xp.max(xp.abs(values))) if gram.n > 1 else 0.0
    bound = scale * gram.n * float(xp.finfo(values.dtype).eps)
    # The error in practice, which the STRESS of a complete spectrum has.
    value_error = 8 * scale * math.sqrt(gram.n) * eps(xp.float64, xp)
    return Spectrum(
        values=values,
        vectors=vectors,
        residuals=xp.full(values.shape, bound, dtype=values.dtype, device=gram.device),
        trace=gram.trace,
        frobenius_sq=gram.frobenius_sq,
        n_top=gram.n - 1,
        n_bottom=gram.n - 1,
        solver="full",
        precision=eps(gram.dtype, xp),
        value_errors=np.full(gram.n - 1, value_error),
    )


def _reflected_block(gram: Gram, v: Array, beta: float) -> Array:
    """Φ(B) = −½Φ(D): the leading (n−1)×(n−1) block of −½QDQ, float64."""
    xp, n = gram.xp, gram.n
    d = xp.concat(
        [xp.astype(gram.rows(rows), xp.float64, copy=False) for rows in gram.row_slices()], axis=0
    )
    dv = d @ v
    # QDQ = D − vwᵀ − wvᵀ with w = β(Dv − ½β(vᵀDv)v)
    w = beta * (dv - (0.5 * beta * float(xp.vecdot(v, dv))) * v)
    head = d[: n - 1, : n - 1] - (v[: n - 1, None] * w[None, : n - 1])
    head = head - (w[: n - 1, None] * v[None, : n - 1])
    return -0.5 * head
