"""The metrics on features, by name.

Most metrics on vectors are a function of an inner product. Norms are two further columns, so that
``‖x‖² + ‖y‖² − 2x·y`` is one product. Squares are computed directly: arccos(g)² near g = 1 keeps
all digits, arccos(g) loses half of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS, distance_metrics

from neucmds.backend import arrays
from neucmds.backend.arrays import Array, asarray_like, in_place, is_numpy, namespace, to_numpy
from neucmds.backend.cuda_kernels import between
from neucmds.errors import InputError, option
from neucmds.problem.calls import Called
from neucmds.problem.files import one_line
from neucmds.problem.validation import tolerance, working_dtype

BlockFunction = Callable[[Array, Array], Array]
# Rows whose dissimilarities to as many others are computed in both orders; pairs of a function.
CHECKED, CHECKED_PAIRS = 64, 32
# Dissimilarities of a block on a GPU: 1 GB in float64.
DEVICE_BLOCK = 2**27


@dataclass(frozen=True)
class FeatureRows:
    """Feature rows made ready for a metric, a function of inner products of `left` and `right`."""

    left: Array
    right: Array
    # One more number for each object.
    vector: Array | None = None

    def __getitem__(self, rows: Any) -> FeatureRows:
        vector = None if self.vector is None else self.vector[rows]
        return FeatureRows(self.left[rows, :], self.right[rows, :], vector)

    def astype(self, dtype: Any) -> FeatureRows:
        """Round all of it."""
        xp = namespace(self.left)
        vector = None if self.vector is None else xp.astype(self.vector, dtype)
        return FeatureRows(xp.astype(self.left, dtype), xp.astype(self.right, dtype), vector)


class PairMetric(ABC):
    """A dissimilarity between feature rows, fitted to the features it will be used on."""

    name, squared = "the metric", False
    # Whether its results are checked: those of a user's function.
    checked = False

    @abstractmethod
    def prepare(self, features: Array) -> FeatureRows:
        """Make feature rows, the fitted ones or new ones, ready."""

    @abstractmethod
    def squares(self, rows: FeatureRows, cols: FeatureRows) -> Array:
        """Return squared dissimilarities between all rows and all cols, in a new array."""

    def dissimilarities(self, rows: FeatureRows, cols: FeatureRows) -> Array:
        """Return dissimilarities between all rows and all cols, on the scale of the metric."""
        return namespace(rows.left).sqrt(self.squares(rows, cols))

    def refuse_negative(self, made: Array) -> None:
        """Refuse negative dissimilarities of a user's function, unless they are squared."""
        if 0 in made.shape:
            return
        if self.checked and not self.squared and (lowest := arrays.min_and_max(made)[0]) < 0:
            raise InputError(
                f"{self.name} gives a negative dissimilarity, {lowest:.4g}; pass "
                f"{option('squared', True)} if it returns squared ones."
            )


@dataclass(frozen=True)
class FittedMetric:
    """A metric and the fitted objects, which others are compared with."""

    metric: PairMetric
    points: FeatureRows

    @classmethod
    def of(
        cls, metric: Any, features: Array, squared: bool = False, params: Any = None
    ) -> FittedMetric:
        """Fit a metric to features, and keep these."""
        found = fit_metric(metric, features, squared, dict(params or {}))
        return cls(found, found.prepare(features))

    @property
    def called(self) -> Called | None:
        """The user's function, if it is called pair by pair."""
        function = getattr(self.metric, "function", None)
        return function if isinstance(function, Called) else None

    def taking(self, new: Sequence[Any]) -> tuple[FittedMetric, Array]:
        """Return the metric with new objects of any kind, and the rows that number them."""
        called = self.called
        if called is None or called.items is None:
            raise InputError("rows of numbers were fitted; pass new objects as numbers (m, d).")
        known = replace(called, items=[*called.items, *new])
        rows = np.arange(len(called.items), len(called.items) + len(new), dtype=np.float64)
        metric = BlockMetric(known, known.__name__, self.metric.squared, checked=True)
        return replace(self, metric=metric), rows[:, None]

    def squares(self, new: Array) -> Array:
        """Squared dissimilarities of new feature rows to the fitted ones."""
        return self.metric.squares(self.metric.prepare(new), self.points)

    def own_squares(self, new: Array, ids: Sequence[Any]) -> Array:
        """Squared dissimilarities of every new row to some of the fitted ones, one after another.

        On a device all are compared: that takes less time than to choose.
        """
        if self.called is not None:
            at = np.arange(len(ids)).repeat([len(some) for some in ids]), np.concatenate(ids)
            made = self.paired(self.metric.prepare(new), self.points, *at)
            return made if self.metric.squared else made * made
        if is_numpy(new):
            ready, squares = self.metric.prepare(new), self.metric.squares
            own = (squares(ready[i : i + 1], self.points[some]) for i, some in enumerate(ids))
            return np.concatenate([row[0] for row in own])
        xp, found = namespace(new), []
        for rows in arrays.row_blocks(len(ids), int(self.points.left.shape[0]), DEVICE_BLOCK):
            sizes = [len(some) for some in ids[rows]]
            at = np.arange(len(sizes)).repeat(sizes), np.concatenate(ids[rows])
            found.append(
                self.squares(new[rows, :])[tuple(asarray_like(i, new, xp.int64) for i in at)]
            )
        return xp.concat(found)

    def paired(self, rows: FeatureRows, cols: FeatureRows, i: Any, j: Any) -> Array:
        """Dissimilarities by a user's function of listed pairs: row i of some with col j."""
        assert self.called is not None
        made = self.called.listed(rows.left, cols.right, i, j)
        self.metric.refuse_negative(made)
        return made

    def between(self, new: Array) -> Array:
        """Dissimilarities of new feature rows to the fitted ones, on the scale of the metric."""
        return self.metric.dissimilarities(self.metric.prepare(new), self.points)

    def among(self) -> Array:
        """Dissimilarities of all fitted objects, on the scale of the metric."""
        if self.metric.checked:
            self.refuse_asymmetry()
        made = self.metric.dissimilarities(self.points, self.points)
        if not isinstance(self.metric, InnerMetric):
            return made
        # ‖x‖² + ‖x‖² − 2x·x is zero but for rounding, whose root is not small.
        xp = namespace(made)
        own = asarray_like(np.arange(made.shape[0]), made, dtype=xp.int64)
        return xp.where(own[:, None] == own[None, :], xp.zeros_like(made), made)

    def refuse_asymmetry(self) -> None:
        """Compare some pairs in both orders, since half of D is never computed."""
        if self.called is not None:
            refuse_calls(self.called, self.points.left)
            return
        some = min(int(self.points.left.shape[0]) // 2, CHECKED)
        first, second = self.points[:some], self.points[some : 2 * some]
        there = self.metric.dissimilarities(first, second)
        refuse_undefined(there, "the metric", range(some), range(some, 2 * some))
        refuse_asymmetry(there, self.metric.dissimilarities(second, first))


class InnerMetric(PairMetric):
    """A squared dissimilarity that is a function of inner products, entry by entry."""

    def __init__(self, kind: str, features: Array, params: dict[str, Any]) -> None:
        self.kind, xp = kind, namespace(features)
        for name in params:
            if name != self.formula.parameter:
                raise InputError(f"{option('metric', kind)} does not take {name!r}.")
        self.setting = params.get(self.formula.parameter, self.formula.default)
        if self.formula.parameter == "gamma" and self.setting is None:
            self.setting = 1.0 / int(features.shape[1])
        self.formula.check(self.formula.parameter, self.setting)
        if self.formula.prepare in (_normed_rows, _ball_rows):
            # The origin drops out of x − y; at the mean, the norms that cancel are smallest.
            means = xp.mean(xp.astype(features, xp.float64), axis=0)
            self.origin = xp.astype(means, features.dtype)

    @property
    def formula(self) -> Formula:
        """How it is computed."""
        return INNER_METRICS[self.kind]

    def prepare(self, features: Array) -> FeatureRows:
        """Make feature rows, the fitted ones or new ones, ready."""
        return self.formula.prepare(features, self)

    def squares(self, rows: FeatureRows, cols: FeatureRows) -> Array:
        """One product, then the function."""
        inner = rows.left @ namespace(rows.left).matrix_transpose(cols.right)
        return self.formula.finish(inner, self.setting, rows, cols)


def _unit_rows(features: Array, metric: InnerMetric) -> FeatureRows:
    """Scale every row to unit length."""
    xp = namespace(features)
    # Twice: the squares of very long or short rows leave the range of floats.
    largest = xp.max(xp.abs(features), axis=1, keepdims=True)
    if float(xp.min(largest)) == 0:
        empty = int(xp.argmin(largest))
        raise InputError(f"row {empty} of the features is zero: it has no direction; drop it.")
    scaled = features / largest
    unit = scaled / xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))
    return FeatureRows(unit, unit)


def _normed_rows(features: Array, metric: InnerMetric) -> FeatureRows:
    """Let norms ride along as columns: (−2x, ‖x‖², 1) · (y, 1, ‖y‖²) = ‖x − y‖²."""
    xp = namespace(features)
    x = features - metric.origin[: features.shape[1]]
    norms = xp.sum(x * x, axis=1, keepdims=True)
    ones = xp.ones_like(norms)
    left = xp.concat([-2.0 * x, norms, ones], axis=1)
    return FeatureRows(left, xp.concat([x, ones, norms], axis=1))


def _ball_rows(features: Array, metric: InnerMetric) -> FeatureRows:
    """Split centres from radii, the last column, which must not be negative."""
    xp, balls = namespace(features), option("metric", "balls")
    if int(features.shape[1]) < 2:
        raise InputError(f"{balls} needs centres and, as the last column, radii.")
    radii = features[:, -1]
    if float(xp.min(radii)) < 0:
        worst = int(xp.argmin(radii))
        raise InputError(
            f"radius {float(radii[worst]):.4g} of ball {worst} is negative; {balls} takes radii "
            "from the last column."
        )
    # A copy: a strided column would be read with the stride in every tile.
    return replace(_normed_rows(features[:, :-1], metric), vector=xp.asarray(radii, copy=True))


def _lifted_rows(features: Array, metric: InnerMetric) -> FeatureRows:
    """Lift to the hyperboloid x₀² − ‖x‖² = 1, where cosh of the distance is x₀y₀ − x·y.

    Of points given on it, only x, all columns but the first, is read.
    """
    xp = namespace(features)
    if metric.setting == "hyperboloid":
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
        x, time = 2.0 * features / (1.0 - sq), (1.0 + sq) / (1.0 - sq)
    return FeatureRows(xp.concat([time, -x], axis=1), xp.concat([time, x], axis=1))


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
    return sq if power == 1 else in_place("pow", sq, float(power))


def _check_positive(name: str, value: Any) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating))
    if not (number and math.isfinite(value) and value > 0):
        raise InputError(f"{option(name, value)} must be a positive number.")


def _check_model(name: str, value: Any) -> None:
    if value not in ("poincare", "hyperboloid"):
        raise InputError(f"{option(name, value)} is unknown; choose poincare or hyperboloid.")


class Formula(NamedTuple):
    """How a metric is computed from inner products g, and its only parameter."""

    prepare: Callable[[Array, InnerMetric], FeatureRows]
    # Of g, the parameter, rows and columns: the squares, over g where possible.
    finish: Callable[..., Array]
    parameter: str = ""
    default: Any = None
    check: Callable[[str, Any], None] = lambda name, value: None


INNER_METRICS = {
    # The angle in radians.
    "angular": Formula(
        _unit_rows, lambda g, *_: _square(in_place("acos", in_place("clip", g, -1.0, 1.0)))
    ),
    # Gap between balls: max(0, ‖c − c'‖ − r − r').
    "balls": Formula(_ball_rows, _gaps),
    # One minus the cosine similarity, as in scikit-learn and SciPy.
    "cosine": Formula(_unit_rows, lambda g, *_: _square(in_place("subtract", g, 1.0))),
    # ‖x − y‖ to a power; up to 1 its square is conditionally negative definite.
    "euclidean": Formula(_normed_rows, _powers, "power", 1.0, _check_positive),
    # Distance in hyperbolic space of curvature −1.
    "hyperbolic": Formula(
        _lifted_rows,
        lambda g, *_: _square(in_place("acosh", in_place("clip", g, 1.0, math.inf))),
        "model",
        "poincare",
        _check_model,
    ),
    # Distance in the feature space of the Gaussian kernel, √(2 − 2 exp(−gamma ‖x − y‖²)); gamma is
    # 1 / (number of features) if not given, as in scikit-learn's `rbf_kernel`.
    "rbf": Formula(_normed_rows, _kernel_distances, "gamma", None, _check_positive),
}


class BlockMetric(PairMetric):
    """Any function of two blocks of rows that returns all dissimilarities between them."""

    def __init__(
        self, function: BlockFunction, name: str, squared: bool, checked: bool = False
    ) -> None:
        self.function, self.name, self.squared = function, name, squared
        self.checked = checked

    def prepare(self, features: Array) -> FeatureRows:
        """Leave the features as they are."""
        return FeatureRows(features, features)

    def squares(self, rows: FeatureRows, cols: FeatureRows) -> Array:
        """Call, check the shape, and square."""
        made = self.dissimilarities(rows, cols)
        if self.squared:
            return made
        # What a user's function returns may be the user's own.
        own = isinstance(self.function, (_Pairwise, Called))
        return _square(made) if own else made * made

    def dissimilarities(self, rows: FeatureRows, cols: FeatureRows) -> Array:
        """Call, and check the shape."""
        made = self.function(rows.left, cols.right)
        due = (int(rows.left.shape[0]), int(cols.right.shape[0]))
        if tuple(made.shape) != due:
            raise InputError(
                f"{self.name} returned shape {tuple(made.shape)} for blocks of {due[0]} and "
                f"{due[1]} rows; {due} is expected."
            )
        self.refuse_negative(made)
        return namespace(rows.left).astype(made, rows.left.dtype, copy=False)


def _jaccard(x: Array, y: Array) -> Array:
    """1 − |x ∧ y| / |x ∨ y| of nonzero entries, and 0 where there are none."""
    xp = namespace(x)
    x, y = xp.astype(x != 0, x.dtype), xp.astype(y != 0, y.dtype)
    both = x @ xp.matrix_transpose(y)
    either = xp.sum(x, axis=1)[:, None] + xp.sum(y, axis=1)[None, :] - both
    return xp.where(either > 0, 1 - both / xp.where(either > 0, either, 1.0), 0.0)


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
    made = between("cityblock" if metric in ("l1", "manhattan") else metric, x, y)
    return SUM_METRICS[metric](x, y) if made is None else made


def refuse_undefined(made: Array, named: str, rows: Any, cols: Any) -> None:
    """Raise for a dissimilarity that is NaN or infinite, and name its pair of objects."""
    xp = namespace(made)
    if bool(xp.all(xp.isfinite(made))):
        return
    i, j = (int(at[0]) for at in np.nonzero(to_numpy(~xp.isfinite(made))))
    raise InputError(
        f"{named} gives NaN or infinity, first for objects {rows[i]} and {cols[j]}; drop those "
        "objects, or change the metric."
    )


def refuse_asymmetry(
    there: Array, back: Array, advice: str = f"pass {option('symmetrize', True)} to average"
) -> None:
    """Raise for a metric whose dissimilarities of some pairs depend on the order of the two."""
    xp = namespace(there)
    if not there.shape[0]:
        return
    gap = float(xp.max(xp.abs(there - xp.matrix_transpose(back))))
    if gap > tolerance(float(xp.max(xp.abs(there))), arrays.eps(there.dtype, xp)):
        raise InputError(
            f"the metric is not symmetric: the two orders of a pair differ by {gap:.2g}; {advice}."
        )


def refuse_own(among: Array) -> None:
    """Raise for a metric that does not give 0 to an object and itself."""
    xp = namespace(among)
    own = float(xp.max(xp.abs(xp.linalg.diagonal(among))))
    if own > tolerance(float(xp.max(xp.abs(among))), arrays.eps(among.dtype, xp)):
        raise InputError(
            f"the metric gives an object and itself {own:.4g}, not 0; subtract it, or convert "
            "similarities."
        )


def refuse_calls(
    called: Called, rows: Array, advice: str = f"pass {option('symmetrize', True)} to average"
) -> None:
    """Refuse a function that is no dissimilarity on some pairs, by at most n calls."""
    n = len(rows)
    i = np.unique(np.linspace(0, n - 2, min(n // 3, CHECKED_PAIRS)).astype(int))
    j = (i + n // 2) % n
    there, back, own = (
        called.listed(rows, rows, *ends).astype(rows.dtype) for ends in ((i, j), (j, i), (i, i))
    )
    at = int(np.argmin(np.isfinite(there))) if i.size else 0
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
    return isinstance(metric, str) and (metric in INNER_METRICS or metric in SUM_METRICS)


def fit_metric(metric: Any, features: Array, squared: bool, params: dict[str, Any]) -> PairMetric:
    """Find a metric by its name, or take a function of two blocks of rows, and fit it."""
    if callable(metric):
        name = getattr(metric, "__name__", "the metric")
        function = partial(metric, **params) if params else metric
        return BlockMetric(function, name, squared, checked=True)
    named = option("metric", metric)
    if metric in INNER_METRICS:
        if squared:
            raise InputError(f"{named} is squared inside; leave {option('squared', True)} out.")
        return InnerMetric(metric, features, params)
    if is_numpy(features) and metric in _named_elsewhere():
        function = _Pairwise(metric, fitted_params(metric, features, params))
        return BlockMetric(function, named, squared)
    if not is_numpy(features) and metric in SUM_METRICS:
        if params:
            raise InputError(f"{named} takes no further arguments, but {', '.join(params)}.")
        return BlockMetric(partial(_summed, metric), named, squared)
    every = ", ".join(sorted({*INNER_METRICS, *SUM_METRICS}))
    more = ", ".join(sorted(_named_elsewhere() - {*INNER_METRICS, *SUM_METRICS}))
    raise InputError(
        f"{named} is unknown; known for every array library are {every}; for NumPy also {more}; or "
        "pass a function of two blocks of rows."
    )


def fitted_params(metric: Any, features: Array, params: dict[str, Any]) -> dict[str, Any]:
    """Add parameters that a metric estimates from all features: variances or covariances."""
    if not (is_numpy(features) or arrays.is_dask(features)):
        return params
    if metric == "seuclidean" and "V" not in params:
        return {**params, "V": to_numpy(features.var(axis=0, ddof=1, dtype=np.float64))}
    if metric == "mahalanobis" and not {"V", "VI"} & set(params):
        centered = features.astype(np.float64) - features.mean(axis=0, dtype=np.float64)
        covariance = to_numpy(centered.T @ centered) / (features.shape[0] - 1)
        try:
            return {**params, "VI": np.linalg.inv(np.atleast_2d(covariance)).T}
        except np.linalg.LinAlgError as error:
            raise InputError(
                f"{option('metric', metric)} needs features whose covariance can be inverted; drop "
                f"features that depend on others, or pass VI in {option('metric_params')}."
            ) from error
    return params


@dataclass(frozen=True)
class _Pairwise:
    """A metric of SciPy or scikit-learn on two blocks of rows of NumPy arrays."""

    metric: Any
    params: dict[str, Any]

    def __call__(self, x: Array, y: Array) -> Array:
        try:
            # 23 ns a pair of 50 features; scikit-learn's takes 43.
            if self.metric in ("cityblock", "l1", "manhattan"):
                return cdist(x, y, "cityblock", **self.params)
            if self.metric in PAIRWISE_BOOLEAN_FUNCTIONS:
                x, y = (b if np.array_equal(b := a != 0, a) else a for a in (x, y))
            return pairwise_distances(x, y, metric=self.metric, **self.params)
        except (ValueError, TypeError) as problem:
            named = option("metric", self.metric)
            raise InputError(f"{named} cannot be used here: {one_line(problem)}.") from problem


@dataclass(frozen=True)
class _Averaged:
    """A function of two rows, or of two blocks of rows, averaged over both orders."""

    metric: Callable[..., Any]

    def __call__(self, x: Array, y: Array, **params: Any) -> Any:
        there, back = self.metric(x, y, **params), self.metric(y, x, **params)
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
        cls, metric: Any, params: dict[str, Any] | None = None, *, symmetrize: bool = False
    ) -> BoundMetric:
        """Bind further arguments to a metric, and average a function over both orders if asked to.

        One that is bound already keeps its arguments.
        """
        if not (params is None or isinstance(params, dict)):
            raise InputError(f"{option('metric_params', params)} must be a dict, or None.")
        bound = metric if isinstance(metric, BoundMetric) else cls(metric, dict(params or {}))
        if symmetrize and callable(bound.metric) and not isinstance(bound.metric, _Averaged):
            return replace(bound, metric=_Averaged(bound.metric))
        return bound

    def on_blocks(self, features: Array) -> tuple[Any, dict[str, Any]]:
        """Return the metric as a function of two blocks, and its remaining parameters."""
        if callable(self.metric) and is_numpy(features):
            return Called(self.metric, self.params, self.items), {}
        return self.metric, self.params

    def numbered(self, items: Sequence[Any]) -> tuple[Array, BoundMetric]:
        """Return features that stand for objects of any kind, and the metric on them."""
        if len(items) < 2:
            raise InputError(f"there are {len(items)} objects; at least 2 are needed.")
        return np.arange(len(items), dtype=np.float64)[:, None], replace(self, items=items)

    def fitted_to(
        self, features: Array, squared: bool = False, *, some: Array | None = None
    ) -> FittedMetric:
        """Fit the metric to features, and keep these, or `some` of them, to compare others with."""
        kept = features if some is None else some
        kept = namespace(kept).astype(kept, working_dtype(kept), copy=False)
        metric, params = self.on_blocks(kept)
        return FittedMetric.of(metric, kept, squared, fitted_params(metric, features, params))


def _named_elsewhere() -> set[str]:
    """Names that scikit-learn knows itself, or hands to SciPy."""
    from sklearn.metrics.pairwise import _VALID_METRICS

    return (set(distance_metrics()) | set(_VALID_METRICS)) - {"precomputed", "wminkowski"}


def _square(array: Array) -> Array:
    array *= array
    return array
