"""Solve the secular equation: the global minimum of a least-squares placement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, namespace

MAX_ITER = 100


def secular_minimum(
    p: Array, t: Array, m: Array, start: Array | None = None
) -> tuple[Array, Array]:
    """Minimise 4|z|² + 4p·z − 2tc + c² with c = Σ_a m_a z_a², for every row of p and entry of t.

    This is a quadratic and a convex function of another, hence z = −p/(2 − e·m) where e = t − c
    solves a monotone equation on the interval of 2 − e·m > 0. Newton's method, kept within a
    bracket, on h(e) = t − Σ m p²/(2 − em)² − e: it falls by 1 or more wherever e rises by 1, so
    the root is between 0 and h(0).

    p is (rows, k), t (rows,), m (rows, k) or (1, k); `start` is a guess of e. Returns z and e.
    """
    xp = namespace(p)
    if p.shape[1] == 0:
        return p, t
    secular = _Secular.of(p, t, m)
    e = xp.zeros_like(t)
    h, fall, size = secular.at(e)
    h0 = h
    lowest, highest = _pole_free(m)
    lo, hi = xp.clip(xp.maximum(h, lowest), max=0.0), xp.clip(xp.minimum(h, highest), min=0.0)
    if start is not None:
        e = xp.clip(start, min=lo, max=hi)
        h, fall, size = secular.at(e)
        lo, hi = xp.where(h > 0, e, lo), xp.where(h > 0, hi, e)
    for _ in range(MAX_ITER):
        moved = e + h / fall
        moved = xp.where((moved >= lo) & (moved <= hi), moved, 0.5 * (lo + hi))
        # Relative to the step's end and to the pole, not to h(0): a root may be 1e-9 of h(0), or
        # 1e-9 of itself from the pole.
        to_pole = xp.minimum(highest - moved, moved - lowest)
        near = 1e-9 * xp.minimum(xp.abs(moved), to_pole) + 1e-15 * size / fall
        done = bool(xp.all(xp.abs(moved - e) <= near))
        e = moved
        h, fall, size = secular.at(e)
        lo, hi = xp.where(h > 0, e, lo), xp.where(h > 0, hi, e)
        if done:
            break
    z = -p / (2 - e[:, None] * m)
    # If p is zero along the extreme m, the root is beyond the pole.
    short = xp.abs(h) > 1e-6 * xp.abs(h0)
    if bool(xp.any(short)):
        z = _lifted(z, xp.where(short, h, xp.zeros_like(h)), m)
    return z, e


@dataclass(frozen=True)
class _Secular:
    """h(e) for every row, with what does not depend on e."""

    t: Array
    m: Array
    pull: Array
    size: Array
    slope: Array

    @classmethod
    def of(cls, p: Array, t: Array, m: Array) -> _Secular:
        pull = m * p * p
        return cls(t, m, pull, namespace(p).abs(pull), 2 * m * pull)

    def at(self, e: Array) -> tuple[Array, Array, Array]:
        """Return h(e), −h′(e), and the size of what h(e) is a difference of."""
        xp = namespace(e)
        r = 1 / (2 - e[:, None] * self.m)
        sq = r * r
        size = xp.abs(self.t) + xp.vecdot(self.size, sq) + xp.abs(e)
        h = self.t - xp.vecdot(self.pull, sq) - e
        return h, 1 + xp.vecdot(self.slope, sq * r), size


def _pole_free(m: Array) -> tuple[Array, Array]:
    """Return the ends of the interval on which 2 − e·m > 0 for every m, a hair within."""
    xp = namespace(m)
    lowest, highest = xp.min(m, axis=1), xp.max(m, axis=1)
    within, endless = 2 * (1 - 1e-12), xp.full_like(lowest, np.inf)
    one = xp.ones_like(lowest)
    return (
        xp.where(lowest < 0, within / xp.where(lowest < 0, lowest, one), -endless),
        xp.where(highest > 0, within / xp.where(highest > 0, highest, one), endless),
    )


def _lifted(z: Array, missing: Array, m: Array) -> Array:
    """Lengthen z along the extreme m until Σmz² has grown by `missing`."""
    xp = namespace(z)
    columns = asarray_like(np.arange(z.shape[1]), z, dtype=xp.int64)
    for extreme, sign in ((xp.argmax(m, axis=1), 1.0), (xp.argmin(m, axis=1), -1.0)):
        along = columns[None, :] == extreme[:, None]
        strength = sign * xp.sum(xp.where(along, m, xp.zeros_like(m)), axis=1)
        possible = strength > 0
        growth = xp.clip(sign * missing, min=0.0) / xp.where(
            possible, strength, xp.ones_like(strength)
        )
        growth = xp.where(possible, growth, xp.zeros_like(growth))[:, None]
        longer = xp.sqrt(z * z + growth)
        z = xp.where(along & (growth > 0), xp.where(z < 0, -longer, longer), z)
    return z
