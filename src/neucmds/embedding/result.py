"""`Embedding`: coordinates with a signature, as one immutable value."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from neucmds.alignment import (
    Alignment,
    align,
    centered_columns,
    columns_by_sign,
    common_signs,
)
from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    Numbers,
    asarray_like,
    index_like,
    namespace,
    row_blocks,
    taken,
    to_numpy,
)
from neucmds.backend.files import AnyPath, atomic_file
from neucmds.embedding import saved
from neucmds.embedding.info import Info
from neucmds.embedding.inner_product import InnerProduct
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.form import Form
from neucmds.place.neighbors import nearest, roughly_nearest
from neucmds.place.new_rows import (
    check_gaps,
    check_shape,
    new_weights,
    sq_rows,
)
from neucmds.place.rules import LossPlacement, Placement
from neucmds.problem.containers import as_real
from neucmds.problem.names import (
    Labels,
    are_row_numbers,
    common_objects,
    examples,
    ids_in,
    is_number,
    ordered_by_name,
    row_numbers,
    rows_ordered_as,
    text_of,
)
from neucmds.problem.validation import as_labels, check_count
from neucmds.spectrum.geometry import StressTerms

# Share of distances that scores in float32 may lose without a warning.
MOST_LOST = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Embedding:
    """k real coordinates for each of n objects, with a sign for each coordinate.

    The dissimilarity it gives two objects is ``D̂_ij = Σ_a signs[a] (x_ia − x_ja)²``, on the squared
    scale. Coordinates come ordered by the size of their weight, largest first. Arrays are NumPy's
    unless the input was another library's.

    Wherever objects are asked for, a name is text: ``str(name)`` of a number, a tuple or a date,
    where NumPy's dates, and its numbers in a tuple, first become Python's. If
    an object is named by a number, integers are names; otherwise they are row numbers, from 0 on,
    negative ones from the end. `take` and `unnamed` take row numbers in any case. Names 0 … n − 1
    in this order are row numbers. A boolean Series is matched by its index.

    Parameters
    ----------
    coordinates : array of shape (n, k)
    form : Form
        Signs of the coordinates, and the curvature κ in units of 1/d²: the function from
        coordinates to dissimilarities.
    weights : array of shape (k,)
        λ̃: the signed squared length of each coordinate column.
    stress_terms : tuple of three floats
        C1, C2 and C3 (thm:stress-decomp); their sum is the exact STRESS. A STRESS that is weighted,
        or would be lost in their rounding beside a huge d, stands first, before two zeros.
    method : str
        As of `neuc_mds`.
    requested : int
        Number of coordinates asked for; `k` may be smaller.
    info : Info
        How they were found: solver, convergence, eigenvalues, errors.
    squared : bool
        Whether the input held squared dissimilarities; `transform` expects the same.
    labels : tuple of str or None
        Names of the objects; None: their row numbers.
    placement : Placement or None
        The rule behind `transform`.
    loss : {"squared", "distance", "relative", "absolute", "ordinal"}
        The loss that was minimised.
    loss_value : float
        The value of the loss over all pairs. Both directions of a pair count if D is asymmetric; a
        symmetric D has each pair once, also with ``directed=True``. For "squared" it is half the
        STRESS, which the paper takes over all n² entries, for "distance" the raw stress, for
        "ordinal" Σ(d̂ − δ)².
    missing : {"error", "ignore"}
        Whether `transform` accepts NaN for unknown dissimilarities.
    mean_distance : float
        The mean d, the unit of the curvature; NaN for the squared loss.
    landmarks : ndarray of shape (L,) or None
        Numbers of the landmarks, if all other objects were placed among them: `transform` takes
        dissimilarities to these alone, in this order, and STRESS, R², weights and eigenvalues are
        those of the landmarks.
    global_landmarks : ndarray or None
        Numbers, among the landmarks, of the global ones of two levels; see `landmarks_to_ask`.
    n_global, n_near : int
        How many global and near landmarks an object is compared with; 0 without two levels.
    arrivals : array of shape (n', k) or None
        Where the columns of a directed D are: ``D̂_ij = Σ_a signs[a] (x_ia − y_ja)²`` with arrivals
        y, and `coordinates` x are departures; D̂ from an object to itself is 0. None if D is
        symmetric.
    arrival_labels : tuple of str or None
        Names of the arrivals, if they are other objects than the departures.
    """

    coordinates: Floats
    form: Form
    weights: Floats
    stress_terms: StressTerms
    method: str
    requested: int
    info: Info
    squared: bool = False
    labels: Labels = None
    placement: Placement | None = None
    loss: str = "squared"
    loss_value: float = math.nan
    missing: str = "error"
    mean_distance: float = math.nan
    landmarks: Indices | None = None
    global_landmarks: Indices | None = None
    n_global: int = 0
    n_near: int = 0
    arrivals: Floats | None = None
    arrival_labels: Labels = None

    def __repr__(self) -> str:
        positive, negative = self.signature
        space = ""
        if self.form_words:
            space = f", {self.form_words}"
        objects = f"{self.n} objects"
        if self.arrivals is not None:
            objects = f"{self.n} departures and {len(self.arrivals)} arrivals"
        quality = (
            f"STRESS {self.stress:.4g} ({self.normalized_stress:.2%} of ‖D‖²)"
        )
        if math.isfinite(self.stress1):
            quality = f"stress-1 {self.stress1:.4g}"
        return (
            f"<Embedding of {objects} by {self.method}: {positive} positive and "
            f"{negative} negative coordinates{space}, {quality}{self._stress_note}>"
        )

    @property
    def n(self) -> int:
        """Number of objects."""
        return int(self.coordinates.shape[0])

    @property
    def k(self) -> int:
        """Number of coordinates."""
        return int(self.coordinates.shape[1])

    @property
    def stress(self) -> float:
        """‖D̂ − D‖²_F over all n² entries, on the squared scale."""
        return sum(self.stress_terms)

    @property
    def normalized_stress(self) -> float:
        """STRESS as a share of ‖D‖²_F: 0 is perfect, 1 is no better than D̂ = 0."""
        if not self.info.sq_norm:
            return 0.0
        return self.stress / self.info.sq_norm

    @property
    def stress1(self) -> float:
        """Kruskal's stress-1 of a fit by ``loss="distance"``: √(Σ(d̂ − d)² / Σd²) over pairs.

        Of ``loss="ordinal"``: √(Σ(d̂ − δ)² / Σd̂²) with disparities δ that rise with d; Σd̂² is Σd².
        Other losses do not compute it; `neucmds.evaluate` does, from D, for any embedding.
        """
        if self.loss not in ("distance", "ordinal"):
            return math.nan
        # Where D is zero, every loss is zero.
        if not self.info.sq_norm:
            return 0.0
        return math.sqrt(self.loss_value / self.info.sum_of_squares)

    @property
    def r2(self) -> float:
        """1 − STRESS / Σ(D − mean)² over pairs, squared scale: 1 is perfect, 0 is like a constant.

        This is the R² of the paper's STRESS. It compares squares and allows no scale, so that a
        good fit by another loss may have a negative one; for the R² of a Shepard diagram see
        `neucmds.explore.Quality`. NaN if all dissimilarities are equal.
        """
        return 1 - self.stress / self._sq_deviations

    @property
    def _landmarks_alone(self) -> str:
        """Words for the objects that weights and R² are computed from; none if from all."""
        if self.landmarks is None:
            return ""
        return f"the {len(self.landmarks)} landmarks alone"

    @property
    def _stress_note(self) -> str:
        """Words for the pairs that STRESS, or stress-1, and R² are from; none if from all."""
        if self._landmarks_alone:
            return f", of {self._landmarks_alone}"
        info = self.info
        if not info.held_out_pairs:
            return ""
        if math.isnan(info.r2_standard_error):
            return (
                f"; R² {self.r2:.3f}, from {info.held_out_pairs} pairs that were not fitted, of "
                "which so few decide that no standard error is known"
            )
        # Of stress-1 no standard error is known.
        stress_error = ""
        if math.isnan(self.stress1):
            stress_error = f", ± {info.stress_standard_error:.2g}"
        return (
            f"{stress_error}; R² {self.r2:.3f} ± {info.r2_standard_error:.2g}, from "
            f"{info.held_out_pairs} pairs that were not fitted"
        )

    @property
    def signs(self) -> Array:
        """±1.0: the sign of each coordinate; 0 of a height."""
        return self.form.signs

    @property
    def heights(self) -> Array | None:
        """How far out each object hangs: the last column of `coordinates`, whose sign is 0, if any.

        D̂ of two objects is that of the other coordinates plus both heights.
        """
        if not self.form.has_heights:
            return None
        return self.coordinates[:, -1]

    @property
    def signature(self) -> tuple[int, int]:
        """Numbers of positive and of negative coordinates (p, q)."""
        return self.form.signature

    @property
    def curvature(self) -> float:
        """κ·(mean d)²: D̂ approximates g(d), which is d² where κ is zero (see `neuc_mds`).

        Negative: hyperbolic; positive: spherical. STRESS and R² are always computed on d².
        """
        return self.form.relative_curvature(self.mean_distance)

    @property
    def form_words(self) -> str:
        """How the space is curved, and whether there are heights; empty if neither is so."""
        return self.form.words(self.mean_distance)

    @property
    def explained(self) -> Floats:
        """R² lost without each coordinate, the others as they are; shape (k,).

        They do not add up to `r2`: coordinates are fitted together. Where a coordinate makes the
        fit worse ("classical"), its value is negative. Of more than 600 objects it is estimated
        from the pairs between at most 600 of them and all, if the embedding is curved or weighted.
        NaN where R² is NaN.
        """
        rises: Floats = to_numpy(self.info.stress_rises)
        return rises / self._sq_deviations

    @property
    def _sq_deviations(self) -> float:
        """Σ(D − mean)², NaN where it is zero."""
        return self.info.total_sum_of_squares or math.nan

    @property
    def shares(self) -> dict[str, Floats]:
        """Each kept eigenvalue as a fraction of a sum of eigenvalues; keys name the convention.

        For "classical" and "neuc", which project on eigenvectors; empty otherwise. "trace":
        λ / Σλ over all eigenvalues, as R's ape and scikit-bio's ``pcoa(dimensions=k)``. "positive":
        λ / Σλ over the positive ones, if all are known, as vegan's ``capscale`` and scikit-bio's
        ``pcoa`` of all dimensions.
        """
        shares: dict[str, Floats] = {}
        if self.method in ("classical", "neuc"):
            values = to_numpy(self.info.eigenvalues)
            if self.info.trace > 0:
                shares["trace"] = values / self.info.trace
            if self.info.positive_trace > 0:
                shares["positive"] = values / self.info.positive_trace
        return shares

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names that encode the sign and are valid R column names: axis1, axis2_neg."""
        names = []
        for number, sign in enumerate(to_numpy(self.signs), 1):
            ending = "_neg" if sign < 0 else ""
            names.append(f"axis{number}{ending}" if sign else "height")
        return tuple(names)

    @property
    def complex_coordinates(self) -> Array:
        """The paper's complex X: D̂ is the plain (unconjugated) dot product of differences.

        Paper: eq:embeddingX.
        """
        if self.heights is not None:
            raise InputError(
                "heights are added to D̂ and are no part of complex coordinates; fit without "
                "heights, or use coordinates and signs."
            )
        return to_numpy(self.coordinates) * np.sqrt(to_numpy(self.signs) + 0j)

    @property
    def floor(self) -> float:
        """The d that relative errors of smaller d are divided by; NaN for "squared"."""
        if self.loss == "squared" or not isinstance(
            self.placement, LossPlacement
        ):
            return math.nan
        return float(
            self.form.to_distance(np.array([self.placement.loss.sq_floor]))[0]
        )

    @property
    def kappa(self) -> float:
        """The curvature κ in the units of the data: ``curvature / mean_distance**2``."""
        return self.form.curvature

    def dissimilarities(
        self, rows: Any = None, cols: Any = None, *, squared: bool = False
    ) -> Array:
        """Fitted dissimilarities from rows to columns, all of them or those that are given.

        Parameters
        ----------
        rows, cols : slice, int, str, sequence of them, mask of length n, or None
            Which objects, by number or by name; None means all.
        squared : bool, default=False
            False: distances, as `distance` returns them. True: D̂ itself, which may be negative;
            for a curved embedding on the scale of g(d).
        """
        row_ids = self._indices(rows)
        targets = self._targets
        col_ids = targets._indices(cols)
        sq = self.form.sq(
            taken(self.coordinates, row_ids),
            taken(targets.coordinates, col_ids),
        )
        sq = self._own_as_zero(sq, row_ids[:, None] == col_ids[None, :])
        return self._scaled(sq, squared)

    def distance(self, i: Any, j: Any, *, squared: bool = False) -> Any:
        """Dissimilarities of pairs: from the first of `i` to the first of `j`, and so on.

        A fit by ``loss="ordinal"`` has no distances in the unit of D and refuses to return them.

        Parameters
        ----------
        i, j : int, str, or sequences of them
            Objects, by number or by name; shapes are broadcast.
        squared : bool, default=False
            False: the fitted distance g⁻¹(max(D̂, 0)), which is √max(D̂, 0) without curvature.
            True: D̂ itself, which may be negative.

        Returns
        -------
        float or array
            A number for two single objects, otherwise an array of the broadcast shape.

        Examples
        --------
        >>> import pandas as pd
        >>> from neucmds import neuc_mds
        >>> names = ["here", "there", "away"]
        >>> emb = neuc_mds(pd.DataFrame([[0, 3, 4], [3, 0, 5], [4, 5, 0]], names, names), 2)
        >>> round(emb.distance("here", "there"), 6)
        3.0
        >>> emb.distance([0, 0], [1, 2]).round(6).tolist()
        [3.0, 4.0]
        """
        if self.loss == "ordinal" and not squared:
            raise InputError(
                f"{option('loss', 'ordinal')} fits the order of the dissimilarities, and its "
                "distances have no unit; use neighbors, or dissimilarities for those of a plot."
            )
        targets = self._targets
        if self._is_single(i) and targets._is_single(j):
            # Two single objects take a tenth of the time of two arrays.
            first = self._row(i)
            second = targets._row(j)
            sq = self.form.paired_sq(
                self.coordinates[first : first + 1, :],
                targets.coordinates[second : second + 1, :],
            )
            sq = self._own_as_zero(sq, np.array([first == second]))
            return float(self._scaled(sq, squared)[0])
        left = self._rows(i)
        right = targets._rows(j)
        try:
            left, right = np.broadcast_arrays(left, right)
        except ValueError as problem:
            raise InputError(
                f"i has shape {left.shape} and j has {right.shape}, which do not broadcast; pass "
                "as many of both, or one object for all."
            ) from problem
        # One empty array, so that there is something to join.
        parts = [self.signs[:0]]
        for block in row_blocks(left.size, max(1, 2 * self.k)):
            x = taken(self.coordinates, left.ravel()[block])
            y = taken(targets.coordinates, right.ravel()[block])
            parts.append(self.form.paired_sq(x, y))
        xp = namespace(self.coordinates)
        sq = self._own_as_zero(xp.concat(parts), (left == right).ravel())
        distances = self._scaled(sq, squared)
        if left.ndim == 0:
            return float(distances[0])
        return xp.reshape(distances, left.shape)

    def between(self, a: Any, b: Any, *, squared: bool = False) -> Array:
        """Fitted dissimilarities between two sets of coordinates, such as `transform` returns.

        Parameters
        ----------
        a : array of shape (m, k)
        b : array of shape (l, k)
        squared : bool, default=False
            As for `dissimilarities`.

        Returns
        -------
        array of shape (m, l)
        """
        sq = self.form.sq(self._as_points(a, "a"), self._as_points(b, "b"))
        return self._scaled(sq, squared)

    def _own_as_zero(self, sq: Array, same: Any) -> Array:
        """Return D̂ with zero from each object to itself, where `same` says that numbers are equal.

        There D̂ is rounding, or how far an arrival is from its own departure. In two sets, equal
        numbers are different objects.
        """
        if self.arrival_labels is not None:
            return sq
        xp = namespace(sq)
        own = asarray_like(same, sq, dtype=xp.bool)
        return xp.where(own, 0.0, sq)

    @cached_property
    def _targets(self) -> Embedding:
        """The arrivals as an embedding of their own; of a symmetric D this one."""
        if self.arrivals is None:
            return self
        labels = self.labels
        if self.arrival_labels is not None:
            labels = self.arrival_labels
        return self._side(self.arrivals, labels, self.placement)

    @property
    def _sources(self) -> Embedding:
        """The departures as an embedding of their own; of a symmetric D this one."""
        if self.arrivals is None:
            return self
        rule = self.placement
        if isinstance(rule, LossPlacement):
            fitted = taken(self.coordinates, self._fitted_rows)
            rule = replace(rule, coordinates=fitted)
        return self._side(self.coordinates, self.labels, rule)

    def _sides(self, direction: str) -> tuple[Embedding, Embedding]:
        """Return the points that a dissimilarity starts from for queries, and those searched.

        A query looks for arrivals to go "to", or for departures to come "from".
        """
        if direction == "to":
            return self._sources, self._targets
        if direction == "from":
            return self._targets, self._sources
        raise InputError(
            f"direction={direction!r} is unknown; pass 'to' or 'from'."
        )

    def _side(
        self, points: Array, labels: Any, rule: Placement | None
    ) -> Embedding:
        """Return a symmetric embedding of the departures or arrivals, fitted ones first."""
        landmarks = None
        if isinstance(rule, LossPlacement):
            landmarks = np.arange(len(rule.coordinates))
        return replace(
            self,
            coordinates=points,
            labels=labels,
            placement=rule,
            landmarks=landmarks,
            arrivals=None,
            arrival_labels=None,
        )

    @property
    def _fitted_rows(self) -> Indices:
        """Row numbers of the objects that `transform` takes dissimilarities to."""
        if self.landmarks is None:
            return np.arange(self.n)
        return self.landmarks

    def _scaled(self, sq: Array, squared: bool) -> Array:
        """Return D̂ as it is, or the distances that it stands for."""
        if squared:
            return sq
        return self.form.to_distance(sq)

    def neighbors(
        self,
        k: int = 10,
        queries: Any = None,
        *,
        among: Any = None,
        direction: Literal["to", "from"] = "to",
        squared: bool = False,
    ) -> tuple[Numbers, Floats]:
        """Find the nearest fitted objects by D̂, exactly.

        Parameters
        ----------
        k : int, default=10
            How many for each query.
        queries : array of shape (m, n_coordinates), optional
            Coordinates, such as `transform` returns. None: the fitted objects, each without itself.
        among : slice, sequence of int or str, or mask of length n, optional
            Which objects may be found; all by default.
        direction : {"to", "from"}, default="to"
            Of a directed embedding: the nearest arrivals to go to, or the nearest departures to
            come from.
        squared : bool, default=False
            As for `dissimilarities`.

        Returns
        -------
        indices : array of shape (m, k)
            Numbers of the nearest objects, nearest first; of equal ones the lower number first.
        dissimilarities : array of shape (m, k)
            Their fitted dissimilarities. D̂ may be negative; the most negative is the nearest.

        Examples
        --------
        >>> from neucmds import neuc_mds
        >>> emb = neuc_mds([[0, 1, 4], [1, 0, 3], [4, 3, 0]], 1)
        >>> emb.neighbors(1)[0].ravel().tolist()
        [1, 0, 1]
        """
        starting, searched = self._sides(direction)
        allowed = np.unique(searched._indices(among))
        points = starting.coordinates
        n_others = allowed.size
        # Where each query itself is among the allowed objects, −1 if it is not.
        itself = None
        if queries is not None:
            points = self._as_points(queries, "queries")
        elif self.arrival_labels is None:
            n_others = max(0, n_others - 1)
            itself = np.full(starting.n, -1)
            itself[allowed] = np.arange(allowed.size)
        check_count(k=k)
        if k > n_others:
            raise InputError(
                f"{option('k', k)} neighbours are asked for among {n_others} other objects."
            )
        ids, sq = nearest(
            self.form,
            points,
            taken(searched.coordinates, allowed),
            int(k),
            itself,
        )
        indices = index_like(allowed[to_numpy(ids)], points)
        return indices, self._scaled(sq, squared)

    def landmarks_to_ask(self, coarse: Any) -> Numbers:
        """Return the landmarks to compare new objects with, in two levels.

        Call it twice: with the number of objects (returns global landmarks); then, after a first
        `transform` of an (m, L) array that is NaN elsewhere, with the resulting coordinates
        (returns near ones). A second `transform` gives the final coordinates.

        Parameters
        ----------
        coarse : int or array of shape (m, k)
            Number of new objects, or their first coordinates.

        Returns
        -------
        ndarray of shape (m, n_global) or (m, n_near)
            Numbers among the landmarks: columns of the (m, L) array.
        """
        rule = self.placement
        if self.global_landmarks is None or not isinstance(
            rule, LossPlacement
        ):
            raise InputError(
                f"there are no two levels of landmarks ({option('n_near', 0)}): objects need "
                "dissimilarities to all of them."
            )
        if isinstance(coarse, (int, np.integer)):
            if coarse < 0:
                raise InputError(
                    f"{coarse} new objects are asked for; pass their number."
                )
            # Each object asks the next ones, in a circle, so that all are asked alike often.
            turns = np.add.outer(np.arange(coarse), np.arange(self.n_global))
            turns %= self.global_landmarks.size
            return np.asarray(self.global_landmarks[turns])
        places = to_numpy(self._as_points(coarse, "coarse"))
        none_known = np.zeros((len(places), 0), np.intp)
        return roughly_nearest(
            self.form, places, rule.coordinates, none_known, self.n_near
        )

    def append(
        self,
        coordinates: Any = None,
        labels: Iterable[object] | None = None,
        *,
        arrivals: Any = None,
        arrival_labels: Iterable[object] | None = None,
    ) -> Embedding:
        """Return the embedding with objects that were placed later.

        Parameters
        ----------
        coordinates : array of shape (m, k)
            As `transform` returns them, or that of an estimator.
        labels : sequence, array, Index or Series, optional
            Names of the new objects, if the others have names.
        arrivals : array of shape (m, k), optional
            Of a directed embedding: where the new objects are arrived at. Where rows and columns
            are two sets, `coordinates` and `arrivals` are those of different objects, and one of
            them may be left out.
        arrival_labels : optional
            Names of new arrivals, if they are another set than the departures.

        Returns
        -------
        Embedding
            Its `landmarks` are the objects that were fitted: `transform` still takes
            dissimilarities to these alone, and STRESS, R² and weights are unchanged.

        Examples
        --------
        >>> from neucmds import neuc_mds
        >>> emb = neuc_mds([[0, 3, 4], [3, 0, 5], [4, 5, 0]], 2)
        >>> more = emb.append(emb.transform([[3, 0, 5]]))
        >>> more.n, round(more.distance(1, 3), 6)
        (4, 0.0)
        """
        nothing = self.coordinates[:0, :]
        new = nothing if coordinates is None else coordinates
        new_arrivals = nothing if arrivals is None else arrivals
        # Each new object of a directed embedding of one set has a departure and an arrival.
        is_one_set = self.arrivals is not None and self.arrival_labels is None
        if is_one_set and len(new) != len(new_arrivals):
            raise InputError(
                f"{len(new)} departures and {len(new_arrivals)} arrivals of new objects are "
                "given; pass both of each."
            )
        if self.arrivals is None and len(new_arrivals):
            raise InputError(
                "this embedding is symmetric; leave arrivals out."
            )
        x, names = self._extended(new, labels)
        extended = replace(
            self, coordinates=x, labels=names, landmarks=self._fitted_rows
        )
        if self.arrivals is None:
            return extended
        if is_one_set:
            arrival_labels = labels
        y, arrival_names = self._targets._extended(
            new_arrivals, arrival_labels
        )
        if is_one_set:
            arrival_names = None
        return replace(extended, arrivals=y, arrival_labels=arrival_names)

    def _extended(
        self, new: Any, labels: Iterable[object] | None
    ) -> tuple[Array, Labels]:
        """Return coordinates and names with those of new objects; row numbers count on."""
        points = self._as_points(new, "coordinates")
        names = None
        if labels is None and are_row_numbers(self.labels or ("",)):
            names = row_numbers(self.n + len(points))
        elif self.labels is not None or labels is not None:
            old_names = self.labels or row_numbers(self.n)
            new_names = () if labels is None else labels
            names = as_labels([*old_names, *new_names], self.n + len(points))
        return namespace(points).concat([self.coordinates, points]), names

    def __getitem__(self, which: Any) -> Embedding:
        """Return the embedding of some objects: a slice, numbers, names, or a mask of length n.

        STRESS, R² and weights stay those of all objects. A part has no `transform`; use that of the
        whole embedding.
        """
        return self.take(self._indices(which))

    def take(self, rows: Any) -> Embedding:
        """Return the embedding of some objects by their row numbers, whatever their names are.

        Parameters
        ----------
        rows : sequence of int
            From 0 on; negative ones count from the end.

        Returns
        -------
        Embedding
            As ``embedding[...]``.

        Examples
        --------
        >>> import pandas as pd
        >>> from neucmds import neuc_mds
        >>> emb = neuc_mds(pd.DataFrame([[0, 3, 4], [3, 0, 5], [4, 5, 0]], [7, 2, 1], [7, 2, 1]), 2)
        >>> emb[[7, 1]].labels, emb.take([0, 1]).labels
        (('7', '1'), ('7', '2'))
        """
        ids = self.unnamed._indices(rows)
        labels = None
        if self.labels is not None:
            labels = as_labels([self.labels[i] for i in ids], ids.size)
        if self.arrival_labels is not None:
            raise InputError(
                "rows and columns are two sets of objects; ask for dissimilarities(rows, columns)."
            )
        arrivals = None
        if self.arrivals is not None:
            arrivals = taken(self.arrivals, ids)
        return replace(
            self,
            coordinates=taken(self.coordinates, ids),
            labels=labels,
            landmarks=None,
            placement=None,
            arrivals=arrivals,
        )

    def to_inner_product(
        self,
        *,
        unit: bool = False,
        direction: Literal["to", "from"] = "to",
    ) -> InnerProduct:
        """Vectors whose inner product ranks objects as D̂ does: for vector indexes and databases.

        Heights take part: they are added to D̂, which stays bilinear, so the ranking is exact.

        Parameters
        ----------
        unit : bool, default=False
            Whether all vectors have length one, with one more number each. Take it for HNSW
            graphs, which find almost nothing among vectors of different lengths, for inverted lists
            (IVF), and for indexes that know only cosines or Euclidean distances.
        direction : {"to", "from"}, default="to"
            Of a directed embedding: vectors of the arrivals, for queries by departures, or vectors
            of the departures, for queries by arrivals.

        Returns
        -------
        InnerProduct
            `vectors` of the objects for the database,
            `queries(coordinates)` for searches, and `sq_dissimilarities(scores, coordinates)` for
            D̂ from scores, which `to_distance` turns into distances.

        Warns
        -----
        NeucmdsWarning
            If scores in float32, as most indexes keep them, lose more than 1 % of the distances:
            in a curved embedding D̂ of far objects dwarfs that of near ones.
        """
        _, searched = self._sides(direction)
        index = InnerProduct(searched.coordinates, self.signs, unit)
        lost = 0.0
        if not self.form.is_flat:
            lost = index.single_precision_error(self.form)
        if lost > MOST_LOST:
            warnings.warn(
                f"distances from scores in float32 are off by {lost:.2g} of themselves on average; "
                "rank by scores, and compute distances from coordinates in float64.",
                NeucmdsWarning,
                stacklevel=2,
            )
        return index

    def to_distance(self, sq: Array) -> Array:
        """Return the distances that values of D̂ stand for, as from an index or a database.

        They are the roots of D̂, in a curved embedding g⁻¹(D̂); of D̂ below zero they are zero.
        """
        values = as_real(sq, "values of D̂")
        return self.form.to_distance(asarray_like(values, self.coordinates))

    def to_frame(self) -> Any:
        """Coordinates as a pandas DataFrame, with names of objects and axes (``axis2_neg``)."""
        from neucmds.interop import to_frame

        return to_frame(self)

    def to_skbio(self) -> Any:
        """Coordinates as scikit-bio's `OrdinationResults`; see `neucmds.interop.to_skbio`."""
        from neucmds.interop import to_skbio

        return to_skbio(self)

    def plot(self, color: Any = None, **options: Any) -> Any:
        """Draw the objects on two of their axes; see `neucmds.tools.plots.plot_coordinates`.

        Parameters
        ----------
        color : sequence of length n, optional
            A category or a number for each object.
        **options
            ``axes=(1, 2)``, ``names``, ``ellipses``, ``hulls``, ``spiders``, ``arrows``, ``title``,
            ``size="89mm"``, ``ax``, and more.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from neucmds import neuc_mds
        >>> emb = neuc_mds([[0, 1, 1], [1, 0, 4], [1, 4, 0]], 2)
        >>> emb.plot(names=False, axes=(2, 1)).get_xlabel()[:16]
        'axis 2, negative'
        """
        from neucmds.tools.plots import plot_coordinates

        return plot_coordinates(self, color, **options)

    def plot_shepard(self, D: Any, **options: Any) -> Any:
        """Draw the fitted dissimilarities against D; see `neucmds.tools.plots.plot_shepard`.

        Parameters
        ----------
        D : as for `neuc_mds`
            The embedded dissimilarities.
        **options
            ``squared``, ``symmetrize``, ``max_pairs``, ``random_state``, ``size``, ``ax``.

        Returns
        -------
        matplotlib Axes
        """
        from neucmds.tools.plots import plot_shepard

        return plot_shepard(D, self, **options)

    def report(self, path: AnyPath, D: Any = None, **options: Any) -> Path:
        """Write one HTML page to look at; see `neucmds.tools.report.write_report`.

        Parameters
        ----------
        path : path
        D : as for `neuc_mds`, optional
            The embedded dissimilarities, for the parts of the page that compare D̂ with D.
        **options
            ``metadata``, ``color_by``, ``title``, ``squared``, ``symmetrize``, ``weights``,
            ``missing``, ``random_state``, ``overwrite``.

        Returns
        -------
        Path

        Examples
        --------
        >>> import tempfile
        >>> from neucmds import neuc_mds
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = neuc_mds([[0, 1, 2], [1, 0, 1], [2, 1, 0]], 1).report(f"{folder}/line.html")
        ...     page.name
        'line.html'
        """
        from neucmds.tools.report import write_report

        return write_report(path, self, D, **options)

    def transform(
        self,
        new: Any = None,
        *,
        to: Any = None,
        from_: Any = None,
        weights: Any = None,
    ) -> Any:
        """Place new objects.

        Parameters
        ----------
        new : array or DataFrame of shape (m, n)
            Dissimilarities of the new objects to the fitted ones, or (m, L) to the `landmarks` if
            there are some; columns with names are matched with `labels`. On the scale of the fit:
            squared if and only if the fit had ``squared=True``. With ``missing="ignore"`` in the
            fit, NaN marks unknown ones; at least k + 1 per object must be known.
        to, from_ : array or DataFrame of shape (m, n), optional
            Of a directed embedding: dissimilarities of new objects to the fitted arrivals (`to`, or
            `new`), which place where they depart from, and from the fitted departures, which place
            where they are arrived at. A row for each new object in both.
        weights : array or DataFrame of shape (m, n), optional
            How much each dissimilarity counts; zero: not at all. Columns with names are matched
            with `labels`, rows with those of `new` if it is a DataFrame, too. Only ratios within a
            row matter.

        Returns
        -------
        array of shape (m, k)
            Of a directed embedding departures, or arrivals, or both as a tuple if `to` and `from_`
            are given.
        """
        if new is not None and to is not None:
            raise InputError(
                "new and to= are the same dissimilarities, and both are given; leave one out."
            )
        if from_ is not None and self.arrivals is None:
            raise InputError(
                "this embedding is symmetric, and from_= is for directed ones; pass "
                "dissimilarities as the first argument."
            )
        if new is None:
            new = to
        # Dissimilarities to arrivals place a departure, and those from departures an arrival.
        rows_of_side = [(self._targets, new), (self._sources, from_)]
        placed = [
            side._placed(rows, weights)
            for side, rows in rows_of_side
            if rows is not None
        ]
        if not placed:
            raise InputError(
                "there is nothing to place; pass dissimilarities to the fitted objects, or from_=, "
                "those from them."
            )
        if len(placed) == 1:
            return placed[0]
        return tuple(placed)

    def _placed(self, new: Any, weights: Any) -> Array:
        """Return coordinates of new objects, from dissimilarities (m, n) to those of this side."""
        if self.placement is None:
            raise InputError(
                "this embedding holds a part of the fitted objects, or no rule for new ones; call "
                "transform of the whole embedding."
            )
        if self.landmarks is not None:
            fitted = self.take(self.landmarks)
            fitted = replace(fitted, placement=self.placement)
            return fitted._placed(new, weights)
        weights = rows_ordered_as(weights, new, "rows of weights")
        new = ordered_by_name(
            new, self.labels, "columns of new objects", rows=False
        )
        rows = asarray_like(
            as_real(new, "new dissimilarities"), self.coordinates
        )
        check_shape(rows, self.n)
        check_gaps(rows, self.k, self.missing)
        self._warn_of_zeros(rows)
        if weights is not None:
            weights = new_weights(weights, rows, self.k, self.labels)
        sq_new = sq_rows(
            rows,
            self.coordinates,
            squared=self.squared,
            loss=self.loss,
            weights=weights,
        )
        placed = self.placement.place(sq_new, weights)
        return namespace(placed).astype(
            placed, self.coordinates.dtype, copy=False
        )

    def _warn_of_zeros(self, rows: Array) -> None:
        """Warn of a row that is zero for most objects, as one of edges instead of paths is.

        There is no warning if these objects are close to each other.
        """
        xp = namespace(rows)
        zeros = to_numpy(xp.sum(xp.astype(rows == 0, xp.int64), axis=1))
        for row in np.flatnonzero(2 * zeros > self.n).tolist():
            at_zero = to_numpy(rows[row, :]) == 0
            first = int(np.argmax(at_zero))
            center = self.coordinates[first : first + 1, :]
            d = to_numpy(self.form.d(center, self.coordinates))[0]
            apart = d[at_zero].max()
            if 2 * apart > d.max() > 0:
                warnings.warn(
                    f"new object {row} is at distance 0 from {at_zero.sum()} of {self.n} "
                    f"objects, which are up to {apart:.3g} apart in the fit; of a graph pass "
                    "lengths of paths, not edges.",
                    NeucmdsWarning,
                    stacklevel=4,
                )
                break

    def save(self, path: AnyPath | BinaryIO) -> None:
        """Write everything to one npz file, atomically and without pickle.

        Parameters
        ----------
        path : path or binary file
            A path appears once the file is complete.

        Examples
        --------
        >>> import tempfile
        >>> from neucmds import Embedding, neuc_mds
        >>> embedding = neuc_mds([[0, 1, 2], [1, 0, 1], [2, 1, 0]], 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     embedding.save(f"{folder}/line.npz")
        ...     Embedding.load(f"{folder}/line.npz").signature
        (1, 0)
        """
        if not isinstance(path, (str, PathLike)) and hasattr(path, "write"):
            saved.write(self, path)
            return
        with atomic_file(path) as file:
            saved.write(self, file)

    @classmethod
    def load(cls, path: AnyPath | BinaryIO) -> Embedding:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path or binary file
            A file is read from its beginning.

        Returns
        -------
        Embedding
            Its arrays are NumPy's, whatever library they were made in.

        Raises
        ------
        InputError
            If the file is not such an embedding, is damaged, or was written by a newer version.
        """
        return saved.read(cls, path)

    @property
    def unnamed(self) -> Embedding:
        """The same embedding without names: its objects are asked for by row number."""
        return replace(self, labels=None)

    @cached_property
    def _rows_by_name(self) -> dict[str, int]:
        names = self.labels or row_numbers(self.n)
        return {name: row for row, name in enumerate(names)}

    @cached_property
    def _integers_are_names(self) -> bool:
        return any(is_number(name) for name in self.labels or ())

    def _is_single(self, which: Any) -> bool:
        """Tell whether `which` is one object; a tuple may be its name."""
        if type(which) is tuple:
            return text_of(which) in self._rows_by_name
        return isinstance(which, (str, bytes)) or not hasattr(which, "__len__")

    def _row(self, which: Any) -> int:
        """Return the row of an object, by its name or row number."""
        is_integer = isinstance(which, (int, np.integer))
        if is_integer and not self._integers_are_names:
            if not -self.n <= which < self.n:
                raise InputError(f"there is no object {which} among {self.n}.")
            return int(which) % self.n
        name = text_of(which)
        row = self._rows_by_name.get(name)
        if row is None:
            names = self.labels or row_numbers(self.n)
            raise InputError(
                f"no object is called {name!r} (there are {examples(names)})."
            )
        return row

    def _rows(self, which: Any) -> Indices:
        """Return the rows of objects, in the shape in which these are given."""
        if self._is_single(which):
            return np.array(self._row(which))
        ids = ids_in(which, self._rows_by_name)
        if ids.dtype == bool and ids.shape == (self.n,):
            raise InputError(
                "distance takes names or numbers, not a mask; pass masks to dissimilarities."
            )
        if ids.dtype == bool:
            raise InputError(
                f"a mask has shape {ids.shape}; pass {self.n} values, or names."
            )
        if ids.dtype.kind not in "iu" or self._integers_are_names:
            rows = np.vectorize(self._row, otypes=[np.intp])
            return np.asarray(rows(ids.astype(object)))
        if ids.size:
            self._row(ids.min())
            self._row(ids.max())
        return np.asarray(ids % self.n, dtype=np.intp)

    def _as_points(self, points: Array, name: str) -> Array:
        """Return a user's coordinates (m, k), checked; `name` is theirs in messages."""
        array = asarray_like(as_real(points, name), self.coordinates)
        if array.ndim != 2 or array.shape[1] != self.k:
            raise InputError(
                f"{name} has shape {tuple(array.shape)}; expected (m, {self.k}): one row of "
                "coordinates for each object."
            )
        if not np.isfinite(to_numpy(array)).all():
            raise InputError(f"{name} hold NaN or infinity; drop these rows.")
        return array

    def _indices(self, which: Any) -> Indices:
        """Rows of the objects that a slice, a mask, names or numbers choose; None: all."""
        if which is None:
            return np.arange(self.n)
        if isinstance(which, slice):
            return np.arange(self.n)[which]
        if self._is_single(which):
            return np.array([self._row(which)])
        ids = ids_in(which, self._rows_by_name)
        if ids.dtype == bool:
            which = ordered_by_name(
                which, self.labels, "rows of the mask", rows=True
            )
            ids = ids_in(which)
            # `_rows` refuses a mask of another length.
            if ids.shape == (self.n,):
                return np.flatnonzero(ids)
        rows = self._rows(which)
        if rows.ndim != 1:
            raise InputError(
                f"objects have shape {rows.shape}; pass one flat list of them."
            )
        return rows


def refuse_directed(embedding: Embedding) -> None:
    """Refuse to lay one of two sets of points over another."""
    if embedding.arrivals is not None:
        raise InputError(
            "a directed embedding has departures and arrivals; compare one of them: "
            "neucmds.ecology.protest(a.coordinates, b.coordinates), or arrivals."
        )


def procrustes(
    a: Embedding, b: Embedding, *, scaling: bool = True
) -> Alignment:
    """Lay one embedding over another of the same objects, up to the isometries of the form.

    Coordinates are determined only up to O(p, q): rotations, reflections and, where signs differ,
    boosts that mix a positive with a negative coordinate. They all leave D̂ unchanged.

    Parameters
    ----------
    a, b : Embedding
        Objects are matched by name if both have names, those of one alone left out with a warning;
        otherwise by number. Where one has fewer coordinates of a sign, zeros stand for the others,
        as in vegan's ``procrustes``. Heights, which no isometry changes, are left out.
    scaling : bool, default=True
        Whether b may be multiplied by a constant.

    Returns
    -------
    Alignment
        With the `disparity` (for a signature (k, 0) that of `scipy.spatial.procrustes`) and the
        `coordinates` of b laid over those of a.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds, procrustes
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> D = np.abs(X[:, None] - X).sum(axis=2)
    >>> procrustes(neuc_mds(D, 3), neuc_mds(2 * D, 3)).disparity < 1e-12
    True
    """
    for embedding in (a, b):
        if not isinstance(embedding, Embedding):
            kind = type(embedding).__name__
            raise InputError(
                f"an embedding is expected, not of type {kind}; neucmds.ecology.protest compares "
                "coordinates without signs."
            )
        refuse_directed(embedding)
    if not any(map(min, a.signature, b.signature)):
        raise InputError(
            f"the signatures {a.signature} and {b.signature} share no sign, so no isometry maps "
            "one to the other; compare D̂: "
            "evaluate(a, b.dissimilarities(squared=True), squared=True)."
        )
    a_ids, b_ids = common_objects(a.labels, a.n, b.labels, b.n)
    signs = common_signs(to_numpy(a.signs), to_numpy(b.signs))
    a_order = columns_by_sign(to_numpy(a.signs), signs)
    b_order = columns_by_sign(to_numpy(b.signs), signs)
    x = centered_columns(to_numpy(a.coordinates)[a_ids], a_order)
    y = centered_columns(to_numpy(b.coordinates)[b_ids], b_order)
    alignment = align(x, y, signs, scaling)
    # Back from the common order of the signs to the columns of a and of b.
    columns_of_a = np.argsort(a_order)
    rows_of_b = np.argsort(b_order)
    return replace(
        alignment,
        coordinates=alignment.coordinates[:, columns_of_a],
        isometry=alignment.isometry[rows_of_b][:, columns_of_a],
        objects=a_ids,
    )
