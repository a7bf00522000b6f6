"""The metrics on features, by name.

Most metrics on vectors are a function of an inner product. Norms are two further columns, so that
``‖x‖² + ‖y‖² − 2x·y`` is one product. Squares are computed directly: arccos(g)² near g = 1 keeps
all digits, arccos(g) loses half of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import (
    PAIRWISE_BOOLEAN_FUNCTIONS,
    distance_metrics,
)

from neucmds.backend import arrays
from neucmds.backend.arrays import (
    Array,
    asarray_like,
    in_place,
    is_numpy,
    namespace,
    to_numpy,
)
from neucmds.backend.cuda_kernels import between
from neucmds.errors import InputError, option
from neucmds.problem.calls import Called
from neucmds.problem.files import one_line
from neucmds.problem.validation import tolerance, working_dtype

BlockFunction = Callable[[Array, Array], Array]
# Rows of which some dissimilarities are computed in both orders; pairs of a function.
CHECKED = 64
CHECKED_PAIRS = 32
# Dissimilarities of a block on a GPU: 1 GB in float64.
DEVICE_BLOCK = 130_000_000


@dataclass(frozen=True)
class FeatureRows:
    """Feature rows made ready for a metric, a function of inner products of `left` and `right`."""

    left: Array
    right: Array
    # One more number for each object.
    vector: Array | None = None

    def __getitem__(self, rows: Any) -> FeatureRows:
        if self.vector is None:
            vector = None
        else:
            vector = self.vector[rows]
        return FeatureRows(self.left[rows, :], self.right[rows, :], vector)

    def astype(self, dtype: Any) -> FeatureRows:
        """Round all of it."""
        xp = namespace(self.left)
        if self.vector is None:
            vector = None
        else:
            vector = xp.astype(self.vector, dtype)
        return FeatureRows(
            xp.astype(self.left, dtype), xp.astype(self.right, dtype), vector
        )


@dataclass(frozen=True)
class FittedMetric:
    """A metric and the fitted objects, which others are compared with."""

    name: str
    points: FeatureRows
    # Makes feature rows, the fitted ones or new ones, ready.
    prepare: Callable[[Array], FeatureRows]
    # All dissimilarities between two blocks of rows, or their squares if it is `inner`.
    compute: Callable[[FeatureRows, FeatureRows], Array]
    inner: bool = False
    # Whether dissimilarities are squared already.
    squared: bool = False
    # The user's function: of two blocks, which is then checked, or of two objects.
    function: Callable[..., Any] | None = None

    @classmethod
    def of(
        cls,
        metric: Any,
        features: Array,
        squared: bool = False,
        params: Any = None,
    ) -> FittedMetric:
        """Find a metric by its name, or take a function of two blocks of rows; keep the rows."""
        params = params or {}
        named = option("metric", metric)
        rows = FeatureRows(features, features)
        if callable(metric):
            name = getattr(metric, "__name__", "the metric")
            compute = partial(
                _on_blocks, partial(metric, **params) if params else metric
            )
            return cls(
                name,
                rows,
                _plain_rows,
                compute,
                squared=squared,
                function=metric,
            )
        if metric in INNER_METRICS:
            if squared:
                raise InputError(
                    f"{named} is squared inside; leave {option('squared', True)} out."
                )
            setting = _setting(metric, features, params)
            prepare = partial(
                PREPARED[metric], setting=setting, origin=_origin(features)
            )
            compute = partial(_inner_squares, metric, setting)
            return cls(named, prepare(features), prepare, compute, inner=True)
        if is_numpy(features) and metric in _named_elsewhere():
            fitted = fitted_params(metric, features, params)
            compute = partial(_on_blocks, partial(_pairwise, metric, fitted))
            return cls(named, rows, _plain_rows, compute, squared=squared)
        if not is_numpy(features) and metric in SUM_METRICS:
            if params:
                raise InputError(
                    f"{named} takes no further arguments, but {', '.join(params)}."
                )
            compute = partial(_on_blocks, partial(_summed, metric))
            return cls(named, rows, _plain_rows, compute, squared=squared)
        every = ", ".join(sorted({*INNER_METRICS, *SUM_METRICS}))
        more = ", ".join(
            sorted(_named_elsewhere() - {*INNER_METRICS, *SUM_METRICS})
        )
        raise InputError(
            f"{named} is unknown; known for every array library are {every}; for NumPy also "
            f"{more}; or pass a function of two blocks of rows."
        )

    @property
    def called(self) -> Called | None:
        """The user's function, if it is called pair by pair."""
        if isinstance(self.function, Called):
            return self.function
        return None

    def squares(self, rows: FeatureRows, cols: FeatureRows) -> Array:
        """Squared dissimilarities between all rows and all cols, in a new array."""
        if self.inner:
            return self.compute(rows, cols)
        made = self.dissimilarities(rows, cols)
        if self.squared:
            return made
        if self.function is None:
            made *= made
            return made
        return (
            made * made
        )  # what a user's function returns may be the user's own

    def dissimilarities(self, rows: FeatureRows, cols: FeatureRows) -> Array:
        """Dissimilarities between all rows and all cols, on the scale of the metric."""
        xp = namespace(rows.left)
        made = self.compute(rows, cols)
        if self.inner:
            return xp.sqrt(made)
        due = (int(rows.left.shape[0]), int(cols.right.shape[0]))
        if tuple(made.shape) != due:
            raise InputError(
                f"{self.name} returned shape {tuple(made.shape)} for blocks of {due[0]} and "
                f"{due[1]} rows; {due} is expected."
            )
        self._refuse_negative(made)
        return xp.astype(made, rows.left.dtype, copy=False)

    def _refuse_negative(self, made: Array) -> None:
        """Refuse negative dissimilarities of a user's function, unless they are squared."""
        if self.function is None or self.squared or 0 in made.shape:
            return
        lowest, _ = arrays.min_and_max(made)
        if lowest < 0:
            raise InputError(
                f"{self.name} gives a negative dissimilarity, {lowest:.4g}; pass "
                f"{option('squared', True)} if it returns squared ones."
            )

    def taking(self, new: Sequence[Any]) -> tuple[FittedMetric, Array]:
        """Return the metric with new objects of any kind, and the rows that number them."""
        called = self.called
        if called is None or called.items is None:
            raise InputError(
                "rows of numbers were fitted; pass new objects as numbers (m, d)."
            )
        known = replace(called, items=[*called.items, *new])
        rows = np.arange(
            len(called.items), len(called.items) + len(new), dtype=np.float64
        )
        return replace(
            self, compute=partial(_on_blocks, known), function=known
        ), rows[:, None]

    def squares_to(self, new: Array) -> Array:
        """Squared dissimilarities of new feature rows to the fitted ones."""
        return self.squares(self.prepare(new), self.points)

    def own_squares(self, new: Array, ids: Sequence[Any]) -> Array:
        """Squared dissimilarities of every new row to some of the fitted ones, one after another.

        On a device all are compared: that takes less time than to choose.
        """
        sizes = [len(some) for some in ids]
        if self.called is not None:
            rows = np.arange(len(ids)).repeat(sizes)
            made = self.paired(
                self.prepare(new), self.points, rows, np.concatenate(ids)
            )
            if self.squared:
                return made
            return made * made
        if is_numpy(new):
            ready = self.prepare(new)
            blocks = [
                self.squares(ready[i : i + 1], self.points[some])[0]
                for i, some in enumerate(ids)
            ]
            return np.concatenate(blocks)
        xp = namespace(new)
        parts = []
        for block in arrays.row_blocks(
            len(ids), int(self.points.left.shape[0]), DEVICE_BLOCK
        ):
            rows = np.arange(len(sizes[block])).repeat(sizes[block])
            columns = np.concatenate(ids[block])
            chosen = (
                asarray_like(rows, new, xp.int64),
                asarray_like(columns, new, xp.int64),
            )
            parts.append(self.squares_to(new[block, :])[chosen])
        return xp.concat(parts)

    def paired(
        self, rows: FeatureRows, cols: FeatureRows, i: Any, j: Any
    ) -> Array:
        """Dissimilarities by a user's function of listed pairs: row i of some with col j."""
        assert self.called is not None
        made = self.called.listed(rows.left, cols.right, i, j)
        self._refuse_negative(made)
        return made

    def between(self, new: Array) -> Array:
        """Dissimilarities of new feature rows to the fitted ones, on the scale of the metric."""
        return self.dissimilarities(self.prepare(new), self.points)

    def among(self) -> Array:
        """Dissimilarities of all fitted objects, on the scale of the metric."""
        if self.function is not None:
            self.refuse_asymmetry()
        made = self.dissimilarities(self.points, self.points)
        if not self.inner:
            return made
        # ‖x‖² + ‖x‖² − 2x·x is zero but for rounding, whose root is not small.
        xp = namespace(made)
        own = asarray_like(np.arange(made.shape[0]), made, dtype=xp.int64)
        return xp.where(
            own[:, None] == own[None, :], xp.zeros_like(made), made
        )

    def refuse_asymmetry(self) -> None:
        """Compare some pairs in both orders, since half of D is never computed."""
        if self.called is not None:
            refuse_calls(self.called, self.points.left)
            return
        some = min(int(self.points.left.shape[0]) // 2, CHECKED)
        first = self.points[:some]
        second = self.points[some : 2 * some]
        there = self.dissimilarities(first, second)
        refuse_undefined(
            there, "the metric", range(some), range(some, 2 * some)
        )
        refuse_asymmetry(there, self.dissimilarities(second, first))

    def kneighbors(self, new: Array, count: int) -> tuple[Array, Array]:
        """Return the dissimilarities of the nearest fitted rows, and which they are, in no order.

        All rows are compared with all where they lie.
        """
        xp = namespace(new)
        if arrays.on_cpu(new):
            elements = arrays.BLOCK_ELEMENTS
        else:
            elements = 2 * DEVICE_BLOCK
        parts = arrays.row_blocks(
            new.shape[0], self.points.left.shape[0], elements
        )
        nearest = [
            arrays.k_smallest(self.squares_to(new[part, :]), count)
            for part in parts
        ]
        squares, ids = (
            xp.concat(list(column)) for column in zip(*nearest, strict=True)
        )
        return xp.sqrt(squares), ids


def _plain_rows(features: Array) -> FeatureRows:
    return FeatureRows(features, features)


def _on_blocks(
    function: BlockFunction, rows: FeatureRows, cols: FeatureRows
) -> Array:
    return function(rows.left, cols.right)


def _inner_squares(
    metric: str, setting: Any, rows: FeatureRows, cols: FeatureRows
) -> Array:
    """One product, then the function."""
    inner = rows.left @ namespace(rows.left).matrix_transpose(cols.right)
    return INNER_METRICS[metric](inner, setting, rows, cols)


def _origin(features: Array) -> Array:
    """Return the mean: it drops out of x − y, and norms that cancel are smallest there."""
    xp = namespace(features)
    return xp.astype(
        xp.mean(xp.astype(features, xp.float64), axis=0), features.dtype
    )


def _setting(metric: str, features: Array, params: dict[str, Any]) -> Any:
    """Return the only parameter of a metric."""
    name, default = SETTINGS.get(metric, ("", None))
    for given in params:
        if given != name:
            raise InputError(
                f"{option('metric', metric)} does not take {given!r}."
            )
    value = params.get(name, default)
    if name == "gamma" and value is None:
        value = 1.0 / int(features.shape[1])
    if name == "model" and value not in ("poincare", "hyperboloid"):
        raise InputError(
            f"{option(name, value)} is unknown; choose poincare or hyperboloid."
        )
    if name in ("gamma", "power"):
        number = isinstance(value, (int, float, np.integer, np.floating))
        if not (number and 0 < value < math.inf):
            raise InputError(
                f"{option(name, value)} must be a positive number."
            )
    return value


def _unit_rows(features: Array, *, setting: Any, origin: Array) -> FeatureRows:
    """Scale every row to unit length."""
    xp = namespace(features)
    # Twice: the squares of very long or short rows leave the range of floats.
    largest = xp.max(xp.abs(features), axis=1, keepdims=True)
    if float(xp.min(largest)) == 0:
        empty = int(xp.argmin(largest))
        raise InputError(
            f"row {empty} of the features is zero: it has no direction; drop it."
        )
    scaled = features / largest
    unit = scaled / xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))
    return FeatureRows(unit, unit)


def _normed_rows(
    features: Array, *, setting: Any, origin: Array
) -> FeatureRows:
    """Let norms ride along as columns: (−2x, ‖x‖², 1) · (y, 1, ‖y‖²) = ‖x − y‖²."""
    xp = namespace(features)
    x = features - origin[: features.shape[1]]
    norms = xp.sum(x * x, axis=1, keepdims=True)
    ones = xp.ones_like(norms)
    left = xp.concat([-2.0 * x, norms, ones], axis=1)
    return FeatureRows(left, xp.concat([x, ones, norms], axis=1))


def _ball_rows(features: Array, *, setting: Any, origin: Array) -> FeatureRows:
    """Split centres from radii, the last column, which must not be negative."""
    xp = namespace(features)
    balls = option("metric", "balls")
    if int(features.shape[1]) < 2:
        raise InputError(
            f"{balls} needs centres and, as the last column, radii."
        )
    radii = features[:, -1]
    if float(xp.min(radii)) < 0:
        worst = int(xp.argmin(radii))
        raise InputError(
            f"radius {float(radii[worst]):.4g} of ball {worst} is negative; {balls} takes radii "
            "from the last column."
        )
    # A copy: a strided column would be read with the stride in every tile.
    rows = _normed_rows(features[:, :-1], setting=setting, origin=origin)
    return replace(rows, vector=xp.asarray(radii, copy=True))


def _lifted_rows(
    features: Array, *, setting: Any, origin: Array
) -> FeatureRows:
    """Lift to the hyperboloid x₀² − ‖x‖² = 1, where cosh of the distance is x₀y₀ − x·y.

    Of points given on it, only x, all columns but the first, is read.
    """
    xp = namespace(features)
    if setting == "hyperboloid":
        x = features[:, 1:]
        time = xp.sqrt(1.0 + xp.sum(x * x, axis=1, keepdims=True))
    else:
        sq = xp.sum(features * features, axis=1, keepdims=True)
        if float(xp.max(sq)) >= 1:
            worst = int(xp.argmax(sq))
            raise InputError(
                f"row {worst} has norm {math.sqrt(float(xp.max(sq))):.6g}; points of the "
                "Poincaré ball have norm below 1; pass "
                f"{option('model', 'hyperboloid')} if they are on it."
            )
        x = 2.0 * features / (1.0 - sq)
        time = (1.0 + sq) / (1.0 - sq)
    return FeatureRows(
        xp.concat([time, -x], axis=1), xp.concat([time, x], axis=1)
    )


def _kernel_distances(inner: Array, gamma: float, *_: FeatureRows) -> Array:
    """−2 expm1(−gamma ‖x − y‖²): no digits lost between near points."""
    sq = in_place("clip", inner, 0.0, math.inf)
    sq *= -gamma
    sq = in_place("expm1", sq)
    sq *= -2.0
    return sq


def _gaps(inner: Array, _: Any, rows: FeatureRows, cols: FeatureRows) -> Array:
    """max(0, gap)²."""
    gap = in_place("sqrt", in_place("clip", inner, 0.0, math.inf))
    gap -= rows.vector[:, None]  # type: ignore[index]
    gap -= cols.vector[None, :]  # type: ignore[index]
    return _square(in_place("clip", gap, 0.0, math.inf))


def _powers(inner: Array, power: float, *_: FeatureRows) -> Array:
    """(‖x − y‖²)^power, since that is the square of ‖x − y‖^power."""
    sq = in_place("clip", inner, 0.0, math.inf)
    if power == 1:
        return sq
    return in_place("pow", sq, float(power))


def _angles(inner: Array, *_: Any) -> Array:
    """Square the angle in radians."""
    return _square(in_place("acos", in_place("clip", inner, -1.0, 1.0)))


def _cosines(inner: Array, *_: Any) -> Array:
    """One minus the cosine similarity, as in scikit-learn and SciPy."""
    return _square(in_place("subtract", inner, 1.0))


def _hyperbolic(inner: Array, *_: Any) -> Array:
    """Distance in hyperbolic space of curvature −1."""
    return _square(in_place("acosh", in_place("clip", inner, 1.0, math.inf)))


# From inner products, the parameter, rows and columns: the squares, over the products.
INNER_METRICS: dict[str, Callable[..., Array]] = {
    "angular": _angles,
    "balls": _gaps,
    "cosine": _cosines,
    "euclidean": _powers,
    "hyperbolic": _hyperbolic,
    "rbf": _kernel_distances,
}
PREPARED: dict[str, Callable[..., FeatureRows]] = {
    "angular": _unit_rows,
    "balls": _ball_rows,
    "cosine": _unit_rows,
    "euclidean": _normed_rows,
    "hyperbolic": _lifted_rows,
    "rbf": _normed_rows,
}
# The only parameter of a metric and its default; gamma is 1 / (number of features).
SETTINGS: dict[str, tuple[str, Any]] = {
    "euclidean": ("power", 1.0),
    "hyperbolic": ("model", "poincare"),
    "rbf": ("gamma", None),
}


def _jaccard(x: Array, y: Array) -> Array:
    """1 − |x ∧ y| / |x ∨ y| of nonzero entries, and 0 where there are none."""
    xp = namespace(x)
    x = xp.astype(x != 0, x.dtype)
    y = xp.astype(y != 0, y.dtype)
    both = x @ xp.matrix_transpose(y)
    either = xp.sum(x, axis=1)[:, None] + xp.sum(y, axis=1)[None, :] - both
    return xp.where(
        either > 0, 1 - both / xp.where(either > 0, either, 1.0), 0.0
    )


# For arrays of any library; NumPy's go to SciPy, which is faster and has more of them.
_city_block = partial(arrays.minkowski, p=1.0)
SUM_METRICS: dict[str, BlockFunction] = {
    # |x + y| is the city-block distance to −y.
    "braycurtis": lambda x, y: _city_block(x, y) / _city_block(x, -y),
    "chebyshev": partial(arrays.minkowski, p=math.inf),
    "cityblock": _city_block,
    "hamming": lambda x, y: arrays.minkowski(x, y, 0.0) / int(x.shape[1]),
    "jaccard": _jaccard,
    "l1": _city_block,
    "manhattan": _city_block,
}


def _summed(metric: str, x: Array, y: Array) -> Array:
    """Sum over features in one kernel on a GPU, else by the array library."""
    made = between(
        "cityblock" if metric in ("l1", "manhattan") else metric, x, y
    )
    if made is None:
        return SUM_METRICS[metric](x, y)
    return made


def refuse_undefined(made: Array, named: str, rows: Any, cols: Any) -> None:
    """Raise for a dissimilarity that is NaN or infinite, and name its pair of objects."""
    xp = namespace(made)
    if bool(xp.all(xp.isfinite(made))):
        return
    i, j = np.argwhere(to_numpy(~xp.isfinite(made)))[0].tolist()
    raise InputError(
        f"{named} gives NaN or infinity, first for objects {rows[i]} and {cols[j]}; drop those "
        "objects, or change the metric."
    )


def refuse_asymmetry(
    there: Array,
    back: Array,
    advice: str = f"pass {option('symmetrize', True)} to average",
) -> None:
    """Raise for a metric whose dissimilarities of some pairs depend on the order of the two."""
    xp = namespace(there)
    if not there.shape[0]:
        return
    gap = float(xp.max(xp.abs(there - xp.matrix_transpose(back))))
    if gap > tolerance(
        float(xp.max(xp.abs(there))), arrays.eps(there.dtype, xp)
    ):
        raise InputError(
            f"the metric is not symmetric: the two orders of a pair differ by {gap:.2g}; {advice}."
        )


def refuse_own(among: Array) -> None:
    """Raise for a metric that does not give 0 to an object and itself."""
    xp = namespace(among)
    own = float(xp.max(xp.abs(xp.linalg.diagonal(among))))
    if own > tolerance(
        float(xp.max(xp.abs(among))), arrays.eps(among.dtype, xp)
    ):
        raise InputError(
            f"the metric gives an object and itself {own:.4g}, not 0; subtract it, or convert "
            "similarities."
        )


def refuse_calls(
    called: Called,
    rows: Array,
    advice: str = f"pass {option('symmetrize', True)} to average",
) -> None:
    """Refuse a function that is no dissimilarity on some pairs, by at most n calls."""
    n = len(rows)
    i = np.unique(
        np.linspace(0, n - 2, min(n // 3, CHECKED_PAIRS)).astype(int)
    )
    j = (i + n // 2) % n
    there, back, own = (
        called.listed(rows, rows, *ends).astype(rows.dtype)
        for ends in ((i, j), (j, i), (i, i))
    )
    if i.size:
        at = int(np.argmin(np.isfinite(there)))
    else:
        at = 0
    refuse_undefined(there[at : at + 1, None], called.__name__, i[at:], j[at:])
    among = np.full((i.size, i.size), there.max(initial=0.0))
    np.fill_diagonal(among, own)
    if i.size:
        refuse_own(among)
    refuse_asymmetry(there[:, None], back[None], advice)


def refuse_params(metric: Any) -> None:
    """Refuse arguments of a metric if D is given."""
    raise InputError(
        f"{option('metric_params')} are arguments of a metric on features, which "
        f"{option('metric', metric)} is not; leave them out."
    )


def known_everywhere(metric: Any) -> bool:
    """Tell whether a metric is computed with any array library, on its device."""
    return isinstance(metric, str) and (
        metric in INNER_METRICS or metric in SUM_METRICS
    )


def fitted_params(
    metric: Any, features: Array, params: dict[str, Any]
) -> dict[str, Any]:
    """Add parameters that a metric estimates from all features: variances or covariances."""
    if not (is_numpy(features) or arrays.is_dask(features)):
        return params
    if metric == "seuclidean" and "V" not in params:
        return {
            **params,
            "V": to_numpy(features.var(axis=0, ddof=1, dtype=np.float64)),
        }
    if metric == "mahalanobis" and not {"V", "VI"} & set(params):
        centered = features.astype(np.float64) - features.mean(
            axis=0, dtype=np.float64
        )
        covariance = to_numpy(centered.T @ centered) / (features.shape[0] - 1)
        try:
            return {**params, "VI": np.linalg.inv(np.atleast_2d(covariance)).T}
        except np.linalg.LinAlgError as error:
            raise InputError(
                f"{option('metric', metric)} needs features whose covariance can be inverted; drop "
                f"features that depend on others, or pass VI in {option('metric_params')}."
            ) from error
    return params


def _pairwise(
    metric: Any, params: dict[str, Any], x: Array, y: Array
) -> Array:
    """Compute a metric of SciPy or scikit-learn on two blocks of rows of NumPy arrays."""
    try:
        # Half the time of scikit-learn's.
        if metric in ("cityblock", "l1", "manhattan"):
            return cdist(x, y, "cityblock", **params)
        if metric in PAIRWISE_BOOLEAN_FUNCTIONS:
            x, y = (b if np.array_equal(b := a != 0, a) else a for a in (x, y))
        return pairwise_distances(x, y, metric=metric, **params)
    except (ValueError, TypeError) as problem:
        named = option("metric", metric)
        raise InputError(
            f"{named} cannot be used here: {one_line(problem)}."
        ) from problem


def _averaged(
    metric: Callable[..., Any], x: Array, y: Array, **params: Any
) -> Any:
    """Average a function of two rows, or of two blocks of rows, over both orders."""
    there = metric(x, y, **params)
    back = metric(y, x, **params)
    return (there + (back.T if getattr(back, "ndim", 0) == 2 else back)) / 2


@dataclass(frozen=True)
class BoundMetric:
    """A metric on features together with its further arguments.

    It is one of the registry, one that `sklearn.metrics.pairwise_distances` knows, or a callable,
    which takes two rows of NumPy features, and two blocks of rows of any other library.
    """

    metric: Any
    params: dict[str, Any]
    # Objects of any kind, of which a row of features has the number.
    items: Sequence[Any] | None = None

    @classmethod
    def of(
        cls,
        metric: Any,
        params: dict[str, Any] | None = None,
        *,
        symmetrize: bool = False,
    ) -> BoundMetric:
        """Bind further arguments to a metric, and average a function over both orders if asked to.

        One that is bound already keeps its arguments.
        """
        if isinstance(metric, BoundMetric):
            bound = metric
        else:
            bound = cls(metric, dict(params or {}))
        averaged = getattr(bound.metric, "func", None) is _averaged
        if symmetrize and callable(bound.metric) and not averaged:
            return replace(bound, metric=partial(_averaged, bound.metric))
        return bound

    def on_blocks(self, features: Array) -> tuple[Any, dict[str, Any]]:
        """Return the metric as a function of two blocks, and its remaining parameters."""
        if callable(self.metric) and is_numpy(features):
            return Called(self.metric, self.params, self.items), {}
        return self.metric, self.params

    def numbered(self, items: Sequence[Any]) -> tuple[Array, BoundMetric]:
        """Return features that stand for objects of any kind, and the metric on them."""
        if len(items) < 2:
            raise InputError(
                f"there are {len(items)} objects; at least 2 are needed."
            )
        return np.arange(len(items), dtype=np.float64)[:, None], replace(
            self, items=items
        )

    def fitted_to(
        self,
        features: Array,
        squared: bool = False,
        *,
        some: Array | None = None,
    ) -> FittedMetric:
        """Fit the metric to features, and keep these, or `some` of them, to compare others with."""
        if some is None:
            kept = features
        else:
            kept = some
        kept = namespace(kept).astype(kept, working_dtype(kept), copy=False)
        metric, params = self.on_blocks(kept)
        return FittedMetric.of(
            metric, kept, squared, fitted_params(metric, features, params)
        )


def _named_elsewhere() -> set[str]:
    """Names that scikit-learn knows itself, or hands to SciPy."""
    from sklearn.metrics.pairwise import _VALID_METRICS

    return (set(distance_metrics()) | set(_VALID_METRICS)) - {
        "precomputed",
        "wminkowski",
    }


def _square(array: Array) -> Array:
    array *= array
    return array
