"""Landmarks: some objects are embedded, and all others placed among them, row by row."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend import Checkpoint, npy_output
from neucmds._backend.arrays import (
    Array,
    asarray_like,
    empty_like,
    free_memory,
    is_dask,
    is_numpy,
    min_and_max,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds._backend.threads import fill_rows, thread_count
from neucmds._input import as_dissimilarity, as_labels, as_real, ordered_by_name
from neucmds._input.components import Components, NComponents
from neucmds._input.containers import to_square, unwrap
from neucmds._input.validation import working_dtype
from neucmds._methods.refined.descent import Start
from neucmds._operator import DenseGram, Gram
from neucmds._operator.graph import as_graph, landmark_paths
from neucmds._operator.metric_registry import BoundMetric, FittedMetric, fitted_params, on_rows
from neucmds._placement import (
    PLACEMENTS,
    Recipe,
    cross_validated,
    in_range,
    least_squares_rule,
    linear_rule,
    median_r2,
    without_negative,
)
from neucmds._placement import landmarks as selection
from neucmds.api.fitting import fit
from neucmds.api.options import PRECOMPUTED, SHORTEST_PATH, Options, is_metric
from neucmds.api.prepared import Prepared, prepare
from neucmds.embedding import Embedding
from neucmds.errors import InputError, MisfitWarning, option

# Objects that "maxmin" looks at, per landmark: each costs as many dissimilarities as placing it.
SPREAD_SAMPLE = 10
# New objects are measured where coordinates explain this much of the variance among landmarks, and
# are nothing like them below this share of it. Five data sets, k = 5 and 20, L = 4k to 12k: 0.62 of
# it or more in the right order of columns, 0.19 or less in a random one.
FITTED, MISFIT = 0.6, 1 / 3
MEASURED_ROWS = 64

Indices = npt.NDArray[np.intp]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class LandmarkFit:
    """Embedded landmarks, and what measures other objects against them.

    Parameters
    ----------
    landmarks : ndarray of shape (L,)
        Rows of the landmarks.
    embedding : Embedding
        Of the landmarks; its `placement` is the rule for others.
    recipe : Recipe or None
        What was chosen on landmarks held out.
    n : int, optional
        Number of objects, where rows may hold the dissimilarities to all of them.
    space : FittedMetric, optional
        The metric and the landmarks' features; None where rows hold dissimilarities.
    metric : str or callable
        For messages.
    """

    landmarks: Indices
    embedding: Embedding
    recipe: Recipe | None
    n: int | None = None
    space: FittedMetric | None = None
    metric: Any = PRECOMPUTED

    @property
    def width(self) -> int:
        """Number of landmarks."""
        return int(self.landmarks.size)

    def squares(self, rows: Array, first: int = 0) -> Array:
        """Squared dissimilarities (m, L) of some objects to the landmarks.

        Parameters
        ----------
        rows : array of shape (m, n_features), (m, L) or (m, n)
        first : int, default=0
            Number of the first object, for messages.
        """
        if self.space is not None:
            return self._finite(self.space.squares(widened(rows)), first)
        whole = rows.shape[1] == self.n
        block = self._finite(taken(rows, slice(None), self.landmarks) if whole else rows, first)
        if not block.shape[0]:
            return block
        lowest, _ = min_and_max(block)
        if lowest < 0 and not self.embedding.squared:
            raise InputError(
                f"dissimilarities have a negative entry ({lowest:.3g}), but the fit was on "
                f"unsquared ones ({option('squared', False)})."
            )
        fitted = asarray_like(self.embedding.coordinates, block)
        block = in_range(block, fitted, squared=self.embedding.squared)
        return block if self.embedding.squared else namespace(block).square(block)

    def place(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Coordinates (m, k) of some objects, in the precision of their rows."""
        sq_new = self.squares(rows, first)
        if self.embedding.squared and rows.shape[0]:
            whose = f" of objects {first} to {first + rows.shape[0] - 1}"
            sq_new = without_negative(sq_new, self.embedding.loss, weights, whose)
        assert self.embedding.placement is not None
        placed = self.embedding.placement.place(sq_new, weights)
        return namespace(rows).astype(placed, rows.dtype, copy=False)

    def place_all(
        self,
        rows: Array,
        out: str | PathLike[str] | None = None,
        *,
        weights: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Array:
        """Place objects in chunks: in threads, on the device of the rows, or lazily by dask.

        Parameters
        ----------
        rows : array of shape (m, n_features), (m, L) or (m, n)
        out, weights, checkpoint, n_jobs
            As for `LandmarkNeucMDS`.
        progress : callable, optional
            Told how many of all rows are done.
        """
        shape, width = (int(rows.shape[0]), self.embedding.k), max(rows.shape[1], self.width)
        if not is_numpy(rows):
            for name, value in (("weights", weights), ("checkpoint", checkpoint)):
                if value is not None:
                    raise InputError(f"{option(name)} is for NumPy arrays.")
        if is_dask(rows):
            from neucmds._backend.dask_arrays import map_rows

            if out is not None:
                raise InputError("out= is for arrays in memory; store the dask array that returns.")
            return map_rows(rows, self.place, self.embedding.k, width)
        if not is_numpy(rows):
            return self._place_there(rows, out, progress)
        kept = None
        if checkpoint is not None:
            kept = Checkpoint(checkpoint, self.embedding.coordinates, rows, weights)
        with npy_output(out, shape, rows.dtype, kept) as target:
            done = shape[0] - target.shape[0]

            def place(some: slice) -> Array:
                some = slice(some.start + done, some.stop + done)
                return self.place(
                    rows[some], some.start, None if weights is None else weights[some]
                )

            fill_rows(target, place, width, thread_count(n_jobs), progress)
        placed = target if out is None else np.load(out, mmap_mode="r")
        if weights is None:
            self._warn_of_misfit(rows, placed)
        return placed

    def _place_there(
        self, rows: Array, out: str | PathLike[str] | None, progress: Progress | None
    ) -> Array:
        """Place objects with the library and on the device of their rows, in blocks that fit."""
        shape, free = (int(rows.shape[0]), self.embedding.k), free_memory(rows)
        # Some ten arrays of a block live at a time; beyond 2²⁷ entries nothing runs faster.
        entries = 2**21 if free is None else max(2**21, min(2**27, free // 160))
        placed = empty_like(rows, shape)
        for some in row_blocks(shape[0], max(int(rows.shape[1]), self.width), entries):
            placed[some] = self.place(rows[some, :], some.start)
            if progress is not None:
                progress(some.stop, shape[0])
        if out is None:
            return placed
        values = to_numpy(placed)
        with npy_output(out, shape, values.dtype) as target:
            target[slice(0, shape[0])] = values
        return np.load(out, mmap_mode="r")

    def _finite(self, block: Array, first: int) -> Array:
        # One sum finds what is not finite; only then is it worth looking for.
        xp = namespace(block)
        if math.isfinite(float(xp.sum(block, dtype=xp.float64))):
            return block
        refuse_not_finite(to_numpy(block), first, self.landmarks, self.metric)
        return block

    def _warn_of_misfit(self, rows: Array, placed: Array) -> None:
        """Warn where it looks as if columns were in another order than the landmarks."""
        fitted = self.embedding
        if self.space is not None or not rows.shape[0] or not fitted.r2 >= FITTED:
            return
        sq_new = self.squares(rows[:MEASURED_ROWS])
        found = median_r2(sq_new, placed[:MEASURED_ROWS], fitted.coordinates, fitted.signs)
        if found < MISFIT * fitted.r2:
            warnings.warn(
                f"the coordinates explain {max(0.0, found):.0%} of the variance of a new object's "
                f"dissimilarities to the landmarks (median), and {fitted.r2:.0%} among landmarks: "
                "are the columns in the order of landmarks_?",
                MisfitWarning,
                stacklevel=4,
            )


def fit_landmarks(
    X: Any,
    options: Options,
    *,
    metric: Any = PRECOMPUTED,
    landmarks: Any = "random",
    n_landmarks: int | float | None = None,
    placement: str = "auto",
    squared: bool = False,
    symmetrize: bool = False,
    weights: Any = None,
    columns: Sequence[str] | None = None,
    index: Sequence[str] | None = None,
) -> LandmarkFit:
    """Choose and embed landmarks, and learn how to place objects among them.

    Parameters
    ----------
    X : array of shape (n, n_features), (n, n) or (n, L)
        Features; or dissimilarities, all or those to the landmarks. Finite, of NumPy, dask or
        another library.
    options : Options
    metric : str, callable or BoundMetric
    landmarks, n_landmarks, placement, squared, symmetrize, weights
        As for `LandmarkNeucMDS`.
    columns, index : sequence of str, optional
        Names of the columns of dissimilarities, and of the rows where these are not all objects.
    """
    if placement not in PLACEMENTS:
        raise InputError(
            f"{option('placement', placement)} is unknown; choose one of {', '.join(PLACEMENTS)}."
        )
    rng, n = check_random_state(options.random_state), int(X.shape[0])
    bound = None if is_metric(metric, PRECOMPUTED) else BoundMetric.of(metric)
    ids = _chosen(X, bound, landmarks, n_landmarks, _least_count(options.n_components), rng)
    whole = bound is None and int(X.shape[1]) == n
    space, name = None, metric if bound is None else bound.metric
    if bound is not None:
        space = _metric_on(bound, X, ids, squared)
        among = to_numpy(space.among())
    else:
        among = to_numpy(taken(X, ids, ids if whole else slice(None)))
    refuse_not_finite(among, 0, ids, name, ids)
    # The landmarks are few: double precision costs nothing and saves digits, and the CPU embeds
    # them as fast as any device.
    known = as_dissimilarity(among.astype(np.float64), squared=squared, symmetrize=symmetrize)
    names = columns if columns is None or not whole else [columns[i] for i in ids]
    if weights is not None:
        weights = _weights_among(weights, ids, n, names, columns if whole else index)
    embedding, recipe = embed_landmarks(
        known.values,
        replace(options, init=_start_among(options, ids, n), random_state=rng),
        placement,
        rng=rng,
        weights=weights,
        squared=squared,
    )
    embedding = replace(embedding, labels=None if names is None else tuple(map(str, names)))
    return LandmarkFit(ids, embedding, recipe, n if whole else None, space, name)


def embed_by_landmarks(
    data: Any,
    options: Options,
    landmarks: Any,
    *,
    metric: Any = PRECOMPUTED,
    squared: bool = False,
    symmetrize: bool = False,
    weights: Any = None,
    labels: Any = None,
) -> Embedding:
    """Embed landmarks and place all other objects: what `neuc_mds` does with `landmarks`."""
    options = replace(options, random_state=check_random_state(options.random_state))
    count = None
    if isinstance(landmarks, (int, float, np.number)) and not isinstance(landmarks, bool):
        landmarks, count = "random", landmarks
    if is_metric(metric, SHORTEST_PATH):
        ids, data = graph_block(data, options, landmarks, count)
        metric, landmarks, squared, symmetrize = PRECOMPUTED, ids, False, True
    elif is_metric(metric, PRECOMPUTED):
        if isinstance(data, (Gram, Prepared)):
            raise InputError(f"{option('landmarks')} takes D itself, not an operator of it.")
        if not is_dask(data):
            table = unwrap(data)
            data, labels = table.array, table.labels if labels is None else labels
            data = to_square(data, working_dtype(data))[0] if data.ndim == 1 else data
    elif not is_dask(data):
        data = as_real(data, "features")
    data = data if is_dask(data) else namespace(data).astype(data, working_dtype(data), copy=False)
    labels = as_labels(labels, int(data.shape[0]))
    found = fit_landmarks(
        data,
        options,
        metric=metric,
        landmarks=landmarks,
        n_landmarks=count,
        squared=squared,
        symmetrize=symmetrize,
        weights=weights,
        columns=labels if data.shape[0] == data.shape[1] else None,
        index=labels,
    )
    coordinates = found.place_all(data)
    coordinates = to_numpy(coordinates) if is_dask(coordinates) else coordinates
    ids = asarray_like(found.landmarks, coordinates, dtype=namespace(coordinates).int64)
    coordinates[ids] = asarray_like(found.embedding.coordinates, coordinates)
    return replace(
        found.embedding, coordinates=coordinates, labels=labels, landmarks=found.landmarks
    )


def embed_landmarks(
    sq_dissimilarity: Array,
    options: Options,
    placement: str = "auto",
    *,
    rng: np.random.RandomState,
    weights: Array | None = None,
    squared: bool = False,
) -> tuple[Embedding, Recipe | None]:
    """Embed landmarks, with the rule that places others among them.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (L, L)
        Squared dissimilarities among the landmarks.
    options : Options
        The callback does not hear of the folds.
    placement : {"auto", "least_squares", "linear"}
        "auto" chooses the ridge, the offsets and, for "neuc", the signature by cross-validation;
        "least_squares" has neither ridge nor offsets; "linear" is plain triangulation.
    rng : RandomState
        Draws the folds.
    weights : ndarray of shape (L, L), optional
        How much each pair counts. Nothing is cross-validated then: the offsets and the noise of a
        recipe are means over pairs that count alike.
    squared : bool, default=False
        Whether what is placed later is squared.

    Returns
    -------
    embedding : Embedding
        Of the landmarks; its `placement` is the rule.
    recipe : Recipe or None
        How the rule was made; None for "linear".
    """
    method = options.method
    if placement == "linear" and weights is not None:
        raise InputError(
            f"weights need {option('placement', 'auto')}: plain triangulation counts every "
            "landmark alike."
        )

    def embed(part: Array, wanted: NComponents, method: str, *, whole: bool = False) -> Embedding:
        known = weights if whole else None
        D = part if known is not None else DenseGram(np.ascontiguousarray(part))
        prepared = replace(prepare(D, wanted, squared=True, weights=known), squared=squared)
        how = replace(options, n_components=wanted, method=method)
        return fit(prepared, how if whole else replace(how, init=None, callback=None)).embedding

    components = options.components(sq_dissimilarity.shape[0])
    if components.goal is not None:
        # The landmarks are few, and chosen for all: what they need is what all need.
        components = Components(embed(sq_dissimilarity, components.goal, method).requested)
    wanted = components.signature or components.total
    if placement == "linear":
        embedding = embed(sq_dissimilarity, wanted, method, whole=True)
        return replace(embedding, placement=linear_rule(sq_dissimilarity, embedding)), None
    recipe = Recipe(0.0, False, wanted)
    has_own_rule = weights is not None or options.loss != "squared"
    if placement == "auto" and not has_own_rule:
        recipe = cross_validated(sq_dissimilarity, wanted, method, rng, embed)
    embedding = embed(sq_dissimilarity, recipe.n_components, method, whole=True)
    if has_own_rule:
        return embedding, recipe
    rule = least_squares_rule(sq_dissimilarity, embedding, recipe)
    return replace(embedding, placement=rule), recipe


def graph_block(
    graph: Any, options: Options, landmarks: Any, n_landmarks: Any, n_jobs: int | None = None
) -> tuple[Indices, npt.NDArray[np.float32]]:
    """Choose landmarks of a graph; return them and the paths of all nodes to them, (n, L)."""
    graph = as_graph(graph)
    n, k = int(graph.shape[0]), _least_count(options.n_components)
    named = not isinstance(landmarks, str)
    which = selection.named(landmarks, n, k) if named else landmarks
    count = 0 if named else selection.landmark_count(n_landmarks, n, k)
    rng = check_random_state(options.random_state)
    ids, paths = landmark_paths(graph, count, which, rng, dtype=np.float32, n_jobs=n_jobs)
    return ids.astype(np.intp), np.ascontiguousarray(paths.T)


def refuse_not_finite(
    block: Any, first: int, landmarks: Indices, metric: Any, rows: Indices | None = None
) -> None:
    """Refuse NaN and infinity, with the first pair that has it."""
    bad = ~np.isfinite(block)
    if not bad.any():
        return
    i, j = (int(at) for at in np.argwhere(bad)[0])
    given = is_metric(metric, PRECOMPUTED)
    what = "the dissimilarities hold" if given else f"{option('metric', metric)} gives"
    count = int(bad.sum())
    which = "1 pair," if count == 1 else f"{count} pairs, the first being"
    raise InputError(
        f"{what} {block[i, j]} for {which} object {first + i if rows is None else int(rows[i])} "
        f"and landmark {int(landmarks[j])}; drop or repair these objects."
    )


def _least_count(n_components: Any) -> int:
    """Coordinates that the landmarks must at least suffice for."""
    parts = np.atleast_1d(np.asarray(1 if n_components is None else n_components))
    return int(parts.sum()) if np.issubdtype(parts.dtype, np.integer) else 1


def _chosen(
    X: Any,
    metric: BoundMetric | None,
    landmarks: Any,
    n_landmarks: Any,
    k: int,
    rng: np.random.RandomState,
) -> Indices:
    """Return the rows of the landmarks: as named, drawn, or spread out."""
    n, width = (int(size) for size in X.shape)
    if not isinstance(landmarks, str):
        ids = selection.named(landmarks, n, k)
        if metric is None and width not in (n, ids.size):
            raise InputError(
                f"X has {width} columns, but {ids.size} landmarks are named; pass one column per "
                f"landmark, or all {n}."
            )
        return ids
    if landmarks not in ("random", "maxmin"):
        raise InputError(
            f"{option('landmarks', landmarks)} must be 'random', 'maxmin' or row numbers."
        )
    if metric is None and n != width:
        raise InputError(
            f"X is {n} × {width}, dissimilarities to landmarks only; pass the landmarks' rows as "
            "landmarks=, or metric= if X holds features."
        )
    count = selection.landmark_count(n_landmarks, n, k)
    if landmarks == "random":
        return selection.random_sample(n, count, rng)
    if metric is None and not is_dask(X):
        return np.sort(selection.maxmin(n, count, lambda i: to_numpy(X[:, i]), rng))
    ids = selection.random_sample(n, min(n, SPREAD_SAMPLE * count), rng)
    if metric is None:
        among = taken(X, ids, ids)
        return np.sort(ids[selection.maxmin(ids.size, count, lambda i: among[:, i], rng)])
    space = _metric_on(metric, X, ids, False)

    def to_one(i: int) -> Any:
        one = space.points[i : i + 1]
        return to_numpy(space.metric.dissimilarities(space.points, one)[:, 0])

    return np.sort(ids[selection.maxmin(ids.size, count, to_one, rng)])


def _metric_on(metric: BoundMetric, X: Any, ids: Indices, squared: bool) -> FittedMetric:
    """Fit a metric to all of X, and keep some rows; in double precision, for they are few."""
    some = widened(taken(X, ids))
    on_blocks, params = on_rows(metric.metric, some, metric.params)
    return FittedMetric.of(on_blocks, some, squared, fitted_params(on_blocks, X, params))


def _weights_among(
    weights: Any, ids: Indices, n: int, of_landmarks: Any, of_all: Any
) -> npt.NDArray[np.float64]:
    """Weights of the pairs of landmarks, from theirs or from those of all pairs."""
    count = ids.size
    shape = getattr(weights, "shape", None)
    if shape in ((count, count), (n, n)):
        names = of_landmarks if shape == (count, count) else of_all
        weights = ordered_by_name(weights, names, "weights", rows=True)
    given: npt.NDArray[np.float64] = to_numpy(as_real(weights, "weights")).astype(np.float64)
    if given.shape == (count, count):
        return given
    if given.shape == (n, n):
        return given[np.ix_(ids, ids)]
    raise InputError(
        f"{option('weights')} has shape {given.shape}; pass ({count}, {count}), one for each "
        f"pair of landmarks, or ({n}, {n}), one for each pair of objects."
    )


def _start_among(options: Options, ids: Indices, n: int) -> Start | None:
    """Where the landmarks start, from their coordinates or from those of all objects."""
    start = options.start
    if start is None or int(start.coordinates.shape[0]) != n:
        return start
    return Start(to_numpy(start.coordinates)[ids], start.signs)


def taken(X: Any, rows: Any, columns: Any = slice(None)) -> Any:
    """Rows and columns of X, in memory."""
    if is_dask(X):
        return np.asarray(X[rows][:, columns].compute())
    if is_numpy(X) and not isinstance(rows, slice) and not isinstance(columns, slice):
        return X[np.ix_(rows, columns)]
    xp = namespace(X)
    for axis, some in enumerate((rows, columns)):
        if not isinstance(some, slice):
            X = xp.take(X, asarray_like(some, X, dtype=xp.int64), axis=axis)
    return X


def widened(X: Array) -> Array:
    """X in double precision."""
    xp = namespace(X)
    return xp.astype(X, xp.float64, copy=False)
