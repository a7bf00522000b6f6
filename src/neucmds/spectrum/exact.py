"""The true STRESS minimised in closed form over all that a set of eigenvectors can express.

A support W is a set of kept eigenvectors. The paper gives each one a weight, and minimises a lower
bound of the STRESS. Here G = U_W M U_Wᵀ with any symmetric M, the core, and the STRESS itself is
minimised, which is convex in M:

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

# Least number of candidates that the wider matching pursuit takes from each end of the spectrum:
# the matrix H over 1,000 from both takes 8 MB.
WIDE_REACH = 500
# Up to this many objects M is solved for on every support, and an n × n matrix may be formed.
MAX_DENSE = 2000


def exact_selection(
    spectrum: Spectrum, diagonal: Array, components: Size
) -> Selection:
    """Return the selection of least STRESS among all that are tried; `diagonal` is that of B.

    Supports are those of the paper's methods and those that matching pursuit finds. The paper's own
    selections are tried, too, so that the result is never worse. Where `components` is a signature
    and M has another one, the best weights with the signs of the eigenvalues are tried instead.
    """
    methods = [neuc, neuc_plus]
    if isinstance(components, int) and spectrum.n_top >= components:
        methods += [classical, lower]
    by_paper = [method(spectrum, components) for method in methods]
    by_neuc, by_neuc_plus = by_paper[:2]

    def stress_of(selection: Selection) -> float:
        return sum(stress_terms(spectrum, diagonal, selection))

    best_by_paper = min(by_paper, key=stress_of)
    supports = [by_neuc.kept, by_neuc_plus.kept, best_by_paper.kept]
    if isinstance(components, int):
        k = components
        # To place new objects divides by λ. So matching pursuit keeps no |λ| below a tenth of the
        # smallest on these supports.
        smallest = [
            np.min(np.abs(spectrum.values[kept]), initial=np.inf)
            for kept in supports
        ]
        floor = 0.1 * float(min(smallest))
        # On some data the near reach finds the better support, on others the wide one.
        supports += [
            _matching_pursuit(spectrum, diagonal, k, reach, floor)
            for reach in (2 * k, max(2 * k, WIDE_REACH))
        ]
    minimised = [
        _best_on_support(spectrum, diagonal, kept, components)
        for kept in _supports_to_solve(spectrum, diagonal, supports)
    ]
    return min([best_by_paper, *minimised], key=stress_of)


def _supports_to_solve(
    spectrum: Spectrum, diagonal: Array, supports: list[Indices]
) -> list[Indices]:
    """Return all supports that are not empty, each once; with many objects only the best.

    The best has the least STRESS with one weight for each eigenvector: to solve for weights is
    faster than for M.
    """
    distinct = {tuple(kept): kept for kept in supports if kept.size}
    supports = list(distinct.values())
    if diagonal.shape[0] <= MAX_DENSE or not supports:
        return supports
    stresses = []
    for kept in supports:
        weighted = exact_weights(spectrum, diagonal, kept)
        stresses.append(sum(stress_terms(spectrum, diagonal, weighted)))
    return [supports[int(np.argmin(stresses))]]


def _best_on_support(
    spectrum: Spectrum,
    diagonal: Array,
    kept: Indices,
    components: Size,
) -> Selection:
    """Return the best core M, or the best weights if M has not the signature in `components`."""
    core = _best_core(spectrum, diagonal, kept)
    eigenvalues = np.linalg.eigvalsh(core)
    n_positive = int(np.sum(eigenvalues > 0))
    n_negative = int(np.sum(eigenvalues < 0))
    if isinstance(components, int) or (n_positive, n_negative) == components:
        return Selection(kept, core)
    signs = np.sign(spectrum.values[kept])
    return exact_weights(spectrum, diagonal, kept, signs)


def _best_core(spectrum: Spectrum, diagonal: Array, kept: Indices) -> Floats:
    """Return the core M of least STRESS on a support.

    With P = U_W U_Wᵀ and T = (n/2)I + ½·11ᵀ the optimum is M = Λ_W + U_Wᵀ Diag(y) U_W where
    (T⁻¹ + P∘P) y = e₀ and e₀ = diag(B) − (U_W∘U_W) λ_W; ∘ multiplies entry by entry. The matrix
    T⁻¹ + P∘P is symmetric and positive definite, and T⁻¹ = (2/n)I − 11ᵀ/n².
    """
    u = spectrum.take(kept)
    xp = namespace(u)
    n = u.shape[0]
    lam = spectrum.values[kept]
    e0 = diagonal - (u * u) @ asarray_like(lam, u)
    # Of k eigenvectors, a step of conjugate gradients costs n·k², and a direct solution n³.
    if n <= min(20 * kept.size, MAX_DENSE):
        projector = u @ u.T
        identity = xp.eye(n, dtype=u.dtype, device=u.device)
        system = projector * projector + (2 / n) * identity - 1 / n**2
        y = xp.linalg.solve(system, e0[:, None])[:, 0]
    else:
        y = _conjugate_gradients(u, e0)
    core = np.diag(lam) + to_numpy(u.T @ (y[:, None] * u))
    return np.asarray((core + core.T) / 2)


def _conjugate_gradients(u: Array, e0: Array) -> Array:
    """Solve (T⁻¹ + P∘P) y = e₀ of `_best_core`, with the diagonal of the matrix as preconditioner.

    The relative residual is 1e-6, which moves the STRESS, quadratic at its minimum, by 1e-12.
    """
    xp = namespace(u)
    n = u.shape[0]
    leverage = xp.sum(u * u, axis=1)
    # diag(P∘P) = leverage², and diag(T⁻¹) = 2/n − 1/n² is about 2/n.
    preconditioner = 2 / n + leverage * leverage
    y = xp.zeros_like(e0)
    residual = e0
    z = residual / preconditioner
    direction = z
    # The squared residual, in the norm of the preconditioner.
    rho = float(xp.vecdot(residual, z))
    target = 1e-12 * rho
    # Ten steps are usual; n would be exact.
    for _ in range(n):
        if rho <= target:
            break
        # With v the direction, (P∘P)v = diag(P Diag(v) P), and T⁻¹v = (2/n)(v − (Σv)/(2n)).
        weighted = u.T @ (direction[:, None] * u)
        image = xp.sum((u @ weighted) * u, axis=1)
        image += (2 / n) * (direction - xp.sum(direction) / (2 * n))
        step = rho / float(xp.vecdot(direction, image))
        y = y + step * direction
        residual = residual - step * image
        z = residual / preconditioner
        previous_rho = rho
        rho = float(xp.vecdot(residual, z))
        direction = z + (rho / previous_rho) * direction
    return y


def exact_weights(
    spectrum: Spectrum,
    diagonal: Array,
    kept: Indices,
    signs: Floats | None = None,
) -> Selection:
    """Return the best weight for each kept eigenvector: one k×k system (docs/maths.md).

    With `signs`, each weight has this sign or is zero.
    """
    hessian, linear = _quadratic(spectrum, diagonal, kept)
    if signs is None:
        return Selection(
            kept, np.linalg.solve(hessian, linear).astype(np.float64)
        )
    # With H = LLᵀ and w = s∘z, z ≥ 0: wᵀHw − 2cᵀw is ‖Lᵀ Diag(s) z − L⁻¹c‖² up to a constant.
    factor = np.linalg.cholesky(hessian)
    target = solve_triangular(factor, linear, lower=True)
    magnitudes, _ = nnls(factor.T * signs[None, :], target)
    return Selection(kept, signs * magnitudes)


def _quadratic(
    spectrum: Spectrum, diagonal: Array, kept: Indices
) -> tuple[Floats, Floats]:
    """Return H and c of STRESS(w) = const − 2cᵀw + wᵀHw for weights w of the kept eigenvectors.

    With V = U_W∘U_W, whose columns add up to 1, they are

        H = 2n VᵀV + 4I + 2·11ᵀ,  c = 2n Vᵀdiag(B) + 4λ_W + 2 tr(B)·1.
    """
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
    """Choose k eigenvectors, each as the one that lowers the true STRESS most beside the others.

    A candidate lowers it by r²/d, with r its linear term and d its Schur complement in H after the
    chosen ones; one row of the Cholesky factor of H updates both. Candidates are, among the `reach`
    eigenvectors from each end of the spectrum, those with |λ| ≥ `floor`.
    """
    m = spectrum.values.size
    numbers = np.arange(m)
    is_near_end = (numbers < reach) | (numbers >= m - reach)
    is_large = np.abs(spectrum.values) >= floor
    candidates = numbers[is_near_end & is_large]
    hessian, residual = _quadratic(spectrum, diagonal, candidates)
    schur_diagonal = np.diag(hessian).copy()
    rows = np.zeros((min(k, candidates.size), candidates.size))
    support: list[int] = []
    for step in range(rows.shape[0]):
        # Where the chosen columns of H span that of a candidate, its complement is only rounding.
        is_independent = schur_diagonal > 1e-12 * np.diag(hessian)
        gain = np.divide(
            residual**2,
            schur_diagonal,
            out=np.zeros_like(schur_diagonal),
            where=is_independent,
        )
        gain[support] = -1
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            break
        # One row of the Cholesky factor of the hessian.
        pivot = np.sqrt(schur_diagonal[best])
        row = (hessian[best] - rows[:step, best] @ rows[:step]) / pivot
        residual = residual - row * (residual[best] / pivot)
        schur_diagonal = schur_diagonal - row**2
        rows[step] = row
        support.append(best)
    return np.sort(candidates[support])
