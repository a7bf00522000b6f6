"""Rules that turn squared dissimilarities to fitted objects into coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from neucmds.backend.arrays import (
    TINY,
    Array,
    Floats,
    asarray_like,
    empty_like,
    in_double,
    is_numpy,
    namespace,
    to_numpy,
)
from neucmds.errors import InputError, option
from neucmds.form import Form
from neucmds.place.least_squares import (
    LEAST_LENGTH,
    NewObjects,
    least_squares,
    shrunk_minimum,
)
from neucmds.place.neighbors import map_blocks
from neucmds.place.newton import (
    at_nearest,
    best_of,
    descend,
    descend_from_best,
)
from neucmds.refine.losses import SQUARED, PairLoss
from neucmds.refine.pairwise import WIDTHS, moments

# Ridge of a coordinate in units of the noise of an object, g of `shrunk_minimum`. The error of
# held-out objects in 46 cases does not rise by 0.1, by 0.9 % with 1, and by 4.3 % with 3.
SHRINKAGE = 0.1


@dataclass(frozen=True)
class LinearPlacement:
    """Triangulation: on the fitted objects it returns the fitted coordinates.

    Parameters
    ----------
    mean : array of shape (n,)
        Column means of D.
    projector : array of shape (n, k)
        C · U_W · Λ_W⁻¹ · V√|μ|: kept eigenvectors U_W and eigenvalues Λ_W of B, and the map V√|μ|
        from U_W to coordinates; its columns are centered.
    """

    mean: Array
    projector: Array

    def place(
        self,
        sq_dissimilarity: Array,
        weights: Array | None = None,
        partners: Array | None = None,
    ) -> Array:
        """Return −½ (D − mean) · projector, with D the squared dissimilarities of new objects.

        Weights and gaps are refused, and `partners` are not used.
        """
        if weights is not None:
            raise InputError(
                f"{option('weights')} does not go with triangulation; fit by "
                f"{option('method', 'refined')}, or with {option('placement', 'least_squares')}."
            )
        xp = namespace(sq_dissimilarity)
        if bool(xp.any(xp.isnan(sq_dissimilarity))):
            raise InputError(
                "closed forms place objects by all their dissimilarities, but some are NaN; fit by "
                f"{option('method', 'refined')}."
            )
        mean = self.mean
        projector = self.projector
        # In float32 where all three are.
        is_elsewhere = is_numpy(mean) and not is_numpy(sq_dissimilarity)
        if sq_dissimilarity.dtype == xp.float64 or is_elsewhere:
            mean = asarray_like(mean, sq_dissimilarity, dtype=xp.float64)
            projector = asarray_like(
                projector, sq_dissimilarity, dtype=xp.float64
            )
        return -0.5 * ((sq_dissimilarity - mean[None, :]) @ projector)


@dataclass(frozen=True)
class LossPlacement:
    """Minimise Σ_j u_j q(D̂_j)² over the position x of each new object, with weights u_j.

    A loss whose q is linear in D̂ is least squares with weights q′², and has a closed form. By a
    relative loss an object descends from the minimum of `PairLoss.beginning`, which is linear; by
    "distance" from the better of two starts.

    Parameters
    ----------
    coordinates : array of shape (n, k)
        Coordinates of the fitted objects.
    form : Form
    loss : PairLoss
    shrinkage : float, default=0
        Ridge of each coordinate in units of the noise of the new object, as for `shrunk_minimum`.
        By relative losses, negative coordinates alone are shrunk: their noise makes far objects
        near.
    offsets : array of shape (n,), optional
        Mean of D − D̂ of each fitted object, subtracted from dissimilarities to it.
    ridge : array of shape (k,), optional
        Ridge of each coordinate, independent of the noise.
    """

    coordinates: Array
    form: Form
    loss: PairLoss = SQUARED
    shrinkage: float = 0.0
    offsets: Array | None = None
    ridge: Array | None = None

    def place(
        self,
        sq_dissimilarity: Array,
        weights: Array | None = None,
        partners: Array | None = None,
    ) -> Array:
        """Return coordinates (m, k) of m objects, with the library and on the device of the rows.

        Parameters
        ----------
        sq_dissimilarity : array of shape (m, n)
            NaN where a dissimilarity is not known.
        weights : array of shape (m, n), optional
            How much each dissimilarity counts; only ratios within a row matter.
        partners : array of shape (m, n), optional
            Number of the fitted object of each dissimilarity; by default all, in order.
        """
        xp = namespace(sq_dissimilarity)
        if (
            self.loss.name == "squared"
            and weights is None
            and partners is None
        ):
            # A sum that is NaN shows gaps; looking at all entries takes longer.
            total = xp.sum(sq_dissimilarity, axis=1, dtype=xp.float64)
            if not bool(xp.any(xp.isnan(total))):
                placed = self._place_alike(sq_dissimilarity, total)
                return xp.astype(placed, sq_dissimilarity.dtype, copy=False)
        m, n = sq_dissimilarity.shape
        k = self.coordinates.shape[1]
        if not m or not k:
            return empty_like(sq_dissimilarity, (m, k))
        sq_dissimilarity = self.form.to_sq(sq_dissimilarity)
        x = asarray_like(
            to_numpy(self.coordinates), sq_dissimilarity, xp.float64
        )
        signs = asarray_like(
            to_numpy(self.form.signs), sq_dissimilarity, xp.float64
        )
        form = replace(self.form, signs=signs)
        # Entries per new object in a block: each has a copy of its partners' coordinates, unless
        # all share these and their products.
        width = n * k
        products = None
        if partners is None:
            width = n
            products = moments(form.tangents(x)[1])

        def place_rows(rows: slice) -> Array:
            """Place some of the objects: gaps count 0, and offsets are subtracted."""
            sq_d = in_double(sq_dissimilarity[rows, :])
            counts = None
            if weights is not None:
                counts = asarray_like(weights[rows], sq_d)
            missing = form.unknown(sq_d)
            if bool(xp.any(missing)):
                known = xp.astype(~missing, xp.float64)
                counts = known if counts is None else counts * known
                sq_d = xp.where(missing, 0.0, sq_d)
            if self.offsets is not None:
                sq_d = sq_d - asarray_like(self.offsets, sq_d)
            fitted = x
            if partners is not None:
                ids = partners[rows, :]
                fitted = xp.take(x, xp.reshape(ids, (-1,)), axis=0)
                fitted = xp.reshape(fitted, (*ids.shape, k))
            return self._place_block(
                NewObjects(sq_d, counts, fitted, form, products)
            )

        placed = xp.concat(map_blocks(place_rows, sq_dissimilarity, m, width))
        return xp.astype(placed, sq_dissimilarity.dtype, copy=False)

    def _place_block(self, new: NewObjects) -> Array:
        """Return coordinates by a closed form, or by a descent where the loss has none."""
        if self.loss.name == "distance":
            return descend_from_best(new, self.loss)
        x = self._place_linear(new, self.loss.beginning)
        if self.loss.is_linear:
            return x
        x = self._descend(new, x)
        if self.form.is_flat:
            return x
        # In a space as curved as that of a tree some objects end far off: 5.2 % mean error of new
        # nodes where fitted ones have 2.2 %, and 2.7 % if they start beside their nearest, too.
        beside_nearest = self._descend(new, at_nearest(new))
        return best_of(new, self.loss, x, beside_nearest)

    def _descend(self, new: NewObjects, x: Array) -> Array:
        """Return the end of a descent on a relative loss."""
        if self.loss.name != "absolute":
            return descend(new, self.loss, x)
        # The corner of |d̂/d − 1|, as sharp as the fit is good, holds objects that are far off: it
        # is rounded at first, and less from stage to stage.
        x = descend(new, replace(self.loss, name="relative"), x)
        for width in WIDTHS[1:]:
            wider = self.loss.width * width / WIDTHS[-1]
            x = descend(new, replace(self.loss, width=wider), x)
        return x

    def _place_linear(self, new: NewObjects, loss: PairLoss) -> Array:
        """Return coordinates by a loss with q = slope·(D̂ − D): least squares, weights slope²."""
        sq_d = new.sq_dissimilarity
        xp = namespace(sq_d)
        # At D̂ = D, in an array that is written over.
        sq_hat = xp.asarray(sq_d, copy=True)
        _, slope, _ = loss.terms(new.form, sq_d, sq_hat)
        w = xp.ones_like(sq_d)
        if slope is not None:
            w = slope * slope
        w = new.counted(w)
        ridge = self.ridge
        if ridge is not None:
            ridge = asarray_like(ridge, sq_d)
        x = least_squares(
            new,
            w,
            ridge=ridge,
            shrinkage=self.shrinkage,
            farthest=self.farthest,
            negatives_only=loss.degree == 0,
        )
        # Where one weight exceeds all others by far, rounding hides the minimum.
        largest = xp.max(w, axis=1)
        is_hidden = LEAST_LENGTH * largest > xp.sum(w, axis=1) - largest
        hidden = xp.nonzero(is_hidden)[0]
        if hidden.shape[0]:
            x[hidden] = descend_from_best(new.take(hidden), loss, x[hidden])
        return x

    def _place_alike(self, sq_dissimilarity: Array, total: Array) -> Array:
        """Return coordinates of objects without weights or gaps, which share W; D is not copied.

        Names are those of `neucmds.place.least_squares`: p, m and W, here `to_v`. `total` is
        Σ_j D_j, and b_j = h_j − D_j with h_j = x_jᵀAx_j + offset_j.
        """
        xp = namespace(sq_dissimilarity)
        to_v, m = self._frame
        h = self._shifts
        n = sq_dissimilarity.shape[1]
        p = sq_dissimilarity @ asarray_like(self._to_p, sq_dissimilarity)
        p = in_double(p) - asarray_like(h @ self._to_p, p, xp.float64)
        b_sq_mean = xp.zeros_like(total)
        if self.shrinkage:
            norms = xp.vecdot(sq_dissimilarity, sq_dissimilarity)
            cross = sq_dissimilarity @ asarray_like(h, sq_dissimilarity)
            b_sq_sum = xp.astype(norms, xp.float64) - 2 * xp.astype(
                cross, xp.float64
            )
            b_sq_mean = (b_sq_sum + float(h @ h)) / n
        m = asarray_like(m, p)[None, :]
        z = shrunk_minimum(
            p,
            total / n - float(h.mean()),
            m,
            shrunk_m=m,
            constant=b_sq_mean,
            mean=total / n,
            count=asarray_like(np.asarray([float(n)]), p),
            shrinkage=self.shrinkage,
            farthest=self.farthest,
        )
        to_x = to_v.T * self.form.in_numpy().signs
        return z @ asarray_like(to_x, p) + asarray_like(self._center, p)

    @cached_property
    def _shifts(self) -> Floats:
        """h: x_jᵀAx_j + offset_j of every fitted object."""
        x = self._centered
        shifts: Floats = (x * x) @ self.form.in_numpy().signs
        if self.offsets is not None:
            shifts = shifts + to_numpy(self.offsets)
        return shifts

    @cached_property
    def _to_p(self) -> Array:
        """XW/n: p = −Wᵀ Σ b_j x_j / n is −b times this matrix."""
        to_v, _ = self._frame
        x = self._centered
        return x @ to_v / len(x)

    @cached_property
    def _frame(self) -> tuple[Floats, Floats]:
        """W and m of `least_squares` for equal weights, in NumPy float64: they are small."""
        x = self._centered
        signs = self.form.in_numpy().signs
        s = x.T @ x / len(x)
        if self.ridge is not None:
            s = s + np.diag(to_numpy(self.ridge)) / len(x)
        s = s + np.eye(signs.size) * LEAST_LENGTH * np.trace(s)
        # By eigenvectors: a Cholesky factor loses digits next to a column of weight 1e-9.
        values, axes = np.linalg.eigh(s)
        root = axes / np.sqrt(np.maximum(values, TINY))
        m, rotation = np.linalg.eigh(root.T @ (signs[:, None] * root))
        return root @ rotation, m

    @cached_property
    def _center(self) -> Array:
        """The mean of the fitted objects: zero but for a part of them, such as arrivals."""
        x = to_numpy(self.coordinates).astype(np.float64)
        return x.mean(axis=0)

    @cached_property
    def _centered(self) -> Array:
        """The fitted objects, with zero mean."""
        x = to_numpy(self.coordinates).astype(np.float64)
        return x - self._center

    @cached_property
    def farthest(self) -> float:
        """A squared length that no difference of fitted objects exceeds."""
        x = self._centered
        return 4 * float(np.max(np.sum(x * x, axis=1), initial=0.0))


@dataclass(frozen=True)
class OrdinalPlacement:
    """Place new objects by the distance loss of their disparities δ.

    Parameters
    ----------
    coordinates : array of shape (n, k)
        Coordinates of the fitted objects.
    form : Form
    dissimilarity, disparity : ndarray of shape (m,)
        d and δ of the fitted pairs, both rising; between two d, δ is on the line between theirs,
        and beyond the last it is the last.
    stress1 : float
        Of the fit. At its minimum the errors d̂ − δ/(1 − stress-1²) have no gradient. So distances
        are fitted to δ/(1 − stress-1²), by which fitted objects stay where they are.
    """

    coordinates: Array
    form: Form
    dissimilarity: Floats
    disparity: Floats
    stress1: float

    def place(
        self,
        sq_dissimilarity: Array,
        weights: Array | None = None,
        partners: Array | None = None,
    ) -> Array:
        """Return coordinates (m, k) of m objects; parameters are those of `LossPlacement.place`."""
        d = np.sqrt(to_numpy(sq_dissimilarity))
        disparity = np.interp(d, self.dissimilarity, self.disparity)
        disparity /= 1 - self.stress1**2
        # Below a share of it √D̂, which has a corner at zero, continues as its tangent.
        least = float(self.disparity[self.disparity > 0].min())
        loss = PairLoss("distance", sq_floor=least**2)
        rule = LossPlacement(self.coordinates, self.form, loss)
        sq_disparity = asarray_like(disparity**2, sq_dissimilarity)
        return rule.place(sq_disparity, weights, partners)


Placement = LinearPlacement | LossPlacement | OrdinalPlacement
