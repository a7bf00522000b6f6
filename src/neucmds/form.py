"""Curvature: the function g of d that the bilinear form approximates.

    g(d) = 4 sin²(√κ d/2)/κ      κ > 0, a sphere: √κ d ≤ π
    g(d) = d²                    κ = 0, the paper's
    g(d) = 4 sinh²(√−κ d/2)/−κ   κ < 0, hyperbolic

g(d) ≈ d² for near pairs, and g increases with d, so neighbours by D̂ are neighbours by d̂.
"""

from __future__ import annotations

from math import pi, sqrt

from neucmds.backend.arrays import Array, namespace
from neucmds.errors import InputError, option

# √−κ times the largest d from which on near pairs drown in the rounding of far ones.
MOST_HYPERBOLIC = 24.0
# Least cosine of half an angle on a sphere: g is flat at the antipode, and errors of d infinite.
LEAST_COSINE = 0.05


def kappa_of(curvature: float, unit: float, largest: float = 0.0) -> float:
    """Turn κ in units of 1/(mean d)² into units of 1/d²; raise if the largest d does not allow it.

    `unit` is the mean d.
    """
    if not curvature:
        return 0.0
    kappa = curvature / unit**2
    reach = sqrt(abs(kappa)) * largest
    most = pi * (1 + 1e-6) if curvature > 0 else MOST_HYPERBOLIC
    if reach > most:
        bound = 0.99 * curvature * (most / reach) ** 2
        raise InputError(
            f"{option('curvature', curvature)} makes the largest dissimilarity {reach / most:.3g} "
            f"times too long; pass {'at most' if bound > 0 else 'at least'} {bound:.3g}, or 'auto'."
        )
    return kappa


def curved(sq_distance: Array, curvature: float) -> Array:
    """Return g(d) of d², a new array unless κ is zero.

    Below zero it is −g(√−d²); beyond a sphere all d are those of antipodes.
    """
    if not curvature:
        return sq_distance
    xp = namespace(sq_distance)
    half = xp.sqrt(xp.abs(sq_distance)) * (0.5 * sqrt(abs(curvature)))
    half = xp.sinh(half) if curvature < 0 else xp.sin(xp.clip(half, None, pi / 2))
    half *= half
    half *= 4 / abs(curvature)
    return xp.sign(sq_distance) * half


def flat(link: Array, curvature: float) -> Array:
    """Return d² of g(d) or of D̂: the inverse of `curved`, of negative D̂ as well."""
    if not curvature:
        return link
    xp = namespace(link)
    return xp.sign(link) * arc(xp.sqrt(xp.abs(link)), curvature) ** 2


def distances(link: Array, curvature: float) -> Array:
    """Return d = g⁻¹ of g(d) or of D̂, as a new array; below zero it is zero."""
    return arc(namespace(link).sqrt(namespace(link).clip(link, 0.0, None)), curvature)


def arc(root: Array, curvature: float) -> Array:
    """Return d where √g(d) is known: root itself where κ is zero; beyond a sphere the antipode."""
    if not curvature:
        return root
    xp, unit = namespace(root), 0.5 * sqrt(abs(curvature))
    half = root * unit
    half = xp.asinh(half) if curvature < 0 else xp.asin(xp.clip(half, None, 1.0))
    half /= unit
    return half


def half_slope(root: Array, curvature: float) -> Array:
    """Return g′(d)/2 where √g(d) is known, away from antipodes: root itself where κ is zero."""
    if not curvature:
        return root
    cosine_sq = root * root
    cosine_sq *= -0.25 * curvature
    cosine_sq += 1.0
    if curvature > 0:
        cosine_sq = namespace(root).clip(cosine_sq, LEAST_COSINE**2, None)
    return root * namespace(root).sqrt(cosine_sq)
