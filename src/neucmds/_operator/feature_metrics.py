"""Dissimilarities between two blocks of feature rows: metrics that one matrix product makes.

Most metrics on vectors are a function of an inner product, entry by entry. Norms ride along as two
further columns, so that ``‖x‖² + ‖y‖² − 2x·y`` is one product and no sums over a tile are left. All
are computed on the squared scale, where they are smooth at zero: arccos(g)² near g = 1 loses no
digits, arccos(g) loses half of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import distance_metrics

from neucmds._backend.arrays import (
    Array,
    fused_kernel,
    in_place,
    is_numpy,
    namespace,
)
from neucmds.errors import InputError

__all__ = ["INNER_METRICS", "InnerMetric", "PairMetric", "Prepared", "as_pair_metric", "by_rows"]

BlockFunction = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Prepared:
    """Feature rows made ready for a metric.

    Parameters
    ----------
    left, right : array of shape (n, d')
        Their inner products are what the metric is a function of.
    vector : array of shape (n,), optional
        One more number an object.
    """

    left: Array
    right: Array
    vector: Array | None = None

    def __getitem__(self, rows: slice) -> Prepared:
        vector = None if self.vector is None else self.vector[rows]
        return Prepared(self.left[rows, :], self.right[rows, :], vector)

    def astype(self, dtype: Any) -> Prepared:
        """Round all of it."""
        xp = namespace(self.left)
        vector = None if self.vector is None else xp.astype(self.vector, dtype)
        return Prepared(xp.astype(self.left, dtype), xp.astype(self.right, dtype), vector)


class PairMetric(ABC):
    """A dissimilarity between feature rows, fitted to the features it will be used on."""

    @abstractmethod
    def prepare(self, features: Array) -> Prepared:
        """Make feature rows, the fitted ones or new ones, ready."""

    @abstractmethod
    def squares(self, rows: Prepared, cols: Prepared) -> Array:
        """Return squared dissimilarities between all rows and all cols, in a new array."""


class InnerMetric(PairMetric):
    """A squared dissimilarity that is a function of inner products, entry by entry."""

    # The function in C++, of the product x and of u and v, the vectors of row and column.
    body: str
    n_vectors = 0

    @abstractmethod
    def finish(self, inner: Array, rows: Prepared, cols: Prepared) -> Array:
        """Turn inner products into squared dissimilarities, over themselves where possible."""

    @cached_property
    def _kernels(self) -> dict[Any, Callable[..., Array] | None]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kernels"}

    def squares(self, rows: Prepared, cols: Prepared) -> Array:
        """One product, then the function: fused where a compiler is at hand."""
        xp = namespace(rows.left)
        inner = rows.left @ xp.matrix_transpose(cols.right)
        key = (type(inner), inner.dtype)
        if key not in self._kernels:
            self._kernels[key] = fused_kernel(self.body, self.n_vectors, inner)
        kernel = self._kernels[key]
        if kernel is None:
            return self.finish(inner, rows, cols)
        if self.n_vectors:
            return kernel(inner, rows.vector[:, None], cols.vector[None, :])  # type: ignore[index]
        return kernel(inner)


class _OfDirections(InnerMetric):
    """A metric that looks at the directions of vectors alone."""

    def __init__(self, features: Array) -> None:
        del features

    def prepare(self, features: Array) -> Prepared:
        """Scale every row to unit length."""
        unit = _unit_rows(features)
        return Prepared(unit, unit)


class Angular(_OfDirections):
    """The angle between two vectors, in radians: arccos of their cosine similarity."""

    body = "T g = x < T(-1) ? T(-1) : (x > T(1) ? T(1) : x); T a = acos(g); return a * a;"

    def finish(self, inner: Array, rows: Prepared, cols: Prepared) -> Array:
        """arccos(g)²."""
        return _square(in_place("acos", in_place("clip", inner, -1.0, 1.0)))


class Cosine(_OfDirections):
    """One minus the cosine similarity, as in scikit-learn and SciPy."""

    body = "T a = T(1) - x; return a * a;"

    def finish(self, inner: Array, rows: Prepared, cols: Prepared) -> Array:
        """(1 − g)²."""
        inner -= 1.0
        return _square(inner)


class SquaredNorm(InnerMetric):
    """Base of the functions of ‖x − y‖²."""

    def __init__(self, features: Array) -> None:
        # The origin drops out of x − y; at the mean, the norms that cancel are smallest.
        self.origin = _column_means(features)

    def prepare(self, features: Array) -> Prepared:
        """Let norms ride along as columns: (−2x, ‖x‖², 1) · (y, 1, ‖y‖²) = ‖x − y‖²."""
        xp = namespace(features)
        x = features - self.origin
        norms = xp.sum(x * x, axis=1, keepdims=True)
        ones = xp.ones_like(norms)
        left = xp.concat([-2.0 * x, norms, ones], axis=1)
        return Prepared(left, xp.concat([x, ones, norms], axis=1))


class EuclideanPower(SquaredNorm):
    """‖x − y‖ to a power.

    Parameters
    ----------
    power : float, default=1
        Positive; up to 1 the squared dissimilarity is conditionally negative definite.
    """

    def __init__(self, features: Array, power: float = 1.0) -> None:
        super().__init__(features)
        if not (math.isfinite(power) and power > 0):
            raise InputError(f"power={power!r} must be a positive number.")
        self.power = float(power)
        end = "return s;" if power == 1 else f"return s > T(0) ? pow(s, T({self.power!r})) : T(0);"
        self.body = "T s = x > T(0) ? x : T(0); " + end

    def finish(self, inner: Array, rows: Prepared, cols: Prepared) -> Array:
        """(‖x − y‖²)^power, since that is the square of ‖x − y‖^power."""
        sq = in_place("clip", inner, 0.0, math.inf)
        return sq if self.power == 1 else in_place("pow", sq, self.power)


class RBF(SquaredNorm):
    """Distance in the feature space of the Gaussian kernel: √(2 − 2 exp(−gamma ‖x − y‖²)).

    Parameters
    ----------
    gamma : float, optional
        Width; 1 / (number of features) if not given, as in scikit-learn's `rbf_kernel`.
    """

    def __init__(self, features: Array, gamma: float | None = None) -> None:
        super().__init__(features)
        gamma = 1.0 / int(features.shape[1]) if gamma is None else gamma
        if not (math.isfinite(gamma) and gamma > 0):
            raise InputError(f"gamma={gamma!r} must be a positive number.")
        self.gamma = float(gamma)
        self.body = f"return x > T(0) ? T(-2) * expm1(T({-self.gamma!r}) * x) : T(0);"

    def finish(self, inner: Array, rows: Prepared, cols: Prepared) -> Array:
        """−2 expm1(−gamma ‖x − y‖²): no digits lost between near points."""
        sq = in_place("clip", inner, 0.0, math.inf)
        sq *= -self.gamma
        sq = in_place("expm1", sq)
        sq *= -2.0
        return sq


class Balls(SquaredNorm):
    """Gap between balls: max(0, ‖c − c'‖ − r − r'), centres first and the radius as last column."""

    body = "T s = x > T(0) ? sqrt(x) - u - v : -u - v; return s > T(0) ? s * s : T(0);"
    n_vectors = 2

    def __init__(self, features: Array) -> None:
        if int(features.shape[1]) < 2:
            raise InputError("metric='balls' needs centres and, as the last column, radii.")
        super().__init__(features[:, :-1])

    def prepare(self, features: Array) -> Prepared:
        """Split centres from radii, which must not be negative."""
        xp = namespace(features)
        radii = features[:, -1]
        if float(xp.min(radii)) < 0:
            worst = int(xp.argmin(radii))
            raise InputError(
                f"radius {float(radii[worst]):.4g} of ball {worst} is negative; metric='balls' "
                "takes radii from the last column."
            )
        centres = super().prepare(features[:, :-1])
        # A copy: a strided column would be read with the stride in every tile.
        return Prepared(centres.left, centres.right, xp.asarray(radii, copy=True))

    def finish(self, inner: Array, rows: Prepared, cols: Prepared) -> Array:
        """max(0, gap)²."""
        gap = in_place("sqrt", in_place("clip", inner, 0.0, math.inf))
        gap -= rows.vector[:, None]  # type: ignore[index]
        gap -= cols.vector[None, :]  # type: ignore[index]
        return _square(in_place("clip", gap, 0.0, math.inf))


class Hyperbolic(InnerMetric):
    """Distance in hyperbolic space of curvature −1.

    Parameters
    ----------
    model : {"poincare", "hyperboloid"}, default="poincare"
        What the features are: points of the open unit ball, or points (x₀, x) of the hyperboloid
        x₀² − ‖x‖² = 1, of which only x, all columns but the first, is read.
    """

    body = "T g = x > T(1) ? x : T(1); T a = acosh(g); return a * a;"

    def __init__(self, features: Array, model: str = "poincare") -> None:
        del features
        if model not in ("poincare", "hyperboloid"):
            raise InputError(f"model={model!r} is unknown; choose poincare or hyperboloid.")
        self.model = model

    def prepare(self, features: Array) -> Prepared:
        """Lift to the hyperboloid, where cosh of the distance is x₀y₀ − x·y."""
        xp = namespace(features)
        if self.model == "hyperboloid":
            x = features[:, 1:]
            time = xp.sqrt(1.0 + xp.sum(x * x, axis=1, keepdims=True))
        else:
            sq = xp.sum(features * features, axis=1, keepdims=True)
            if float(xp.max(sq)) >= 1:
                worst = int(xp.argmax(sq))
                raise InputError(
                    f"row {worst} has norm {math.sqrt(float(xp.max(sq))):.6g}; points of the "
                    "Poincaré ball have norm below 1. Pass model='hyperboloid' if they are on it."
                )
            x, time = 2.0 * features / (1.0 - sq), (1.0 + sq) / (1.0 - sq)
        return Prepared(xp.concat([time, -x], axis=1), xp.concat([time, x], axis=1))

    def finish(self, inner: Array, rows: Prepared, cols: Prepared) -> Array:
        """arccosh(g)²."""
        return _square(in_place("acosh", in_place("clip", inner, 1.0, math.inf)))


class BlockMetric(PairMetric):
    """Any function of two blocks of rows that returns all dissimilarities between them."""

    def __init__(self, function: BlockFunction, name: str, squared: bool) -> None:
        self.function, self.name, self.squared = function, name, squared

    def prepare(self, features: Array) -> Prepared:
        """Leave the features as they are."""
        return Prepared(features, features)

    def squares(self, rows: Prepared, cols: Prepared) -> Array:
        """Call, check the shape, and square."""
        made = self.function(rows.left, cols.right)
        due = (int(rows.left.shape[0]), int(cols.right.shape[0]))
        if tuple(made.shape) != due:
            raise InputError(
                f"{self.name} returned shape {tuple(made.shape)} for blocks of {due[0]} and "
                f"{due[1]} rows; {due} is due."
            )
        xp = namespace(rows.left)
        made = xp.astype(made, rows.left.dtype, copy=False)
        return made if self.squared else made * made


INNER_METRICS: dict[str, Callable[..., InnerMetric]] = {
    "angular": Angular,
    "balls": Balls,
    "cosine": Cosine,
    "euclidean": EuclideanPower,
    "hyperbolic": Hyperbolic,
    "rbf": RBF,
}


def as_pair_metric(
    metric: Any, features: Array, squared: bool, params: dict[str, Any]
) -> PairMetric:
    """Find a metric by its name, or take a function of two blocks of rows."""
    if callable(metric):
        name = getattr(metric, "__name__", "the metric")
        return BlockMetric(partial(metric, **params), name, squared)
    if metric in INNER_METRICS:
        if squared:
            raise InputError(
                f"metric={metric!r} is squared inside; squared=True is for a callable that returns "
                "squared dissimilarities."
            )
        try:
            return INNER_METRICS[metric](features, **params)
        except TypeError as error:
            raise InputError(f"metric={metric!r} does not take {_strange(error)}.") from error
    if is_numpy(features) and metric in _named_elsewhere():
        function = _pairwise(metric, features, params)
        return BlockMetric(function, f"metric={metric!r}", squared)
    known = ", ".join(INNER_METRICS)
    more = ", ".join(sorted(_named_elsewhere() - set(INNER_METRICS)))
    raise InputError(
        f"metric={metric!r} is unknown; known for every array library are {known}; for NumPy also "
        f"{more}; or pass a function of two blocks of rows."
    )


@dataclass(frozen=True)
class _Pairwise:
    """scikit-learn's `pairwise_distances` on two blocks of rows."""

    metric: Any
    params: dict[str, Any]

    def __call__(self, x: Array, y: Array) -> Array:
        return pairwise_distances(x, y, metric=self.metric, **self.params)


def by_rows(metric: Callable[..., float], params: dict[str, Any]) -> BlockFunction:
    """Turn scikit-learn's kind of callable, on two rows, into one on two blocks of rows."""
    return _Pairwise(metric, params)


def _pairwise(metric: str, features: Array, params: dict[str, Any]) -> BlockFunction:
    # Both are taken from all the features, which a block does not know.
    if metric == "seuclidean" and "V" not in params:
        params = {**params, "V": np.var(features, axis=0, ddof=1)}
    if metric == "mahalanobis" and not {"V", "VI"} & set(params):
        params = {**params, "VI": np.linalg.inv(np.cov(features.T)).T}
    return _Pairwise(metric, params)


def _named_elsewhere() -> set[str]:
    """Names that scikit-learn knows itself, or hands to SciPy."""
    from sklearn.metrics.pairwise import _VALID_METRICS

    return (set(distance_metrics()) | set(_VALID_METRICS)) - {"precomputed", "wminkowski"}


def _strange(error: TypeError) -> str:
    text = str(error)
    return text[text.rfind("'", 0, -1) :] if "unexpected keyword" in text else f"these: {text}"


def _square(array: Array) -> Array:
    array *= array
    return array


def _unit_rows(features: Array) -> Array:
    xp = namespace(features)
    # Twice: the squares of very long or short rows leave the range of floats.
    largest = xp.max(xp.abs(features), axis=1, keepdims=True)
    if float(xp.min(largest)) == 0:
        empty = int(xp.argmin(largest))
        raise InputError(f"row {empty} of the features is zero: it has no direction; drop it.")
    scaled = features / largest
    return scaled / xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))


def _column_means(features: Array) -> Array:
    xp = namespace(features)
    return xp.astype(xp.mean(xp.astype(features, xp.float64), axis=0), features.dtype)
