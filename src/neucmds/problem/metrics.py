"""The metrics on features, by name.

Some metrics are a function of the inner product of rows that were made ready: `INNER_METRICS`. For
``‖x‖² + ‖y‖² − 2x·y`` to be one product, norms are two further columns. These metrics compute
squares directly: arccos(g)² near g = 1 keeps all digits, arccos(g) loses half of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, squareform
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS
from sklearn.neighbors import VALID_METRICS

from neucmds.backend import arrays
from neucmds.backend.arrays import (
    Array,
    in_place,
    index_like,
    is_numpy,
    namespace,
    to_numpy,
)
from neucmds.backend.cuda_kernels import between
from neucmds.backend.files import one_line
from neucmds.errors import InputError, option
from neucmds.problem.calls import call_pairs
from neucmds.problem.validation import tolerance, working_dtype

# Most pairs for which a user's function is checked.
CHECKED_PAIRS = 32


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric on features, its arguments, and the fitted objects that others are compared with.

    The metric is a name of the tables below, or for NumPy one that scikit-learn knows, or a user's
    function: of two rows of NumPy features, of two items, or of two blocks of rows of any other
    library.
    """

    metric: Any
    params: dict[str, Any]
    # Objects of any kind; a row of features is then a single number, the position of its item.
    items: Sequence[Any] | None = None
    # Whether the metric returns squared dissimilarities.
    squared: bool = False
    # The fitted rows, made ready by `prepare`; None before `fitted_to`.
    points: Array = None
    # The mean of the fitted rows, subtracted from all: x − y stays, and ‖x‖² loses fewer digits.
    origin: Array = None

    @classmethod
    def of(
        cls,
        metric: Any,
        params: dict[str, Any] | None = None,
        *,
        symmetrize: bool = False,
    ) -> Metric:
        """Return a user's metric with its arguments; a `Metric` keeps its own.

        With `symmetrize` a function is averaged over both orders of its arguments.
        """
        if isinstance(metric, Metric):
            bound = metric
        else:
            if isinstance(metric, str):
                # Before data are read as features: a graph is none, and the name a slip.
                _refuse_unknown(metric, KNOWN)
                metric = ALIASES.get(metric, metric)
            bound = cls(metric, dict(params or {}))
        is_averaged = getattr(bound.metric, "func", None) is _averaged
        if symmetrize and callable(bound.metric) and not is_averaged:
            return replace(bound, metric=partial(_averaged, bound.metric))
        if symmetrize and not callable(bound.metric):
            raise InputError(
                f"{option('symmetrize', True)} averages a D or a function, and {bound.name} is "
                "symmetric; leave it out."
            )
        return bound

    @property
    def name(self) -> str:
        """Its name in messages."""
        if callable(self.metric):
            return str(getattr(self.metric, "__name__", "the metric"))
        return option("metric", self.metric)

    @property
    def inner(self) -> bool:
        """Whether the metric is one of `INNER_METRICS`, which give squares."""
        return isinstance(self.metric, str) and self.metric in INNER_METRICS

    @property
    def by_pairs(self) -> bool:
        """Whether the metric is a user's function of two objects, called pair by pair."""
        return callable(self.metric) and is_numpy(self.points)

    def numbered(self, items: Sequence[Any]) -> tuple[Array, Metric]:
        """Return features (n, 1) that number objects of any kind, and the metric on these."""
        if len(items) < 2:
            raise InputError(
                f"there are {len(items)} objects; at least 2 are needed."
            )
        return np.arange(len(items), dtype=np.float64)[:, None], replace(
            self, items=items
        )

    def taking(self, new: Sequence[Any]) -> tuple[Metric, Array]:
        """Return the metric with new objects of any kind added, and the rows that number these."""
        if self.items is None:
            raise InputError(
                "rows of numbers were fitted; pass new objects as numbers (m, d)."
            )
        items = [*self.items, *new]
        rows = np.arange(len(self.items), len(items), dtype=np.float64)
        return replace(self, items=items), rows[:, None]

    def estimated(self, features: Array) -> Metric:
        """Return the metric with the arguments that SciPy takes from all features: V or VI."""
        # Metrics with these arguments are known for NumPy alone.
        on_cpu = is_numpy(features) or arrays.is_dask(features)
        is_needed = on_cpu and not {"V", "VI"} & set(self.params)
        if self.metric == "seuclidean" and is_needed:
            V = features.var(axis=0, ddof=1, dtype=np.float64)
            return replace(self, params={**self.params, "V": to_numpy(V)})
        if self.metric == "mahalanobis" and is_needed:
            covariance = to_numpy(np.cov(features, rowvar=False))
            try:
                VI = np.linalg.inv(np.atleast_2d(covariance))
            except np.linalg.LinAlgError as error:
                raise InputError(
                    f"{self.name} needs features whose covariance can be inverted; drop features "
                    f"that depend on others, or pass VI in {option('metric_params')}."
                ) from error
            return replace(self, params={**self.params, "VI": VI})
        return self

    def fitted_to(
        self,
        features: Array,
        squared: bool = False,
        *,
        points: Array | None = None,
    ) -> Metric:
        """Return the metric fitted to features: new rows are compared with these.

        `points`, some of the features, are compared with instead of all.
        """
        if points is None:
            points = features
        xp = namespace(points)
        points = xp.astype(points, working_dtype(points), copy=False)
        metric = replace(self.estimated(features), squared=squared)
        if not callable(self.metric):
            metric._refuse_misuse(points)
        if metric.inner:
            origin = xp.mean(xp.astype(points, xp.float64), axis=0)
            metric = replace(metric, origin=xp.astype(origin, points.dtype))
        return replace(metric, points=metric.prepare(points))

    def _refuse_misuse(self, features: Array) -> None:
        """Refuse a name unknown to the library of the features, and arguments it does not take."""
        known = {*INNER_METRICS, *SUM_METRICS}
        if is_numpy(features):
            known = KNOWN - {"precomputed", "shortest_path"}
        _refuse_unknown(self.metric, known)
        if self.inner and self.squared:
            raise InputError(
                f"{self.name} is squared inside; leave {option('squared', True)} out."
            )
        # SciPy and scikit-learn refuse arguments of theirs.
        if is_numpy(features) and not self.inner:
            return
        for name, value in self.params.items():
            if name != ARGUMENT_NAMES.get(self.metric):
                raise InputError(f"{self.name} does not take {name!r}.")
            if not isinstance(value, Real) or not 0 < float(value) < math.inf:
                raise InputError(
                    f"{option(name, value)} must be a positive number."
                )

    def prepare(self, features: Array) -> Array:
        """Return feature rows as `squares` takes them: checked, or as left factors of products."""
        if self.metric == "braycurtis" or self.metric in VEGAN_METRICS:
            lowest, _ = arrays.min_and_max(features)
            if lowest < 0:
                raise InputError(
                    f"{self.name} takes abundances, but the lowest is {lowest:.4g}; drop or repair "
                    "negative ones."
                )
        if self.inner:
            return ROW_MAKERS[self.metric](features, self)
        return features

    def squares(self, rows: Array, cols: Array) -> Array:
        """Squared dissimilarities between all rows and all cols, in a new array.

        Here and below rows and cols were made ready by `prepare`.
        """
        if self.inner:
            products = rows @ _right_factors(cols, self.metric).T
            return INNER_METRICS[self.metric](
                products, self.params, rows, cols
            )
        values = self.dissimilarities(rows, cols)
        if self.squared:
            return values
        # An array that a user's function returns may be in use elsewhere.
        if callable(self.metric):
            return values * values
        return _square(values)

    def dissimilarities(self, rows: Array, cols: Array) -> Array:
        """Dissimilarities between all rows and all cols, on the scale of the metric."""
        xp = namespace(rows)
        values: Any
        if self.inner:
            return xp.sqrt(self.squares(rows, cols))
        if self.by_pairs and np.array_equal(rows, cols):
            # Among the same objects each pair is called once.
            i, j = np.triu_indices(len(rows), 1)
            values = squareform(self.paired(rows, rows, i, j), checks=False)
        elif self.by_pairs:
            i, j = np.indices((len(rows), len(cols))).reshape(2, -1)
            values = self.paired(rows, cols, i, j).reshape(len(rows), -1)
        elif callable(self.metric):
            values = self.metric(rows, cols, **self.params)
        elif is_numpy(rows):
            values = _pairwise(self.metric, self.params, rows, cols)
        else:
            # In one kernel on a GPU, else by the array library.
            values = between(self.metric, rows, cols)
            if values is None:
                values = SUM_METRICS[self.metric](rows, cols)
        expected = (rows.shape[0], cols.shape[0])
        if tuple(values.shape) != expected:
            raise InputError(
                f"{self.name} returned shape {tuple(values.shape)} for blocks of {expected[0]} and "
                f"{expected[1]} rows; {expected} is expected."
            )
        self._refuse_negative(values)
        return xp.astype(values, rows.dtype, copy=False)

    def _refuse_negative(self, values: Array) -> None:
        """Refuse negative dissimilarities of a user's function, unless they are squared."""
        if not callable(self.metric) or self.squared or 0 in values.shape:
            return
        lowest, _ = arrays.min_and_max(values)
        if lowest < 0:
            raise InputError(
                f"{self.name} gives a negative dissimilarity, {lowest:.4g}; pass "
                f"{option('squared', True)} if it returns squared ones."
            )

    def paired(self, rows: Array, cols: Array, i: Any, j: Any) -> Array:
        """Dissimilarities of rows[i] and cols[j], a vector, by a user's function."""
        if not self.by_pairs:
            # A function of blocks compares all rows with all columns: for few pairs.
            xp = namespace(rows)
            block = self.dissimilarities(
                xp.take(rows, i, axis=0), xp.take(cols, j, axis=0)
            )
            return xp.linalg.diagonal(block)
        function = partial(self.metric, **self.params)
        x = self._objects(rows)
        y = self._objects(cols)
        values = call_pairs(function, x, y, i, j, self.name)
        self._refuse_negative(values)
        return values

    def _objects(self, rows: Array) -> list[Any]:
        """Return what the user's function takes for each row."""
        if self.items is None:
            return list(rows)
        return [self.items[int(number)] for number in rows[:, 0]]

    def squares_to(self, new: Array) -> Array:
        """Squared dissimilarities of new feature rows to the fitted ones."""
        return self.squares(self.prepare(new), self.points)

    def listed_squares_to(self, new: Array, ids: Sequence[Any]) -> Array:
        """Squared dissimilarities of each new row i to the fitted rows ids[i], all in one vector.

        On a device rows are compared with all fitted ones: to choose before takes more time.
        """
        sizes = [len(row_ids) for row_ids in ids]
        ready = self.prepare(new)
        if self.by_pairs:
            rows = np.arange(len(ids)).repeat(sizes)
            values = self.paired(ready, self.points, rows, np.concatenate(ids))
            if self.squared:
                return values
            return values * values
        if is_numpy(new):
            blocks = [
                self.squares(ready[i : i + 1], self.points[row_ids])[0]
                for i, row_ids in enumerate(ids)
            ]
            return np.concatenate(blocks)
        parts = []
        for block in arrays.row_blocks(
            len(ids), self.points.shape[0], arrays.DEVICE_ELEMENTS
        ):
            rows = np.arange(len(sizes[block])).repeat(sizes[block])
            columns = np.concatenate(ids[block])
            squares = self.squares(ready[block, :], self.points)
            parts.append(
                squares[index_like(rows, new), index_like(columns, new)]
            )
        return namespace(new).concat(parts)

    def between(self, new: Array) -> Array:
        """Dissimilarities of new feature rows to the fitted ones, on the scale of the metric."""
        return self.dissimilarities(self.prepare(new), self.points)

    def among(self, directed: bool = False) -> Array:
        """Dissimilarities among all fitted objects, on the scale of the metric.

        If `directed`, a user's function is called for both orders of every pair; otherwise a
        function that is not symmetric is refused.
        """
        if directed and self.by_pairs:
            n = len(self.points)
            i, j = np.nonzero(~np.eye(n, dtype=bool))
            values = np.zeros((n, n))
            values[i, j] = self.paired(self.points, self.points, i, j)
            return values
        if not directed:
            self.refuse_function()
        values = self.dissimilarities(self.points, self.points)
        if not self.inner:
            return values
        # On the diagonal ‖x‖² + ‖x‖² − 2x·x is zero but for rounding, whose root is not small.
        ids = index_like(np.arange(values.shape[0]), values)
        return namespace(values).where(ids[:, None] == ids, 0.0, values)

    def refuse_function(
        self,
        advice: str = f"pass {option('symmetrize', True)} to average; neuc_mds with "
        f"{option('directed', True)} keeps both orders",
    ) -> int:
        """Refuse a user's function that is no dissimilarity; return how often it was called."""
        n = self.points.shape[0]
        if not callable(self.metric) or n < 3:
            return 0
        count = min(n // 3, CHECKED_PAIRS)
        i = np.unique(np.linspace(0, n - 2, count).astype(int))
        j = (i + n // 2) % n
        first, second = (index_like(ends, self.points) for ends in (i, j))
        there, back, to_itself = (
            to_numpy(self.paired(self.points, self.points, *ends))
            for ends in ((first, second), (second, first), (first, first))
        )
        refuse_undefined(there, self.name, i, j)
        precision = arrays.eps(self.points.dtype, namespace(self.points))
        rounding = tolerance(float(np.abs(there).max()), precision)
        gap = np.abs(there - back).max()
        if gap > rounding:
            raise InputError(
                f"the metric is not symmetric: the two orders of a pair differ by {gap:.2g}; "
                f"{advice}."
            )
        # A function may compute in float32, whatever the features are.
        single = tolerance(float(np.abs(there).max()), arrays.eps(np.float32))
        largest = np.abs(to_itself).max()
        if largest > single:
            raise InputError(
                f"the metric gives an object and itself {largest:.4g}, not 0; subtract it, or "
                "convert similarities."
            )
        return 3 * i.size

    def kneighbors(self, new: Array, count: int) -> tuple[Array, Array]:
        """Return the dissimilarities of the nearest fitted rows and their numbers, in no order.

        All rows are compared with all, on the device of the fitted ones.
        """
        xp = namespace(new)
        elements = arrays.block_elements(new, arrays.BLOCK_ELEMENTS)
        parts = arrays.row_blocks(new.shape[0], self.points.shape[0], elements)
        nearest = [
            arrays.k_smallest(self.squares_to(new[part, :]), count)
            for part in parts
        ]
        squares = xp.concat([part_squares for part_squares, _ in nearest])
        ids = xp.concat([part_ids for _, part_ids in nearest])
        return xp.sqrt(squares), ids


def _unit_rows(features: Array, _: Metric) -> Array:
    """Scale every row to unit length."""
    xp = namespace(features)
    # First to a largest entry of 1: squares of very long or short rows leave the range of floats.
    largest = xp.max(xp.abs(features), axis=1, keepdims=True)
    if float(xp.min(largest)) == 0:
        empty = int(xp.argmin(largest))
        raise InputError(
            f"row {empty} of the features is zero: it has no direction; drop it."
        )
    scaled = features / largest
    return scaled / xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))


def _normed_rows(features: Array, metric: Metric) -> Array:
    """Return rows (x, ‖x‖², 1); their product with right factors (−2y, 1, ‖y‖²) is ‖x − y‖²."""
    xp = namespace(features)
    # The origin of balls has a radius, too.
    x = features - metric.origin[: features.shape[1]]
    norms = xp.sum(x * x, axis=1, keepdims=True)
    return xp.concat([x, norms, xp.ones_like(norms)], axis=1)


def _ball_rows(features: Array, metric: Metric) -> Array:
    """Return the rows of the centres and, as in the features, radii in the last column."""
    xp = namespace(features)
    if features.shape[1] < 2:
        raise InputError(
            f"{metric.name} needs centres and, as the last column, radii."
        )
    radii = features[:, -1:]
    if float(xp.min(radii)) < 0:
        worst = int(xp.argmin(radii))
        raise InputError(
            f"radius {float(radii[worst, 0]):.4g} of ball {worst} is negative; {metric.name} takes "
            "radii from the last column."
        )
    return xp.concat([_normed_rows(features[:, :-1], metric), radii], axis=1)


def _lifted_rows(features: Array, _: Metric) -> Array:
    """Lift to the hyperboloid x₀² − ‖x‖² = 1, where cosh of the distance is x₀y₀ − x·y."""
    xp = namespace(features)
    sq = xp.sum(features * features, axis=1, keepdims=True)
    if float(xp.max(sq)) >= 1:
        worst = int(xp.argmax(sq))
        raise InputError(
            f"row {worst} has norm {math.sqrt(float(xp.max(sq))):.6g}; points of the "
            "Poincaré ball have norm below 1."
        )
    return xp.concat([1.0 + sq, 2.0 * features], axis=1) / (1.0 - sq)


def _right_factors(rows: Array, metric: str) -> Array:
    """Return what rows are multiplied with, for rows that were made ready themselves."""
    xp = namespace(rows)
    if metric in ("angular", "cosine"):
        return rows
    if metric == "hyperbolic":
        return xp.concat([rows[:, :1], -rows[:, 1:]], axis=1)
    radii = rows[:, :0]
    if metric == "balls":
        radii = rows[:, -1:]
        rows = rows[:, :-1]
    y = rows[:, :-2]
    norms = rows[:, -2:-1]
    ones = rows[:, -1:]
    # Radii are no part of the product: `_gaps` subtracts them.
    return xp.concat([-2.0 * y, ones, norms, 0.0 * radii], axis=1)


def _kernel_distances(
    inner: Array, params: dict[str, Any], rows: Array, _: Array
) -> Array:
    """2 − 2 exp(−gamma ‖x − y‖²), as −2 expm1(…): near points lose no digits."""
    # Without the norm and the one.
    n_features = rows.shape[1] - 2
    sq = in_place("clip", inner, 0.0, math.inf)
    sq *= -params.get("gamma", 1 / n_features)
    sq = in_place("expm1", sq)
    sq *= -2.0
    return sq


def _gaps(inner: Array, _: dict[str, Any], rows: Array, cols: Array) -> Array:
    """max(0, ‖x − y‖ − r_x − r_y)²: the gap between two balls."""
    gap = in_place("sqrt", in_place("clip", inner, 0.0, math.inf))
    gap -= rows[:, -1:]
    gap -= arrays.contiguous(cols[:, -1])[None, :]
    return _square(in_place("clip", gap, 0.0, math.inf))


def _powers(inner: Array, params: dict[str, Any], *_: Array) -> Array:
    """(‖x − y‖²)^power, since that is the square of ‖x − y‖^power."""
    sq = in_place("clip", inner, 0.0, math.inf)
    power = float(params.get("power", 1))
    if power == 1:
        return sq
    return in_place("pow", sq, power)


def _angles(inner: Array, *_: Any) -> Array:
    """Square the angle in radians."""
    return _square(in_place("acos", in_place("clip", inner, -1.0, 1.0)))


def _cosines(inner: Array, *_: Any) -> Array:
    """(1 − g)² of the cosine similarity g; the distance is 1 − g, as in scikit-learn and SciPy."""
    return _square(in_place("subtract", inner, 1.0))


def _hyperbolic(inner: Array, *_: Any) -> Array:
    """Square the distance in hyperbolic space of curvature −1."""
    return _square(in_place("acosh", in_place("clip", inner, 1.0, math.inf)))


# f(inner products, arguments, rows, cols) → squared dissimilarities; the products are overwritten.
INNER_METRICS: dict[str, Callable[..., Array]] = {
    "angular": _angles,
    "balls": _gaps,
    "cosine": _cosines,
    "euclidean": _powers,
    "hyperbolic": _hyperbolic,
    "rbf": _kernel_distances,
}
# Features → rows whose products with `_right_factors` are the inner products.
ROW_MAKERS: dict[str, Callable[[Array, Metric], Array]] = {
    "angular": _unit_rows,
    "balls": _ball_rows,
    "cosine": _unit_rows,
    "euclidean": _normed_rows,
    "hyperbolic": _lifted_rows,
    "rbf": _normed_rows,
}
# The one argument that a metric takes, if any.
ARGUMENT_NAMES = {"euclidean": "power", "rbf": "gamma"}


def _both_and_either(x: Array, y: Array) -> tuple[Array, Array]:
    """Count the features that are nonzero in both of two rows, and those in one or both."""
    xp = namespace(x)
    x = xp.astype(x != 0, x.dtype)
    y = xp.astype(y != 0, y.dtype)
    both = x @ y.T
    either = xp.sum(x, axis=1)[:, None] + xp.sum(y, axis=1)[None, :] - both
    return both, either


def _jaccard(x: Array, y: Array) -> Array:
    """1 − |x ∧ y| / |x ∨ y| of nonzero entries, and 0 where there are none."""
    xp = namespace(x)
    both, either = _both_and_either(x, y)
    return xp.where(
        either > 0, 1 - both / xp.where(either > 0, either, 1.0), 0.0
    )


_city_block = partial(arrays.minkowski, p=1.0)
# Metrics for arrays of any library but NumPy, whose go to SciPy: it is faster and has more.
SUM_METRICS: dict[str, Callable[[Array, Array], Array]] = {
    # |x + y| is the city-block distance to −y.
    "braycurtis": lambda x, y: _city_block(x, y) / _city_block(x, -y),
    "chebyshev": partial(arrays.minkowski, p=math.inf),
    "cityblock": _city_block,
    # The share of features that differ.
    "hamming": lambda x, y: arrays.minkowski(x, y, 0) / x.shape[1],
    "jaccard": _jaccard,
}


def _vegan_canberra(x: Array, y: Array) -> Array:
    """Canberra, divided by the number of features that are nonzero in one or both rows."""
    _, either = _both_and_either(x, y)
    return cdist(x, y, "canberra") / np.maximum(either, 1)


def _vegan_jaccard(x: Array, y: Array) -> Array:
    """Jaccard of abundances (Ružička): 1 − Σ min(x, y) / Σ max(x, y)."""
    bray = cdist(x, y, "braycurtis")
    return 2 * bray / (1 + bray)


# Of abundances in NumPy arrays; names that vegan gives other formulas than SciPy.
VEGAN_METRICS: dict[str, Callable[[Array, Array], Array]] = {
    "vegan_canberra": _vegan_canberra,
    "vegan_jaccard": _vegan_jaccard,
}
ALIASES = {"bray": "braycurtis", "l1": "cityblock", "manhattan": "cityblock"}
# All names, of features in NumPy arrays, of D ("precomputed") and of graphs.
KNOWN = {
    *INNER_METRICS,
    *SUM_METRICS,
    *VALID_METRICS["brute"],
    *VEGAN_METRICS,
    *ALIASES,
    "shortest_path",
}


def _refuse_unknown(metric: Any, known: Collection[str]) -> None:
    """Refuse a metric that is not one of the known names."""
    if metric not in known:
        raise InputError(
            f"{option('metric', metric)} is unknown; known are {', '.join(sorted(known))}; or pass "
            "a function."
        )


def _pairwise(
    metric: Any, params: dict[str, Any], x: Array, y: Array
) -> Array:
    """Compute a metric of SciPy, scikit-learn or vegan on two blocks of rows of NumPy arrays."""
    try:
        # SciPy's takes half the time of scikit-learn's.
        if metric == "cityblock":
            return cdist(x, y, "cityblock", **params)
        if metric in VEGAN_METRICS:
            return VEGAN_METRICS[metric](x, y, **params)
        if metric in PAIRWISE_BOOLEAN_FUNCTIONS:
            x = x != 0
            y = y != 0
        return pairwise_distances(x, y, metric=metric, **params)
    except (ValueError, TypeError) as problem:
        # The message of SciPy is the signature of its function in C++.
        if params and isinstance(problem, TypeError):
            values = ", ".join(
                f"{name}={value!r}" for name, value in params.items()
            )
            raise InputError(
                f"{option('metric', metric)} cannot be used here: it does not take {values}."
            ) from problem
        raise InputError(
            f"{option('metric', metric)} cannot be used here: {one_line(problem)}."
        ) from problem


def _averaged(
    metric: Callable[..., Any], x: Array, y: Array, **params: Any
) -> Any:
    """Average a function of two rows, or of two blocks of rows, over both orders."""
    there = metric(x, y, **params)
    back = metric(y, x, **params)
    if getattr(back, "ndim", 0) == 2:
        back = back.T
    return (there + back) / 2


def refuse_undefined(values: Array, name: str, rows: Any, cols: Any) -> None:
    """Raise for a dissimilarity that is NaN or infinite, and name its pair of objects.

    `values` are (n_rows, n_cols), or a vector of rows[i] and cols[i].
    """
    xp = namespace(values)
    if bool(xp.all(xp.isfinite(values))):
        return
    first = np.argwhere(to_numpy(~xp.isfinite(values)))[0]
    fault = "NaN or infinity"
    # Values may be squares, of numbers that are finite.
    if not bool(xp.any(xp.isnan(values))):
        fault = "infinity, or numbers whose squares are infinite"
    raise InputError(
        f"{name} gives {fault}, first for objects {rows[first[0]]} and {cols[first[-1]]}; drop "
        "those objects (rows of zeros alone have no Bray–Curtis dissimilarity), divide by a "
        "constant if numbers overflow, or change the metric."
    )


def refuse_params(metric: Any) -> None:
    """Refuse `metric_params` where X holds dissimilarities."""
    raise InputError(
        f"{option('metric_params')} are arguments of a metric on features, which "
        f"{option('metric', metric)} is not; leave them out."
    )


def known_everywhere(metric: Any) -> bool:
    """Tell whether a metric is computed with any array library, on its device."""
    metric = Metric.of(metric).metric
    return isinstance(metric, str) and (
        metric in INNER_METRICS or metric in SUM_METRICS
    )


def _square(array: Array) -> Array:
    """Square an array in place, and return it."""
    array *= array
    return array
