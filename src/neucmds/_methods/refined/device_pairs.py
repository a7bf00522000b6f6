"""Listed pairs on a GPU: the same loss, sums and blocks as `sparse_pairs`, one kernel a step.

Sums over the pairs of an object are sparse products in both orders, so that no digit depends on
the order in which threads finish.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    device,
    empty_like,
    namespace,
    row_blocks,
    sparse_times,
)
from neucmds._backend.cuda_kernels import pair_changes, pair_forms
from neucmds._input.pairs import Pairs
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.refined.pair_descent import power_of_four
from neucmds._methods.refined.pair_tiles import moments, second_moments_about

# Entries of a block of differences: 0.5 GB of float32.
BLOCK = 2**27


@dataclass(frozen=True, eq=False)
class DevicePairs:
    """A loss of listed pairs as a function of the coordinates; D near one, in one precision.

    Parameters
    ----------
    i, j : arrays of shape (m,), int32
    d : array of shape (m,)
        D / scale.
    u : array of shape (m,) or None
        Weights, at most about one.
    weight_scale : float
    loss : PairLoss
        With the floor f² / scale.
    signs : array of shape (k,), float64
    starts, partners, pair : arrays of int
        Every pair in both orders, by rows: where a row starts, the other object, and which pair.
    """

    i: Array
    j: Array
    d: Array
    u: Array | None
    weight_scale: float
    loss: PairLoss
    signs: Array
    starts: Array
    partners: Array
    pair: Array

    @classmethod
    def of(
        cls, pairs: Pairs, signs: Array, loss: str, *, scale: float, floor: float
    ) -> DevicePairs:
        """Move pairs to where the signs lie, in single precision."""
        xp = namespace(signs)
        u, weight_scale = None, 1.0
        if pairs.weight is not None:
            weight_scale = power_of_four(pairs.weight)
            u = asarray_like(pairs.weight / weight_scale, signs, dtype=xp.float32)
        i, j = (asarray_like(one, signs, dtype=xp.int32) for one in (pairs.i, pairs.j))
        starts, partners, pair = _by_rows(pairs.n, i, j)
        d = asarray_like(pairs.sq_dissimilarity / scale, signs, dtype=xp.float32)
        return cls(i, j, d, u, weight_scale, PairLoss(loss, floor), signs, starts, partners, pair)

    @property
    def is_exact(self) -> bool:
        """Whether all is in float64."""
        return bool(self.d.dtype == namespace(self.d).float64)

    def exact(self) -> DevicePairs:
        """Return the same system in float64; D itself stays as it was rounded."""
        xp = namespace(self.d)
        u = None if self.u is None else xp.astype(self.u, xp.float64)
        return replace(self, d=xp.astype(self.d, xp.float64), u=u)

    @cached_property
    def size(self) -> float:
        """The loss of D̂ = 0."""
        return self.loss.size(self.d, self.u)

    @cached_property
    def weights(self) -> Array | None:
        """Return u q′² where q is linear in D̂, and the loss along a line therefore a quartic."""
        if not self.loss.is_quadratic:
            return None
        xp = namespace(self.d)
        ones = xp.ones_like(self.d) if self.u is None else self.u
        slope = self.loss.terms(self.d, xp.asarray(self.d, copy=True)).slope
        return ones if slope is None else ones * slope * slope

    def residuals(self, x: Array) -> Array:
        """D̂ − D of every pair."""
        return self._forms(x) - self.d

    def along(self, x: Array, p: Array, residual: Array) -> tuple[Array, Array]:
        """D₁ and D₂ of D̂(x + tp) = D̂ + tD₁ + t²D₂, for every pair."""
        xp = namespace(x)
        start, step = (xp.astype(one, self.d.dtype, copy=False) for one in (x, p))
        made = pair_changes(start, step, self._narrow_signs, self.i, self.j)
        if made is not None:
            return made
        d2 = self._forms(p)
        # D̂(x + p) − D̂(x) − D̂(p)
        return self._forms(x + p) - d2 - residual - self.d, d2

    def pulls(self, residual: Array) -> tuple[float, Array]:
        """Value of the loss, and u q q′ of every pair."""
        if self.weights is not None:
            pull = self.weights * residual
            return 2 * _dot(pull, residual), pull
        q, slope, _ = self._root(residual)
        uq = q if self.u is None else self.u * q
        return 2 * _dot(uq, q), uq * slope

    def gradient(self, x: Array, pulls: Array) -> Array:
        """8(Diag(C1) − C)XA with C the symmetric matrix of pulls; centered."""
        xp = namespace(x)
        ones = xp.ones_like(x[:, :1])
        summed = self._times(pulls, xp.astype(xp.concat([x, ones], axis=1), self.d.dtype))
        summed = xp.astype(summed, xp.float64)
        out = (summed[:, -1:] * x - summed[:, :-1]) * (8.0 * self.signs)
        return out - xp.mean(out, axis=0, keepdims=True)

    def quartic(self, here: Any, d1: Array, d2: Array, slope: float) -> Any:
        """Coefficients of the loss along a line, constant first; to second order for "distance"."""
        w, bend = self.weights, None
        if w is None:
            _, steep, bend = self._root(here.residual)
            w = steep * steep if self.u is None else self.u * steep * steep
        w1, w2 = w * d1, w * d2
        second = _dot(w1 if bend is None else w1 * bend, d1) + 2 * _dot(here.pull, d2)
        curved = [2 * second, 4 * _dot(w1, d2), 2 * _dot(w2, d2)]
        return np.array([here.value, slope, *curved])

    def on_line(self, residual: Array, d1: Array, d2: Array, t: float) -> tuple[float, float]:
        """Value and slope of the loss at t on a line."""
        change = d1 + t * d2
        q, slope, _ = self._root(residual + t * change)
        uq = q if self.u is None else self.u * q
        return 2 * _dot(uq, q), 4 * _dot(uq * slope, change + t * d2)

    def moved(self, residual: Array, d1: Array, d2: Array, t: float) -> Array:
        """Residuals at t on a line."""
        return residual + t * (d1 + t * d2)

    def gauss_newton(self, x: Array, residual: Array, pull: Array) -> tuple[Array, Array]:
        """Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ of every object i, and Σ_j u |q| q′; float64.

        By the expanded formula, for which float64 has the digits.
        """
        xp, weights = namespace(x), self.weights
        if weights is None:
            slope = self._root(residual)[1]
            weights = slope * slope if self.u is None else self.u * slope * slope
        ones = xp.ones_like(x[:, :1])
        pulled = self._times(xp.astype(xp.abs(pull), xp.float64), ones)[:, 0]
        sums = self._times(xp.astype(weights, xp.float64), moments(x))
        return second_moments_about(x, sums), pulled

    def true_value(self, x: Array) -> float:
        """Σ u q², no corner rounded."""
        return 2 * self.loss.value(self.d, self._forms(x), self.u)

    def _forms(self, x: Array) -> Array:
        """D̂ of every pair, from differences."""
        xp, k = namespace(x), int(x.shape[1])
        narrow = xp.astype(x, self.d.dtype, copy=False)
        made = pair_forms(narrow, self._narrow_signs, self.i, self.j)
        if made is not None:
            return made
        out = empty_like(self.d, self.d.shape)
        for part in self._blocks(k):
            difference = xp.take(narrow, self.i[part], axis=0)
            difference -= xp.take(narrow, self.j[part], axis=0)
            difference *= difference
            out[part] = difference @ self._narrow_signs
        return out

    @cached_property
    def _narrow_signs(self) -> Array:
        return namespace(self.d).astype(self.signs, self.d.dtype, copy=False)

    def _times(self, values: Array, columns: Array) -> Array:
        """Multiply the symmetric matrix of one value for each pair with columns."""
        return sparse_times(
            self.starts, self.partners, namespace(values).take(values, self.pair, axis=0), columns
        )

    def _blocks(self, k: int) -> Iterator[slice]:
        return row_blocks(int(self.d.shape[0]), 2 * k, BLOCK)

    def _root(self, residual: Array) -> tuple[Array, Array, Array]:
        """Return q, its slope and its curvature for "distance"."""
        terms = self.loss.terms(self.d, residual + self.d, bend=True)
        assert terms.slope is not None
        assert terms.curvature is not None
        return terms.residual, terms.slope, terms.curvature


def _dot(left: Array, right: Array) -> float:
    xp = namespace(left)
    return float(xp.sum(left * right, dtype=xp.float64))


def _by_rows(n: int, i: Array, j: Array) -> tuple[Array, Array, Array]:
    """Sort pairs in both orders by row: where each row starts, the partners, and which pair."""
    xp, m, where = namespace(i), int(i.shape[0]), device(i)
    wide = xp.int32 if 2 * m < 2**31 else xp.int64
    rows, partners = (xp.astype(xp.concat(ends), xp.int64) for ends in ((i, j), (j, i)))
    order = xp.argsort(rows * n + partners)
    rows = xp.take(rows, order, axis=0)
    starts = xp.searchsorted(rows, xp.arange(n + 1, dtype=xp.int64, device=where))
    pair = xp.where(order < m, order, order - m)
    partners = xp.take(partners, order, axis=0)
    made = (xp.astype(one, wide, copy=False) for one in (starts, partners, pair))
    starts, partners, pair = made
    return starts, partners, pair
