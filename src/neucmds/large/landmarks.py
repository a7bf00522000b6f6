"""Embed landmarks, and place all other objects among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    asarray_like,
    empty_like,
    free_memory,
    is_dask,
    is_numpy,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.backend.checkpoint import Checkpoint, npy_output
from neucmds.backend.threads import fill_rows, thread_count
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.fitting import fit
from neucmds.options import PRECOMPUTED, SHORTEST_PATH, Options
from neucmds.place import landmarks as selection
from neucmds.place.least_squares import SHRINKAGE
from neucmds.place.new_rows import sq_rows
from neucmds.place.newton import LossPlacement
from neucmds.place.recipe import (
    PLACEMENTS,
    Recipe,
    cross_validated,
    least_squares_rule,
    linear_rule,
)
from neucmds.prepared import prepare
from neucmds.problem.components import Components, NComponents
from neucmds.problem.containers import as_real, to_square, unwrap
from neucmds.problem.dense import Dense, as_squares
from neucmds.problem.graph import as_graph, landmark_paths
from neucmds.problem.metrics import BoundMetric, FittedMetric
from neucmds.problem.names import ordered_by_name
from neucmds.problem.validation import as_labels, working_dtype
from neucmds.refine.descent import Start
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram

# Objects that "maxmin" looks at, per landmark: each costs as many dissimilarities as placing it.
SPREAD_SAMPLE = 10
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
    paths : ndarray of shape (n, L), optional
        Lengths of the shortest paths of a graph to the landmarks.
    """

    landmarks: Indices
    embedding: Embedding
    recipe: Recipe | None
    n: int | None = None
    space: FittedMetric | None = None
    metric: Any = PRECOMPUTED
    paths: npt.NDArray[np.float32] | None = None

    @property
    def width(self) -> int:
        """Number of landmarks."""
        return int(self.landmarks.size)

    def widest(self, rows: Array) -> int:
        """Entries of a row, or of all that it is compared with at a time."""
        return max(int(rows.shape[1]), self.width)

    def nodes(self, which: Any = slice(None)) -> Array:
        """Return nodes of the graph as rows that are placed."""
        assert self.paths is not None
        return self.paths[which]

    def squares(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Squared dissimilarities (m, L) of some objects to the landmarks.

        Parameters
        ----------
        rows : array of shape (m, n_features), (m, L) or (m, n)
        first : int, default=0
            Number of the first object, for messages.
        weights : array of shape (m, L), optional
        """
        xp = namespace(rows)
        if self.space is not None:
            block = self.space.squares(xp.astype(rows, xp.float64, copy=False))
        else:
            whole = rows.shape[1] == self.n
            block = taken(rows, slice(None), self.landmarks) if whole else rows
        objects = range(first, first + int(block.shape[0]))
        return self.checked(block, objects, self.landmarks, weights)

    def checked(
        self,
        block: Array,
        objects: Sequence[int] | Indices,
        landmarks: Indices,
        weights: Any = None,
    ) -> Array:
        """Square dissimilarities of objects to landmarks, and refuse what cannot be."""
        squared, xp = self.embedding.squared, namespace(block)
        # One sum finds what is not finite; only then is it worth looking for.
        if not math.isfinite(float(xp.sum(block, dtype=xp.float64))):
            _refuse_not_finite(to_numpy(block), objects, landmarks, self.metric)
        return sq_rows(
            block,
            self.embedding.coordinates,
            squared=squared or self.space is not None,
            loss=self.embedding.loss if squared else "squared",
            weights=weights,
            first=int(objects[0]) if len(objects) else 0,
        )

    def place(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Coordinates (m, k) of some objects, in the precision of their rows."""
        assert self.embedding.placement is not None
        placed = self.embedding.placement.place(self.squares(rows, first, weights), weights)
        return namespace(rows).astype(placed, rows.dtype, copy=False)

    def place_fitted(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Place objects that were fitted, in their order: in two levels landmarks stay."""
        return self.place(rows, first, weights)

    def place_all(
        self,
        rows: Array,
        out: str | PathLike[str] | None = None,
        *,
        fitted: bool = False,
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
        fitted : bool, default=False
            Whether these are the objects that were fitted.
        progress : callable, optional
            Told how many of all rows are done.
        """
        shape, width = (int(rows.shape[0]), self.embedding.k), self.widest(rows)
        place = self.place_fitted if fitted else self.place
        if is_numpy(rows):
            called, kept = None if self.space is None else self.space.called, None
            if checkpoint is not None:
                items = None if called is None else called.items
                rule: Any = self.embedding.placement
                parts = [type(rule).__name__, *(getattr(rule, one.name) for one in fields(rule))]
                kept = Checkpoint(checkpoint, parts, rows, weights, items, fitted)
            with npy_output(out, shape, rows.dtype, kept) as target:
                done = shape[0] - target.shape[0]

                def of_part(some: slice) -> Array:
                    some = slice(some.start + done, some.stop + done)
                    counted = None if weights is None else weights[some]
                    return place(rows[some], some.start, counted)

                jobs, elements = thread_count(n_jobs), BLOCK_ELEMENTS
                if called is not None:  # it runs in processes, and is cut by time where that shows
                    seen = kept is not None or progress is not None
                    jobs, elements = 1, called.at_once(elements) if seen else elements
                fill_rows(target, of_part, width, jobs, progress, elements)
            return target if out is None else np.load(out, mmap_mode="r")
        for name, value in (("weights", weights), ("checkpoint", checkpoint)):
            if value is not None:
                raise InputError(f"{option(name)} is for NumPy arrays.")
        if not is_dask(rows):
            return self._place_there(rows, place, out, progress)
        from neucmds.backend.dask_arrays import map_rows

        if out is not None:
            raise InputError("out= is for arrays in memory; store the dask array that returns.")
        return map_rows(rows, place, self.embedding.k, width)

    def of_all(self, placed: Array, names: Any = None) -> Embedding:
        """Embedding of all objects, where they were placed; the landmarks where they were fitted.

        A file stays as it is.
        """
        if not isinstance(placed, np.memmap):
            xp, which = namespace(placed), np.arange(placed.shape[0])
            which[self.landmarks] = placed.shape[0] + np.arange(self.width)
            both = xp.concat([placed, asarray_like(self.embedding.coordinates, placed)])
            placed = xp.take(both, asarray_like(which, placed, dtype=xp.int64), axis=0)
        return replace(self.embedding, coordinates=placed, labels=names, landmarks=self.landmarks)

    def _place_there(
        self,
        rows: Array,
        place: Callable[[Array, int], Array],
        out: str | PathLike[str] | None,
        progress: Progress | None,
    ) -> Array:
        """Place objects with the library and on the device of their rows, in blocks that fit."""
        shape, free = (int(rows.shape[0]), self.embedding.k), free_memory(rows)
        # Some ten arrays of a block live at a time; beyond 2²⁷ entries nothing runs faster.
        entries = 2**21 if free is None else max(2**21, min(2**27, free // 160))
        placed = empty_like(rows, shape)
        for some in row_blocks(shape[0], self.widest(rows), entries):
            placed[some] = place(rows[some, :], some.start)
            if progress is not None:
                progress(some.stop, shape[0])
        if out is None:
            return placed
        values = to_numpy(placed)
        with npy_output(out, shape, values.dtype) as target:
            target[slice(0, shape[0])] = values
        return np.load(out, mmap_mode="r")


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
    n_jobs: int | None = None,
) -> LandmarkFit:
    """Choose and embed landmarks, and learn how to place objects among them.

    Parameters
    ----------
    X : array of shape (n, n_features), (n, n) or (n, L), or graph
        Features; or dissimilarities, all or those to the landmarks. Finite, of NumPy, dask or
        another library.
    options : Options
    metric : str, callable or BoundMetric
    landmarks, n_landmarks, placement, squared, symmetrize, weights, n_jobs
        As for `LandmarkNeucMDS`.
    columns, index : sequence of str, optional
        Names of the columns of dissimilarities, and of the rows where these are not all objects.
    """
    if placement not in PLACEMENTS:
        raise InputError(
            f"{option('placement', placement)} is unknown; choose one of {', '.join(PLACEMENTS)}."
        )
    rng = check_random_state(options.random_state)
    options, paths = replace(options, random_state=rng), None
    if metric == SHORTEST_PATH:
        landmarks, X = _paths(X, options, landmarks, n_landmarks, n_jobs)
        # The two ways along a path are added up in another order.
        paths, metric, symmetrize = X, PRECOMPUTED, True
    n = int(X.shape[0])
    bound = None if metric == PRECOMPUTED else BoundMetric.of(metric, symmetrize=symmetrize)
    ids = chosen_rows(X, bound, landmarks, n_landmarks, least_count(options.n_components), rng)
    whole = bound is None and int(X.shape[1]) == n
    space = None if bound is None else metric_on(bound, X, ids, squared)
    name = metric if bound is None else bound.metric
    if space is not None:
        among = to_numpy(space.among())
    else:
        among = to_numpy(taken(X, ids, ids if whole else slice(None)))
    _refuse_not_finite(among, ids, ids, name)
    if bound is None and not whole:
        _refuse_other_order(among, ids)
    # The landmarks are few: double precision costs nothing and saves digits, and the CPU embeds
    # them as fast as any device.
    known, _ = as_squares(among.astype(np.float64), squared=squared, symmetrize=symmetrize)
    names = columns if columns is None or not whole else [columns[i] for i in ids]
    if weights is not None:
        weights = _weights_among(weights, ids, n, names, columns if whole else index)
    options = replace(options, init=start_among(options, ids, n))
    embedding, recipe = embed_landmarks(known, options, placement, weights, squared=squared)
    embedding = replace(embedding, labels=None if names is None else tuple(map(str, names)))
    return LandmarkFit(ids, embedding, recipe, n if whole else None, space, name, paths)


def embed_by_landmarks(
    data: Any, options: Options, landmarks: Any, *, metric: Any, labels: Any = None, **reading: Any
) -> Embedding:
    """Embed landmarks and place all other objects: what `neuc_mds` does with `landmarks`."""
    count = None
    if isinstance(landmarks, (int, float, np.number)) and not isinstance(landmarks, bool):
        landmarks, count = "random", landmarks
    if metric == PRECOMPUTED:
        if isinstance(data, (Gram, Dense)):
            raise InputError(f"{option('landmarks')} takes D itself, not an operator of it.")
        if not is_dask(data):
            data, names = unwrap(data)
            labels = names if labels is None else labels
            data = to_square(data, working_dtype(data)) if data.ndim == 1 else data
    of_graph = metric == SHORTEST_PATH
    if not of_graph and not is_dask(data):
        data = as_real(data, "features")
        data = namespace(data).astype(data, working_dtype(data), copy=False)
    labels, of_all = as_labels(labels, int(data.shape[0])), data.shape[0] == data.shape[1]
    found = fit_landmarks(
        data,
        options,
        metric=metric,
        landmarks=landmarks,
        n_landmarks=count,
        columns=labels if metric == PRECOMPUTED and of_all else None,
        index=labels,
        **reading,
    )
    coordinates = found.place_all(data if found.paths is None else found.nodes())
    coordinates = to_numpy(coordinates) if is_dask(coordinates) else coordinates
    return found.of_all(coordinates, labels)


def embed_landmarks(
    sq_dissimilarity: Array,
    options: Options,
    placement: str = "auto",
    weights: Array | None = None,
    *,
    squared: bool = False,
) -> tuple[Embedding, Recipe | None]:
    """Embed landmarks; return them with the rule that places others, and how it was made.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (L, L)
        Squared dissimilarities among the landmarks.
    options : Options
        The callback does not hear of the folds, which `random_state` draws.
    placement : {"auto", "least_squares", "linear"}
        "auto" chooses the ridge, the offsets and, of "neuc" and "refined", one of two signatures
        on landmarks held out, and holds negative coordinates of the relative loss by the noise of
        each object; "least_squares" has none of these; "linear" is plain triangulation.
    weights : ndarray of shape (L, L), optional
        How much each pair counts. Nothing is cross-validated then: the offsets and the noise of a
        recipe are means over pairs that count alike.
    squared : bool, default=False
        Whether what is placed later is squared.
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
        own: dict[str, Any] = {} if whole else {"init": None, "callback": None}
        how = replace(options, n_components=wanted, method=method, **own)
        return fit(prepared, how)

    components = Components.parse(options.n_components, sq_dissimilarity.shape[0])
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
        rng = check_random_state(options.random_state)
        recipe = cross_validated(sq_dissimilarity, wanted, method, rng, embed)
    embedding = embed(sq_dissimilarity, recipe.n_components, method, whole=True)
    if has_own_rule:
        if placement == "auto" and isinstance(embedding.placement, LossPlacement):
            held = replace(embedding.placement, shrinkage=SHRINKAGE)
            embedding = replace(embedding, placement=held)
        return embedding, recipe
    rule = least_squares_rule(sq_dissimilarity, embedding, recipe)
    return replace(embedding, placement=rule), recipe


def _paths(
    graph: Any, options: Options, landmarks: Any, n_landmarks: Any, n_jobs: int | None
) -> tuple[Indices, npt.NDArray[np.float32]]:
    """Choose landmarks of a graph; return them and the paths of all nodes to them, (n, L)."""
    graph = as_graph(graph)
    n, k = int(graph.shape[0]), least_count(options.n_components)
    named = not isinstance(landmarks, str) or landmarks not in ("random", "maxmin")
    which = selection.named(landmarks, n, k) if named else landmarks
    count = 0 if named else selection.landmark_count(n_landmarks, n, k)
    rng = options.random_state
    ids, paths = landmark_paths(graph, count, which, rng, dtype=np.float32, n_jobs=n_jobs)
    return ids.astype(np.intp), np.ascontiguousarray(paths.T)


def _refuse_not_finite(
    block: Any, objects: Sequence[int] | Indices, landmarks: Indices, metric: Any
) -> None:
    """Refuse NaN and infinity, with the first pair that has it."""
    bad = np.argwhere(~np.isfinite(block))
    if not len(bad):
        return
    i, j = bad[0]
    given = metric == PRECOMPUTED
    what = "the dissimilarities hold" if given else f"{option('metric', metric)} gives"
    which = "1 pair," if len(bad) == 1 else f"{len(bad)} pairs, the first being"
    raise InputError(
        f"{what} {block[i, j]} for {which} object {int(objects[i])} and landmark "
        f"{int(np.broadcast_to(landmarks, block.shape)[i, j])}; drop or repair these objects."
    )


def _refuse_other_order(among: Any, landmarks: Indices) -> None:
    """Refuse a block in which landmarks are not at zero from themselves."""
    own = np.abs(np.diagonal(among))
    at = int(np.argmax(own))
    if own[at] > 1e-6 * np.max(np.abs(among)):
        raise InputError(
            f"landmark {int(landmarks[at])} is at {among[at, at]:.4g} from itself, not at 0; are "
            "the columns in another order than landmarks_?"
        )


def least_count(n_components: Any) -> int:
    """Coordinates that the landmarks must at least suffice for."""
    parts = np.atleast_1d(np.asarray(n_components))
    return int(parts.sum()) if np.issubdtype(parts.dtype, np.integer) else 1


def chosen_rows(
    X: Any,
    metric: BoundMetric | None,
    landmarks: Any,
    n_landmarks: Any,
    k: int,
    rng: np.random.RandomState,
) -> Indices:
    """Return the rows of the landmarks: as named, drawn, or spread out."""
    n, width = (int(size) for size in X.shape)
    if not isinstance(landmarks, str) or landmarks not in ("random", "maxmin"):
        ids = selection.named(landmarks, n, k)
        if metric is None and width not in (n, ids.size):
            raise InputError(
                f"X has {width} columns, but {ids.size} landmarks are named; pass one column per "
                f"landmark, or all {n}."
            )
        return ids
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
    space = metric_on(metric, X, ids, False)

    def to_one(i: int) -> Any:
        one = space.points[i : i + 1]
        return to_numpy(space.metric.dissimilarities(space.points, one)[:, 0])

    return np.sort(ids[selection.maxmin(ids.size, count, to_one, rng)])


def metric_on(metric: BoundMetric, X: Any, ids: Indices, squared: bool) -> FittedMetric:
    """Fit a metric to all of X, and keep some rows; in double precision, for they are few."""
    some = taken(X, ids)
    some = namespace(some).astype(some, namespace(some).float64, copy=False)
    return metric.fitted_to(X, squared, some=some)


def _weights_among(
    weights: Any, ids: Indices, n: int, of_landmarks: Any, of_all: Any
) -> npt.NDArray[np.float64]:
    """Weights of the pairs of landmarks, from theirs or from those of all pairs."""
    count = ids.size
    if not hasattr(weights, "shape"):
        weights = as_real(weights, "weights")
    shape = tuple(weights.shape)
    if shape not in ((count, count), (n, n)):
        raise InputError(
            f"{option('weights')} has shape {shape}; pass ({count}, {count}), one for each "
            f"pair of landmarks, or ({n}, {n}), one for each pair of objects."
        )
    own = shape == (count, count)
    weights = ordered_by_name(weights, of_landmarks if own else of_all, "weights", rows=True)
    given: npt.NDArray[np.float64] = to_numpy(as_real(weights, "weights")).astype(np.float64)
    return given if own else given[np.ix_(ids, ids)]


def start_among(options: Options, ids: Indices, n: int) -> Start | None:
    """Where the landmarks start, from their coordinates or from those of all objects."""
    start: Start | None = options.init
    if start is None or int(start.coordinates.shape[0]) != n:
        return start
    return replace(start, coordinates=to_numpy(start.coordinates)[ids])


def taken(X: Any, rows: Any, columns: Any = slice(None)) -> Any:
    """Rows and columns of X, in memory."""
    if is_dask(X):
        return np.asarray(X[rows][:, columns].compute())
    if is_numpy(X) and not isinstance(rows, slice) and not isinstance(columns, slice):
        return X[np.ix_(rows, columns)]  # a memory map gives no more than these entries
    xp = namespace(X)
    for axis, some in enumerate((rows, columns)):
        if not isinstance(some, slice):
            X = xp.take(X, asarray_like(some, X, dtype=xp.int64), axis=axis)
    return X
