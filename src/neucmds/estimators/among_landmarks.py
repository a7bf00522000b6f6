"""`LandmarkNeucMDS`: some objects are embedded, all others placed among them."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    empty_like,
    free_memory,
    is_array,
    is_dask,
    is_numpy,
    namespace,
    on_cpu,
    row_blocks,
    to_numpy,
)
from neucmds._backend.checkpoint import npy_output
from neucmds._backend.checkpoints import RowCheckpoint, fingerprint, refuse_same_file
from neucmds._backend.progress import progress_bar
from neucmds._backend.threads import fill_rows, thread_count
from neucmds._input import as_dissimilarity, read_square
from neucmds._input.components import NComponents
from neucmds._input.containers import (
    as_real,
    ordered_by_name,
    refuse_sparse_tensor,
    rows_ordered_as,
)
from neucmds._input.readers.new_objects import read_new_objects
from neucmds._input.validation import check_flags, working_dtype
from neucmds._methods.refined.loss_starts import Place, as_start
from neucmds._operator.graph import as_graph, landmark_paths
from neucmds._operator.metric_registry import (
    FittedMetric,
    fitted_params,
    known_everywhere,
    on_rows,
)
from neucmds._placement import landmark_selection
from neucmds._placement.new_rows import (
    checked_weights,
    median_r2,
    without_negative,
)
from neucmds._placement.triangulation import PLACEMENTS, Recipe
from neucmds.api import DEFAULT_METHOD, Options, embed_landmarks
from neucmds.embedding import Embedding
from neucmds.errors import InputError, MisfitWarning, option
from neucmds.estimators.signed_transformer import SignedTransformer

# Objects that "maxmin" looks at, a landmark: each costs as many dissimilarities as placing it does.
SPREAD_SAMPLE = 10
# New objects are measured where coordinates explain this much of the variance among landmarks, and
# are nothing like them below this share of it. Five data sets, k = 5 and 20, L = 4k to 12k: 0.62 of
# it or more in the right order of columns, 0.19 or less in a random one.
FITTED, MISFIT = 0.6, 1 / 3
MEASURED_ROWS = 64


class LandmarkNeucMDS(SignedTransformer):
    """Embed landmarks, then place every object from its dissimilarities to them.

    `fit` embeds the landmarks and learns, from landmarks held out, how to place others; `transform`
    places objects, fitted ones and later arrivals alike, in chunks and in threads. The n×n matrix
    never exists. Paper: Landmark MDS paragraph of sec:experiments.

    Parameters
    ----------
    n_components : int, (int, int), float or "auto", default=2
        Number of coordinates, or a pair (p, q) of positive and negative ones; a share between 0 and
        1, or "auto", as in `neuc_mds`, chosen on the landmarks.
    n_landmarks : int, float or None, default=None
        Number of landmarks, or their share of all objects. None: 1000, or 4k if that is more.
    landmarks : {"random", "maxmin"} or sequence of int, default="random"
        Drawn; spread out, each the farthest from those before it, among 10 objects drawn for each
        landmark, or all of a D in memory; or named by their rows.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        How the landmarks are embedded.
    placement : {"auto", "least_squares", "linear"}, default="auto"
        "auto": least squares with a ridge and offsets chosen on landmarks held out; with "neuc" the
        signature is chosen so too. "least_squares": without these. "linear": plain triangulation,
        which divides by small eigenvalues.
    loss : {"squared", "distance", "relative"}, default="squared"
        What "refined" minimises, and what places new objects; see `neucmds.neuc_mds`. "relative"
        lets near pairs count like far ones: for neighbours and retrieval.
    metric : str or callable, default="precomputed"
        "precomputed": X holds dissimilarities, all of them (n, n) or those to the landmarks (n, L);
        for the latter, `landmarks` must name the rows. "shortest_path": X is a graph, a
        `scipy.sparse` array of lengths of edges, and `transform` takes it or numbers of its nodes.
        Otherwise X holds features, and the metric is one of those of `NeucMDS`, or a function of
        two rows.
    metric_params : dict, optional
        Further arguments of the metric.
    squared : bool, default=False
        Whether the dissimilarities are squared already (and may then be negative).
    symmetrize : bool, default=False
        Average the dissimilarities among landmarks and their transpose if they differ.
    tol : float, optional
        As for `neuc_mds`.
    random_state : int, RandomState or None
        Draws landmarks and folds.
    n_jobs : int or None, default=None
        Threads that place objects; None and -1 are all cores.
    init : Embedding or (coordinates, signs), optional
        Where "refined" starts: a warm start, which keeps its signature. Of the landmarks, or of all
        objects, from which the landmarks are taken.
    callback : callable, optional
        ``callback(step, total, what)``, as for `neuc_mds`, of the landmarks' fit.
    verbose : int, default=0
        Show the iterations of "refined", how far `transform` has come and how long it will still
        take, on standard error, and print a line on what was found.

    Attributes
    ----------
    landmarks_ : ndarray of shape (L,)
        Rows of the landmarks.
    result_ : Embedding
        Of the landmarks; its `transform` places objects by their (m, L) dissimilarities to them.
    recipe_ : Recipe or None
        What was chosen on landmarks held out.
    signature_ : ndarray of shape (k,)
        ±1.0: the sign of each coordinate.
    eigenvalues_, weights_ : ndarray
        Of the landmarks.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X has string column names.

    See Also
    --------
    NeucMDS : All of D at once.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from neucmds import LandmarkNeucMDS
    >>> X = load_digits().data
    >>> est = LandmarkNeucMDS(n_components=5, n_landmarks=200, metric="cityblock", random_state=0)
    >>> est.fit_transform(X).shape
    (1797, 5)
    """

    def __init__(
        self,
        n_components: NComponents = 2,
        n_landmarks: int | float | None = None,
        *,
        landmarks: Any = "random",
        method: str = DEFAULT_METHOD,
        placement: str = "auto",
        loss: str = "squared",
        metric: Any = "precomputed",
        metric_params: dict[str, Any] | None = None,
        squared: bool = False,
        symmetrize: bool = False,
        tol: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        init: Any = None,
        callback: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.method = method
        self.placement = placement
        self.loss = loss
        self.metric = metric
        self.metric_params = metric_params
        self.squared = squared
        self.symmetrize = symmetrize
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.init = init
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, weights: Any = None) -> LandmarkNeucMDS:
        """Choose and embed the landmarks, and learn how to place objects among them.

        Parameters
        ----------
        X : array of shape (n, n_features), (n, n) or (n, L), NumPy or dask, or path
            Features; or dissimilarities, all or those to the landmarks; or the file of all.
        y : ignored
        weights : array or DataFrame of shape (L, L) or (n, n), optional
            How much each pair of landmarks counts, in the order of their rows; or each pair of
            objects, from which theirs are taken. Names are matched with those of the columns of
            dissimilarities. "refined" only. Nothing is then chosen on landmarks held out, and
            others are placed by least squares.

        Returns
        -------
        self
        """
        if self.placement not in PLACEMENTS:
            raise InputError(
                f"{option('placement', self.placement)} is unknown; choose one of "
                f"{', '.join(PLACEMENTS)}."
            )
        check_flags(squared=self.squared, symmetrize=self.symmetrize)
        rng = check_random_state(self.random_state)
        of_graph = self.metric == "shortest_path"
        given_X = X
        if of_graph:
            X = self._search_paths(X, rng)
        else:
            X = self._checked(X)
            self.landmarks_ = self._choose(X, rng)
        self._fitted_on_all = self._precomputed and X.shape[0] == X.shape[1]
        given = self._precomputed or of_graph
        self._space = None if given else self._metric_on(X, self.landmarks_)
        if self._space is not None:
            among = self._finite(self._space.among(), self.landmarks_)
        else:
            columns = self.landmarks_ if self._fitted_on_all else slice(None)
            among = self._finite(taken(X, self.landmarks_, columns), self.landmarks_)
            refuse_other_order(to_numpy(among), self.landmarks_)
        # The landmarks are few: double precision costs nothing and saves digits, and the CPU
        # embeds them as fast as any device.
        known = as_dissimilarity(
            to_numpy(among).astype(np.float64),
            squared=self.squared,
            # The two ways along a path are added up in another order.
            symmetrize=self.symmetrize or of_graph,
        )
        self._placed: Embedding | None = None
        self.recipe_: Recipe | None
        n = int(X.shape[0])
        with self._listener() as callback:
            options = Options(
                self.n_components,
                self.method,
                self.loss,
                random_state=rng,
                tol=self.tol,
                init=self._start_among(n),
                callback=callback,
            )
            self.result_, self.recipe_ = embed_landmarks(
                known.values,
                options,
                self.placement,
                rng=rng,
                weights=self._weights_among(weights, given_X, n),
                squared=self.squared,
            )
        self.result_ = replace(self.result_, labels=self._names())
        return self

    def _names(self) -> tuple[str, ...] | None:
        """Names of the landmarks, where the columns of X have names."""
        names = getattr(self, "feature_names_in_", None)
        if names is None or not self._precomputed:
            return None
        return tuple(map(str, names[self.landmarks_] if self._fitted_on_all else names))

    def _names_of_all(self, X: Any) -> tuple[str, ...] | None:
        """Names of all objects, where the columns of dissimilarities or the rows have names."""
        if not self._precomputed:
            return None
        if self._fitted_on_all:
            names = getattr(self, "feature_names_in_", None)
        else:
            names = X.index if hasattr(X, "index") and hasattr(X, "columns") else None
        if names is None or not all(isinstance(name, str) for name in names):
            return None
        return tuple(map(str, names))

    def _weights_among(self, weights: Any, X: Any, n: int) -> Any:
        """Weights of the pairs of landmarks, from theirs or from those of all pairs."""
        if weights is None:
            return None
        count = self._n_landmarks
        shape = getattr(weights, "shape", None)
        if shape in ((count, count), (n, n)):
            names = self._names() if shape == (count, count) else self._names_of_all(X)
            weights = ordered_by_name(weights, names, "weights", rows=True)
        given = to_numpy(as_real(weights, "weights")).astype(np.float64)
        if given.shape == (count, count):
            return given
        if given.shape == (n, n):
            return given[np.ix_(self.landmarks_, self.landmarks_)]
        raise InputError(
            f"{option('weights')} has shape {given.shape}; pass ({count}, {count}), one for each "
            f"pair of landmarks, or ({n}, {n}), one for each pair of objects."
        )

    def _start_among(self, n: int) -> Place | None:
        """Where the landmarks start, from their coordinates or from those of all objects."""
        start = as_start(self.init)
        if start is None or int(start.coordinates.shape[0]) != n:
            return start
        return Place(to_numpy(start.coordinates)[self.landmarks_], start.signs)

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        out: str | PathLike[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        *,
        weights: Any = None,
    ) -> Array:
        """Fit, and place all objects.

        Parameters
        ----------
        X : array
            As for `fit`.
        y : ignored
        out, checkpoint : path, optional
            As for `transform`. The same model is fitted again only with a `random_state`.
        weights : array or DataFrame of shape (L, L) or (n, n), optional
            As for `fit`. When objects are placed, all their dissimilarities count alike.

        Returns
        -------
        array of shape (n, k)
        """
        refuse_same_file(out, checkpoint)
        coordinates = self.fit(X, weights=weights)._transform(X, out, checkpoint=checkpoint)
        if not is_dask(coordinates):
            self._placed = replace(self.result_, coordinates=coordinates, labels=None)
        return coordinates

    def transform(
        self,
        X: Any,
        out: str | PathLike[str] | None = None,
        *,
        weights: Any = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Array:
        """Place objects.

        Parameters
        ----------
        X : array of shape (m, n_features), (m, n) or (m, L), NumPy or dask
            Features of the objects, or their dissimilarities to all fitted objects or to the
            landmarks.
        out : path, optional
            Write the coordinates to this ``.npy`` file instead of memory; the memory map of it is
            returned. Not for dask arrays, which have `dask.array.to_npy_stack` and others.
        weights : array or DataFrame of shape (m, L), optional
            How much each dissimilarity to a landmark counts, for NumPy arrays; see
            `Embedding.transform`.
        checkpoint : path, optional
            Write what has been placed to this file, too, and begin with what it holds: after an
            interruption the same call goes on, with the same result to the last bit. What was
            placed by another model or from other rows, or is damaged, is placed anew, with a
            warning. The file is removed when all is done, and cannot be `out`. For NumPy arrays.

        Returns
        -------
        array of shape (m, k)
            A lazy dask array if X is one; of the library and on the device of X otherwise.
        """
        check_is_fitted(self)
        # Here and not where paths are looked up: `fit_transform` has just found them.
        self._refuse_other_graph(X)
        return self._transform(X, out, weights, checkpoint)

    def _transform(
        self,
        X: Any,
        out: str | PathLike[str] | None = None,
        weights: Any = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Array:
        refuse_same_file(out, checkpoint)
        given, X = X, self._checked(X, reset=False)
        if is_dask(X) or is_elsewhere(X):
            for name, value in (("weights", weights), ("checkpoint", checkpoint)):
                if value is not None:
                    raise InputError(f"{option(name)} is for NumPy arrays.")
        if is_elsewhere(X):
            return self._placed_where_it_is(X, out)
        width = max(X.shape[1], self._n_landmarks)
        if is_dask(X):
            from neucmds._backend.dask_arrays import map_rows

            if out is not None:
                raise InputError("out= is for arrays in memory; store the dask array that returns.")
            return map_rows(X, self._place, self.result_.k, width)
        if weights is not None:
            weights = rows_ordered_as(weights, given, "rows of weights")
            shape = (X.shape[0], self._n_landmarks)
            weights = checked_weights(weights, shape, self.result_.k, self.result_.labels)
        progress = progress_bar("placed") if self.verbose else None
        shape = (X.shape[0], self.result_.k)
        n_threads = thread_count(self.n_jobs)

        def place(rows: slice) -> Any:
            u = None if weights is None else weights[rows]
            if kept is None:
                return self._place(X[rows], rows.start, u)
            made_of = X[rows] if u is None else np.concatenate([X[rows], u], axis=1)
            return kept.rows(rows, made_of, lambda: self._place(X[rows], rows.start, u))

        kept = None
        if checkpoint is not None:
            parts = list(row_blocks(shape[0], width))
            kept = RowCheckpoint(checkpoint, shape, X.dtype, parts, self._fingerprint())
        with kept or nullcontext():
            with npy_output(out, shape, X.dtype) as target:
                fill_rows(target, place, width, n_threads, progress)
            if kept is not None:  # the result has its place by now
                kept.remove()
        if out is not None:
            target = np.load(out, mmap_mode="r")
        if weights is None:
            self._warn_of_misfit(X, target)
        if out is not None:
            return target
        return asarray_like(target, given) if is_elsewhere(given) else target

    def _search_paths(self, X: Any, rng: np.random.RandomState) -> Any:
        """Choose landmarks of a graph; keep and return the paths of all nodes to them, (n, L)."""
        if self.squared:
            raise InputError(
                f"lengths of paths are not squared; pass {option('squared', False)} with "
                f"{option('metric', 'shortest_path')}."
            )
        graph = as_graph(X)
        n = self.n_features_in_ = int(graph.shape[0])
        named = not isinstance(self.landmarks, str)
        which = landmark_selection.named(self.landmarks, n, self._k) if named else self.landmarks
        count = 0 if named else landmark_selection.landmark_count(self.n_landmarks, n, self._k)
        self.landmarks_, rows = landmark_paths(
            graph, count, which, rng, dtype=np.float32, n_jobs=self.n_jobs
        )
        self._paths = np.ascontiguousarray(rows.T)
        self._graph = _digest_of_graph(graph)
        return self._paths

    def _refuse_other_graph(self, X: Any) -> None:
        """Refuse a graph whose paths to the landmarks are not those that are kept."""
        if self.metric != "shortest_path" or not hasattr(X, "tocoo"):
            return
        n = self.n_features_in_
        if tuple(X.shape) != (n, n):
            raise InputError(
                f"the graph has {X.shape[0]} nodes, but {n} were fitted; pass the same graph, "
                "or numbers of its nodes."
            )
        if _digest_of_graph(as_graph(X)) != self._graph:
            raise InputError(
                "the edges or lengths of the graph are not those that were fitted; pass the same "
                "graph, or numbers of its nodes, or fit this one."
            )

    def _paths_of(self, X: Any) -> Any:
        """Paths to the landmarks of all nodes of the fitted graph, or of some by their numbers."""
        n = self.n_features_in_
        if hasattr(X, "tocoo"):
            return self._paths
        nodes = np.asarray(X)
        whole = nodes.ndim == 1 and np.issubdtype(nodes.dtype, np.integer)
        if not whole or nodes.min(initial=0) < 0 or nodes.max(initial=0) >= n:
            raise InputError(f"pass the graph, or numbers of its nodes from 0 to {n - 1}.")
        return self._paths[nodes]

    def _placed_where_it_is(self, X: Array, out: str | PathLike[str] | None) -> Array:
        """Place objects with the library and on the device of X, in blocks that fit there."""
        width = max(int(X.shape[1]), self._n_landmarks)
        shape = (int(X.shape[0]), self.result_.k)
        progress = progress_bar("placed") if self.verbose else None
        free = free_memory(X)
        # Some ten arrays of a block live at a time; beyond 2²⁷ entries nothing runs faster.
        entries = 2**21 if free is None else max(2**21, min(2**27, free // 160))
        on_disk = npy_output(out, shape, str(X.dtype).removeprefix("torch."))
        with on_disk if out is not None else nullcontext(empty_like(X, shape)) as target:
            for rows in row_blocks(shape[0], width, entries):
                placed = self._place(X[rows, :], rows.start)
                target[rows] = placed if out is None else to_numpy(placed)
                if progress is not None:
                    progress(rows.stop, shape[0])
        return target if out is None else np.load(out, mmap_mode="r")

    @property
    def embedding_(self) -> Array:
        """Coordinates of all fitted objects; there only after `fit_transform`."""
        return self._searched.coordinates

    @property
    def _searched(self) -> Embedding:
        if self._placed is None:
            raise AttributeError(
                "only the landmarks have coordinates (result_.coordinates); call fit_transform to "
                "place all objects."
            )
        return self._placed

    def dissimilarities(self) -> Array:
        """D̂ between the objects of `embedding_`, on the squared scale; it may be negative."""
        check_is_fitted(self)
        return self._searched.dissimilarities()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the embedding of the landmarks, which places new objects, to one npz file.

        Parameters
        ----------
        path : str or Path
            `Embedding.load` reads it; its `transform` takes dissimilarities to the landmarks.
        """
        check_is_fitted(self)
        self.result_.save(path)

    def _measured(self, X: Any) -> Any:
        """Squared dissimilarities of new objects to the landmarks, as NumPy float64."""
        self._refuse_other_graph(X)
        new = self._checked(X, reset=False)
        new = to_numpy(new) if is_dask(new) else new
        return to_numpy(self._sq_to_landmarks(new, np.arange(new.shape[0]))).astype(np.float64)

    @property
    def _n_landmarks(self) -> int:
        return int(self.landmarks_.size)

    @property
    def _k(self) -> int:
        parts = np.atleast_1d(np.asarray(self.n_components))
        return int(parts.sum()) if np.issubdtype(parts.dtype, np.integer) else 1

    def _choose(self, X: Any, rng: np.random.RandomState) -> Any:
        n, k = int(X.shape[0]), self._k
        if not isinstance(self.landmarks, str):
            ids = landmark_selection.named(self.landmarks, n, k)
            if self._precomputed and X.shape[1] not in (n, ids.size):
                raise InputError(
                    f"X has {X.shape[1]} columns, but {ids.size} landmarks are named; pass one "
                    f"column a landmark, or all {n}."
                )
            return ids
        if self.landmarks not in ("random", "maxmin"):
            raise InputError(
                f"{option('landmarks', self.landmarks)} must be 'random', 'maxmin' or row numbers."
            )
        if self._precomputed and X.shape[0] != X.shape[1]:
            raise InputError(
                f"X is {X.shape[0]} × {X.shape[1]}, dissimilarities to landmarks only; pass the "
                "landmarks' rows as landmarks=, or metric= if X holds features."
            )
        count = landmark_selection.landmark_count(self.n_landmarks, n, k)
        if self.landmarks == "random":
            return landmark_selection.random_sample(n, count, rng)
        return self._spread(X, count, rng)

    def _spread(self, X: Any, count: int, rng: np.random.RandomState) -> Any:
        n = int(X.shape[0])
        if self._precomputed and not is_dask(X):
            return np.sort(landmark_selection.maxmin(n, count, lambda i: to_numpy(X[:, i]), rng))
        ids = landmark_selection.random_sample(n, min(n, SPREAD_SAMPLE * count), rng)
        if self._precomputed:
            among = taken(X, ids, ids)
            chosen = landmark_selection.maxmin(ids.size, count, lambda i: among[:, i], rng)
        else:
            space = self._metric_on(X, ids)

            def to_one(i: int) -> Any:
                one = space.points[i : i + 1]
                return to_numpy(space.metric.dissimilarities(space.points, one)[:, 0])

            chosen = landmark_selection.maxmin(ids.size, count, to_one, rng)
        return np.sort(ids[chosen])

    def _metric_on(self, X: Any, ids: Any) -> FittedMetric:
        """Fit the metric to all of X, and keep some rows; in double precision, for they are few."""
        some = widened(taken(X, ids))
        metric, params = on_rows(self.metric, some, self.metric_params or {})
        return FittedMetric.of(metric, some, self.squared, fitted_params(metric, X, params))

    def _fingerprint(self) -> bytes:
        """Digest of all that coordinates depend on, but for the rows that are placed."""
        space = self._space
        measure = None if space is None else (space.points, vars(space.metric), self.metric)
        return fingerprint(
            self.result_.placement, self.landmarks_, self.squared, self._fitted_on_all, measure
        )

    def _warn_of_misfit(self, X: Any, placed: Any) -> None:
        """Warn where it looks as if columns were in another order than the landmarks."""
        fitted = self.result_
        if not self._precomputed or not X.shape[0] or not fitted.r2 >= FITTED:
            return
        some = slice(0, min(MEASURED_ROWS, X.shape[0]))
        sq_new = self._sq_to_landmarks(X[some], np.arange(some.stop))
        found = median_r2(sq_new, placed[some], fitted.coordinates, fitted.signs)
        if found < MISFIT * fitted.r2:
            warnings.warn(
                f"the coordinates explain {max(0.0, found):.0%} of the variance of a new object's "
                f"dissimilarities to the landmarks (median), and {fitted.r2:.0%} among landmarks: "
                "are the columns in the order of landmarks_?",
                MisfitWarning,
                stacklevel=4,
            )

    def _place(self, X: Any, start: int = 0, weights: Any = None) -> Any:
        """Coordinates of some rows of X; `start` is the number of the first, for messages."""
        ids = np.arange(start, start + X.shape[0])
        placement = self.result_.placement
        assert placement is not None
        sq_new = self._sq_to_landmarks(X, ids)
        if self.squared and X.shape[0]:
            whose = f" of objects {ids[0]} to {ids[-1]}"
            sq_new = without_negative(sq_new, self.result_.loss, weights, whose)
        placed = placement.place(sq_new, weights)
        return namespace(X).astype(placed, X.dtype, copy=False)

    def _sq_to_landmarks(self, X: Any, ids: Any) -> Any:
        """Squared dissimilarities (m, L) of rows of X to the landmarks, finite or refused."""
        if self._space is not None:
            return self._finite(self._space.squares(widened(X)), ids)
        whole = self._fitted_on_all and X.shape[1] == self.n_features_in_
        block = self._finite(taken(X, slice(None), self.landmarks_) if whole else X, ids)
        if self.squared:
            return block
        lowest = float(namespace(block).min(block)) if block.shape[0] else 0.0
        if lowest < 0:
            raise InputError(
                f"dissimilarities have a negative entry ({lowest:.3g}), but the fit was on "
                f"unsquared ones ({option('squared', False)})."
            )
        # Squares of 1e-25 are zero in single precision, and those of 1e20 infinite.
        size = math.sqrt(self.result_.sq_norm) / self._n_landmarks
        return namespace(block).square(block if 1e-24 < size < 1e24 else widened(block))

    def _finite(self, block: Any, ids: Any) -> Any:
        # One sum finds what is not finite; only then is it worth looking for.
        xp = namespace(block)
        if not math.isfinite(float(xp.sum(block, dtype=xp.float64))):
            self._refuse_not_finite(to_numpy(block), ids)
        return block

    def _refuse_not_finite(self, block: Any, ids: Any) -> None:
        bad = ~np.isfinite(block)
        if not bad.any():
            return
        i, j = (int(at) for at in np.argwhere(bad)[0])
        what = "the dissimilarities" if self._precomputed else option("metric", self.metric)
        verb = "hold" if self._precomputed else "gives"
        count = int(bad.sum())
        which = "1 pair," if count == 1 else f"{count} pairs, the first being"
        raise InputError(
            f"{what} {verb} {block[i, j]} for {which} object {int(ids[i])} and landmark "
            f"{int(self.landmarks_[j])}; drop or repair these objects."
        )

    def _checked(self, X: Any, reset: bool = True) -> Any:
        if self.metric == "shortest_path":
            return self._paths_of(X)
        if isinstance(X, (str, PathLike)):
            X = (
                read_square(X)
                if reset
                else read_new_objects(str(X), int(self.n_features_in_)).values
            )
        if hasattr(X, "tocoo"):
            raise InputError(
                "X is a sparse array, which is taken as a graph with metric='shortest_path' alone; "
                "pass X.toarray()."
            )
        if is_elsewhere(X):
            refuse_sparse_tensor(X, "X")
            if not on_cpu(X) and (self._precomputed or known_everywhere(self.metric)):
                return self._checked_elsewhere(X, reset)
            # In main memory NumPy and SciPy are quicker, and on a GPU they know more metrics.
            X = to_numpy(X)
        if is_dask(X):
            from neucmds._backend.dask_arrays import check_rows

            X = check_rows(X)
            if reset:
                self.n_features_in_ = int(X.shape[1])
            return X
        if not reset and self._precomputed and getattr(X, "shape", ())[1:] == (self._n_landmarks,):
            # Later arrivals need no dissimilarities but those to the landmarks.
            X = ordered_by_name(X, self.result_.labels, "columns of new objects", rows=False)
            return check_array(X, dtype=("float64", "float32"))
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=("float64", "float32"),
            ensure_min_samples=2 if reset else 1,
        )

    def _checked_elsewhere(self, X: Array, reset: bool) -> Array:
        """Check an array of another library where it is, as scikit-learn does one of NumPy."""
        if len(X.shape) != 2:
            raise InputError(f"X has {len(X.shape)} dimensions; pass a matrix, one row an object.")
        width = int(X.shape[1])
        if reset:
            self.n_features_in_ = width
        if width != self.n_features_in_ and not (self._precomputed and width == self._n_landmarks):
            raise InputError(f"X has {width} columns, but {self.n_features_in_} were fitted.")
        xp = namespace(X)
        X = xp.astype(X, working_dtype(X), copy=False)
        if not math.isfinite(float(xp.sum(X, dtype=xp.float64))) and not bool(
            xp.all(xp.isfinite(X))
        ):
            raise InputError("Input X contains NaN or infinity; drop or repair these rows.")
        return X


def refuse_other_order(among: Any, landmarks: Any) -> None:
    """Refuse dissimilarities among landmarks that are zero at other places than the diagonal."""
    own = np.arange(landmarks.size)
    zero = np.argmin(np.abs(among), axis=1)
    apart = np.flatnonzero(among[own, own] != 0)
    if apart.size and np.all(among[own, zero] == 0) and np.array_equal(np.sort(zero), own):
        at = int(apart[0])
        raise InputError(
            f"the columns of X are in another order than {option('landmarks')}: column {zero[at]} "
            f"is that of landmark {landmarks[at]}, which is number {at}; put them in one order."
        )


def _digest_of_graph(graph: Any) -> bytes:
    """Digest of what `as_graph` made: the same for every order in which edges are stored."""
    return fingerprint(graph.indptr, graph.indices, graph.data)


def is_elsewhere(X: Any) -> bool:
    """Tell whether an array belongs to another library than NumPy or dask."""
    return is_array(X) and not is_numpy(X) and not is_dask(X)


def taken(X: Any, rows: Any, columns: Any = slice(None)) -> Any:
    """Rows and columns of X, in memory."""
    if is_dask(X):
        return np.asarray(X[rows][:, columns].compute())
    if is_elsewhere(X):
        xp = namespace(X)
        for axis, some in enumerate((rows, columns)):
            if not isinstance(some, slice):
                X = xp.take(X, asarray_like(some, X, dtype=xp.int64), axis=axis)
        return X
    if isinstance(rows, slice):
        return X[:, columns]
    return X[rows] if isinstance(columns, slice) else X[np.ix_(rows, columns)]


def widened(X: Array) -> Array:
    """X in double precision."""
    xp = namespace(X)
    return xp.astype(X, xp.float64, copy=False)
