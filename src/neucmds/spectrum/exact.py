"""The true STRESS minimised in closed form over everything that kept eigenvectors can express.

On a support W the paper weights eigenvectors one by one and minimises a lower bound. Here
G = U_W M U_Wᵀ with any symmetric M, and the STRESS itself is minimised: still convex.

    E = B − G,  e = diag(E),  STRESS = 4‖E‖² + 2n‖e‖² + 2(Σe)²
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    asarray_like,
    namespace,
    to_numpy,
)
from neucmds.problem.components import Size
from neucmds.spectrum.geometry import stress_terms
from neucmds.spectrum.selection import (
    Selection,
    classical,
    lower,
    neuc,
    neuc_plus,
)
from neucmds.spectrum.spectrum import Spectrum

# Candidates of matching pursuit from each end; it holds a square matrix over all: 8 MB.
FAR_REACH = 500
# Up to this many objects, and n < 20k, the n×n system is solved directly; no n×n matrix exists
# beyond.
MAX_DENSE = 2000


def exact_selection(
    spectrum: Spectrum, diagonal: Array, components: Size
) -> Selection:
    """Choose the support and core M of least STRESS among all that are tried.

    The supports are those of the paper's methods and the one that matching pursuit finds; the
    paper's own weightings are candidates too, so the result is never worse than any of them. With a
    fixed signature, M is used only if it has that signature; otherwise the weights are the best of
    the requested signs.
    """
    methods = [neuc, neuc_plus]
    if isinstance(components, int) and spectrum.n_top >= components:
        methods += [classical, lower]
    published = [method(spectrum, components) for method in methods]
    totals = [
        sum(stress_terms(spectrum, diagonal, candidate))
        for candidate in published
    ]
    # The supports of neuc and neuc+, and of the best published weighting should it be another.
    supports = [published[i].kept for i in (0, 1, int(np.argmin(totals)))]
    if isinstance(components, int):
        k = components
        # Placing new objects divides by λ: a tenth of what neuc and neuc+ keep is small enough.
        smallest = [
            np.min(np.abs(spectrum.values[kept]), initial=np.inf)
            for kept in supports
        ]
        floor = 0.1 * float(min(smallest))
        # Neither reach is better on all data.
        supports += [
            _matching_pursuit(spectrum, diagonal, k, reach, floor)
            for reach in (2 * k, max(2 * k, FAR_REACH))
        ]
    ours = [
        _on_support(spectrum, diagonal, kept, components)
        for kept in _promising(spectrum, diagonal, supports)
    ]
    totals += [
        sum(stress_terms(spectrum, diagonal, candidate)) for candidate in ours
    ]
    return (published + ours)[int(np.argmin(totals))]


def _promising(
    spectrum: Spectrum, diagonal: Array, supports: list[Indices]
) -> list[Indices]:
    """Keep all supports of few objects; of many, the one on which single weights do best."""
    # Each once, and none that is empty.
    distinct = {tuple(kept): kept for kept in supports if kept.size}
    supports = list(distinct.values())
    if diagonal.shape[0] <= MAX_DENSE or not supports:
        return supports
    totals = []
    for kept in supports:
        weighted = exact_weights(spectrum, diagonal, kept)
        totals.append(sum(stress_terms(spectrum, diagonal, weighted)))
    return [supports[int(np.argmin(totals))]]


def _on_support(
    spectrum: Spectrum,
    diagonal: Array,
    kept: Indices,
    components: Size,
) -> Selection:
    core = _best_core(spectrum, diagonal, kept)
    mu = np.linalg.eigvalsh(core)
    signature = (int(np.sum(mu > 0)), int(np.sum(mu < 0)))
    if isinstance(components, int) or signature == components:
        return Selection(kept, core)
    signs = np.sign(spectrum.values[kept])
    return exact_weights(spectrum, diagonal, kept, signs)


def _best_core(spectrum: Spectrum, diagonal: Array, kept: Indices) -> Floats:
    """Solve for M.

    With P = U_W U_Wᵀ and T = (n/2)I + ½11ᵀ the optimum is M = Λ_W + U_Wᵀ Diag(y) U_W where
    (T⁻¹ + P∘P) y = e₀ and e₀ = diag(B) − (U_W ⊙ U_W) λ_W: symmetric and positive definite.
    """
    u = spectrum.take(kept)
    xp = namespace(u)
    n = u.shape[0]
    lam = spectrum.values[kept]
    e0 = diagonal - (u * u) @ asarray_like(lam, u)
    if n <= min(20 * kept.size, MAX_DENSE):
        projector = u @ u.T
        identity = xp.eye(n, dtype=u.dtype, device=u.device)
        dense = projector * projector + (2 / n) * identity - 1 / n**2
        y = xp.linalg.solve(dense, e0[:, None])[:, 0]
    else:
        y = _conjugate_gradients(u, e0)
    core = np.diag(lam) + to_numpy(u.T @ (y[:, None] * u))
    return np.asarray((core + core.T) / 2)


def _conjugate_gradients(u: Array, e0: Array) -> Array:
    """Solve (T⁻¹ + P∘P) y = e₀ to 1e-6, Jacobi-preconditioned: 1e-12 in the STRESS."""
    xp = namespace(u)
    n = u.shape[0]
    leverage = xp.sum(u * u, axis=1)
    preconditioner = 2 / n + leverage * leverage
    y = xp.zeros_like(e0)
    residual = e0
    z = residual / preconditioner
    direction = z
    rho = float(xp.vecdot(residual, z))
    target = 1e-12 * rho
    # Exact after n steps; ten are usual.
    for _ in range(n):
        if rho <= target:
            break
        # (P∘P)y = diag(P Diag(y) P), and T⁻¹y = (2/n)(y − Σy/2n).
        image = xp.sum((u @ (u.T @ (direction[:, None] * u))) * u, axis=1)
        image += (2 / n) * (direction - xp.sum(direction) / (2 * n))
        step = rho / float(xp.vecdot(direction, image))
        y = y + step * direction
        residual = residual - step * image
        z = residual / preconditioner
        previous = rho
        rho = float(xp.vecdot(residual, z))
        direction = z + (rho / previous) * direction
    return y


def exact_weights(
    spectrum: Spectrum,
    diagonal: Array,
    kept: Indices,
    signs: Floats | None = None,
) -> Selection:
    """Best weight for each kept eigenvector: one k×k solve (docs/maths.md).

    With fixed `signs`, weights that would change sign become zero.
    """
    hessian, linear = _quadratic(spectrum, diagonal, kept)
    if signs is None:
        return Selection(
            kept, np.linalg.solve(hessian, linear).astype(np.float64)
        )
    factor = np.linalg.cholesky(hessian)
    target = solve_triangular(factor, linear, lower=True)
    weights = signs * nnls(factor.T * signs[None, :], target)[0]
    return Selection(kept, weights)


def _quadratic(
    spectrum: Spectrum, diagonal: Array, kept: Indices
) -> tuple[Floats, Floats]:
    """H and c of STRESS(w) = const − 2cᵀw + wᵀHw for weights w on the kept eigenvectors."""
    u = spectrum.take(kept)
    n = u.shape[0]
    v = u * u
    hessian = 2 * n * to_numpy(v.T @ v) + 4 * np.eye(kept.size) + 2
    linear = (
        2 * n * to_numpy(v.T @ diagonal)
        + 4 * spectrum.values[kept]
        + 2 * spectrum.trace
    )
    return hessian, linear


def _matching_pursuit(
    spectrum: Spectrum, diagonal: Array, k: int, reach: int, floor: float
) -> Indices:
    """Add, k times, the eigenvector whose weight lowers the true STRESS most.

    The gain of a candidate is r²/d, with r its residual correlation and d its Schur diagonal, both
    kept up to date by one Cholesky row a step. Candidates are `reach` pairs from each end whose
    eigenvalue has at least the size `floor`.
    """
    m = spectrum.values.size
    lam = np.abs(spectrum.values)
    ids = np.arange(m)
    candidates = ids[((ids < reach) | (ids >= m - reach)) & (lam >= floor)]
    hessian, residual = _quadratic(spectrum, diagonal, candidates)
    schur = np.diag(hessian).copy()
    rows = np.zeros((min(k, candidates.size), candidates.size))
    chosen: list[int] = []
    for step in range(rows.shape[0]):
        free = schur > 1e-12 * np.diag(hessian)
        gain = np.divide(
            residual**2, schur, out=np.zeros_like(schur), where=free
        )
        gain[chosen] = -1
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            break
        # One row of the Cholesky factor of the hessian.
        pivot = np.sqrt(schur[best])
        row = (hessian[best] - rows[:step, best] @ rows[:step]) / pivot
        residual = residual - row * (residual[best] / pivot)
        schur = schur - row**2
        rows[step] = row
        chosen.append(best)
    return np.sort(candidates[chosen])
