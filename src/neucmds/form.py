"""The form: the function from coordinates to dissimilarities.

    D̂_ij = Σ_a s_a (x_ia − x_ja)² + h_i + h_j   signs s_a = ±1; D̂ may be negative
    d̂ = g⁻¹(D̂)                                  the fitted distance

Heights h, if there are any, are a last coordinate of sign 0; D̂_ii is 0 by definition.

    g(d) = 4 sin²(√κ d/2)/κ      κ > 0, a sphere: √κ d ≤ π
    g(d) = d²                    κ = 0, the paper's
    g(d) = 4 sinh²(√−κ d/2)/−κ   κ < 0, hyperbolic

g(d) ≈ d² for near pairs, and g increases with d, so neighbours by D̂ are neighbours by d̂.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    Array,
    asarray_like,
    eps,
    in_place,
    namespace,
    to_numpy,
)
from neucmds.errors import InputError, option

__all__ = ["Form"]

# √−κ times the largest d from which on near pairs drown in the rounding of far ones.
MOST_HYPERBOLIC = 24.0
# Where slopes of d have no bound: below this share of d the root of D̂ is continued by its tangent,
# and this is the least cosine of half an angle on a sphere, where g is flat at the antipode.
CORNER = 0.05


@dataclass(frozen=True, eq=False)
class Form:
    """Signs of the coordinates, and the curvature of the space that they are in.

    Points are arrays with one row per object; results are of their library, device and precision.
    D̂ is on the scale of g(d), which is d² without curvature.

    Parameters
    ----------
    signs : array of shape (k,), optional
        ±1.0 each, and 0 of a height; none, or that of a height alone, where coordinates are not
        known yet.
    curvature : float, default=0
        κ in units of 1/d².
    """

    signs: Array = field(default_factory=partial(np.zeros, 0))
    curvature: float = 0.0

    @classmethod
    def of(
        cls, curvature: float, mean_distance: float, largest: float = 0.0
    ) -> Form:
        """Return the form of κ in units of 1/(mean d)²; raise if the largest d forbids it."""
        if not curvature:
            return cls()
        bounded = "at least"
        most = MOST_HYPERBOLIC
        if curvature > 0:
            bounded = "at most"
            most = pi * (1 + 1e-6)
        excess = sqrt(abs(curvature)) / mean_distance * largest / most
        if excess > 1:
            raise InputError(
                f"{option('curvature', curvature)} makes the largest dissimilarity {excess:.3g} "
                f"times too long; pass {bounded} {0.99 * curvature / excess**2:.3g}, or 'auto'."
            )
        return cls(curvature=curvature / mean_distance**2)

    def options(self, mean_distance: float) -> dict[str, Any]:
        """Return the parameters of a fit with this form; `of` takes the same."""
        return {
            "curvature": self.relative_curvature(mean_distance),
            "heights": self.has_heights,
        }

    def words(self, mean_distance: float) -> str:
        """Say how the space is curved and that there are heights; empty if neither is so."""
        kind = "flat"
        traits = []
        if not self.is_flat:
            kind = "spherical" if self.curvature > 0 else "hyperbolic"
            curvature = self.relative_curvature(mean_distance)
            traits.append(f"curvature {curvature:.3g} / (mean d)²")
        if self.has_heights:
            traits.append("a height per object")
        if not traits:
            return ""
        return f"{kind}, with {' and '.join(traits)}"

    def relative_curvature(self, mean_distance: float) -> float:
        """Return κ in units of 1/(mean d)², zero if the mean is not known."""
        if self.is_flat:
            return 0.0
        return self.curvature * mean_distance**2

    @property
    def numbers(self) -> dict[str, float]:
        """The fields of the form but the signs, by name."""
        return {"curvature": self.curvature}

    @property
    def signature(self) -> tuple[int, int]:
        """Numbers of positive and of negative coordinates (p, q)."""
        signs = to_numpy(self.signs)
        return int((signs > 0).sum()), int((signs < 0).sum())

    @property
    def has_heights(self) -> bool:
        """Whether the last coordinate is a height."""
        return bool((to_numpy(self.signs) == 0).any())

    @property
    def is_bilinear(self) -> bool:
        """Whether d̂² is Σ s_a (x_ia − x_ja)², of which STRESS has a decomposition."""
        return self.is_flat and not self.has_heights

    def extended(self, x: Array, form: Form) -> tuple[Array, Form]:
        """Return points x of another form with heights of zero, if only this form has heights."""
        if form.has_heights or not self.has_heights:
            return x, form
        xp = namespace(x)
        heights = xp.sum(x * 0.0, axis=1)[:, None]
        signs = np.append(form.signs, 0.0)
        return xp.concat([x, heights], axis=1), replace(form, signs=signs)

    def unknown(self, sq: Array) -> Array:
        """Tell which D do not say where an object is: NaN and, where there are heights, 0.

        The 0 of an object that is passed again, to itself, is no sum of two heights.
        """
        xp = namespace(sq)
        missing = xp.isnan(sq)
        if not self.has_heights:
            return missing
        known = xp.where(missing, 0.0, sq)
        rounding = EPS * xp.max(known, axis=1, keepdims=True)
        return missing | (known <= rounding)

    def refuse_copies(self, advice: str) -> None:
        """Raise if two objects in one place are not at distance 0 of each other."""
        if self.has_heights:
            raise InputError(
                "an object that is drawn twice is at distance 0 from itself, which heights do "
                f"not allow; {advice}."
            )

    def height_of(self, x: Array) -> Array:
        """Return the height of every point, zero if there are none."""
        return x @ (1 - abs(asarray_like(self.signs, x)))

    def norms(self, x: Array) -> Array:
        """Return what a point adds to all its D̂: its squared length, and its height."""
        return (x * x) @ asarray_like(self.signs, x) + self.height_of(x)

    def centered(self, x: Array) -> Array:
        """Return the points with their mean moved to zero; heights stay."""
        return x - namespace(x).mean(x, axis=0) * abs(
            asarray_like(self.signs, x)
        )

    def root_units(self, scale: float) -> Array:
        """Return the unit of each coordinate if that of D is `scale`: its root, but of a height."""
        signs = to_numpy(self.signs)
        return np.where(signs == 0, scale, sqrt(scale))

    def tangents(self, x: Array) -> tuple[Array, Array]:
        """Return y and z of which ½ dD̂_ij/dx_i is y_i − z_j, each coordinate times its `turn`."""
        lengths = abs(asarray_like(self.signs, x))
        own = x * lengths
        return own, own - 0.5 * (1 - lengths)

    def gradient(self, x: Array, pulled: Array, total: Array) -> Array:
        """Return Σ_j c_j dD̂_ij/dx_i of every i, where Σ_j c_j x_j and Σ_j c_j (n, 1) are known."""
        signs = asarray_like(self.signs, x)
        own = 2.0 * (total * x - pulled) * signs
        return own + total * (1 - abs(signs))

    def norm_change(self, x: Array, p: Array) -> Array:
        """Return how fast `norms` change where points at x move along p."""
        return 2.0 * (x * p) @ asarray_like(self.signs, x) + self.height_of(p)

    @property
    def turn(self) -> Array:
        """The signs, and 1 of a height."""
        return self.signs + (1 - abs(self.signs))

    @property
    def is_flat(self) -> bool:
        """Whether D̂ is d̂² itself."""
        return self.curvature == 0

    def in_numpy(self) -> Form:
        """Return the same form with signs as NumPy holds them, in float64."""
        return replace(self, signs=to_numpy(self.signs).astype(np.float64))

    def scaled(self, scale: float) -> Form:
        """Return the form of D divided by a number, which is g of d divided by its root.

        So every g keeps the units of d²: g(d)/scale is a g, of other parameters, of d/√scale.
        """
        return replace(self, curvature=self.curvature * scale)

    def sq(self, x: Array, y: Array) -> Array:
        """D̂ of every row of x with every row of y, by one matrix product.

        Paper: eq:embeddingX, with the form applied to differences (errata E5).
        """
        signed = x * asarray_like(self.signs, x)
        return (
            self.norms(x)[:, None]
            + self.norms(y)[None, :]
            - 2 * (signed @ y.T)
        )

    def paired_sq(self, x: Array, y: Array) -> Array:
        """D̂ between rows of two arrays that broadcast, from differences: exact for near pairs."""
        difference = x - y
        signs = asarray_like(self.signs, x)
        return (difference * difference) @ signs + (x + y) @ (1 - abs(signs))

    def paired_parts(self, x: Array, y: Array) -> Array:
        """Return what each coordinate adds to D̂ between rows of two arrays that broadcast."""
        difference = x - y
        signs = asarray_like(self.signs, x)
        return difference * difference * signs + (x + y) * (1 - abs(signs))

    def d(self, x: Array, y: Array) -> Array:
        """d̂ of every row of x with every row of y."""
        return self.to_distance(self.sq(x, y))

    def residuals(self, x: Array, y: Array, sq_distance: Array) -> Array:
        """d̂² − d² of every row of x with every row of y, where d² is known."""
        return self.to_sq_distance(self.sq(x, y)) - sq_distance

    def to_sq(self, sq_distance: Array) -> Array:
        """Return g(d) of d², a new array unless κ is zero.

        Of d² < 0 it is −g(√−d²); on a sphere larger d count as that of antipodes.
        """
        if self.is_flat:
            return sq_distance
        xp = namespace(sq_distance)
        half = xp.sqrt(xp.abs(sq_distance)) * self._half_unit
        if self.curvature < 0:
            half = xp.sinh(half)
        else:
            half = xp.sin(xp.clip(half, None, pi / 2))
        half *= half
        half *= 4 / abs(self.curvature)
        return xp.sign(sq_distance) * half

    def to_sq_distance(self, sq: Array) -> Array:
        """Return d² of g(d) or of D̂: the inverse of `to_sq`, of negative D̂ as well."""
        if self.is_flat:
            return sq
        xp = namespace(sq)
        return xp.sign(sq) * self.arc(xp.sqrt(xp.abs(sq))) ** 2

    def to_distance(self, sq: Array) -> Array:
        """Return d = g⁻¹ of g(d) or of D̂, as a new array, zero where these are negative."""
        xp = namespace(sq)
        return self.arc(xp.sqrt(xp.clip(sq, 0.0, None)))

    def arc(self, root: Array) -> Array:
        """Return d of √g(d), which is d if κ is zero; on a sphere at most that of antipodes."""
        if self.is_flat:
            return root
        xp = namespace(root)
        half = root * self._half_unit
        if self.curvature < 0:
            half = xp.asinh(half)
        else:
            half = xp.asin(xp.clip(half, None, 1.0))
        half /= self._half_unit
        return half

    def away_from_antipodes(self, sq: Array) -> Array:
        """Return D̂, cut off short of the antipode, where d̂ has a finite slope."""
        if self.curvature <= 0:
            return sq
        return namespace(sq).clip(
            sq, None, 4 * (1 - CORNER**2) / self.curvature
        )

    def distance_slope(self, root: Array) -> Array:
        """Return dd̂/dD̂ = 1/g′(d) where √D̂ > 0 is known, away from antipodes."""
        return 0.5 / self._half_slope(root)

    def bend(self, sq: Array) -> Array | float:
        """Return g″(d) = 2 − κ g(d)."""
        if self.is_flat:
            return 2.0
        return 2 - self.curvature * sq

    def relative_slope(self, sq: Array) -> Array:
        """Return 2/(d g′(d)) of g(d) > 0: a change of D by its inverse is one of ln d² by one.

        The argument is overwritten if κ is zero, where it is 1/D.
        """
        if self.is_flat:
            return in_place("reciprocal", sq)
        root = namespace(sq).sqrt(sq)
        return in_place("reciprocal", self.arc(root) * self._half_slope(root))

    @property
    def _half_unit(self) -> float:
        return 0.5 * sqrt(abs(self.curvature))

    def _half_slope(self, root: Array) -> Array:
        """Return g′(d)/2 where √g(d) is known, away from antipodes."""
        if self.is_flat:
            return root
        xp = namespace(root)
        cosine_sq = root * root
        cosine_sq *= -0.25 * self.curvature
        cosine_sq += 1.0
        if self.curvature > 0:
            cosine_sq = xp.clip(cosine_sq, CORNER**2, None)
        return root * xp.sqrt(cosine_sq)


def rounding_level(x: Array, y: Array) -> Array:
    """Magnitude below which an entry of `Form.sq` is only rounding (errata E14)."""
    xp = namespace(x, y)
    level = 64 * eps(x.dtype, xp)
    return level * (
        xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :]
    )
