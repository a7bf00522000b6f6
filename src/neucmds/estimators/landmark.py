"""`LandmarkNeucMDS`: embed landmarks, and place all other objects among them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from os import PathLike
from typing import Any, Literal

import joblib
import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    is_dask,
    is_numpy,
    namespace,
    on_cpu,
    sparse_in_memory,
    to_numpy,
)
from neucmds.backend.progress import ProgressBar
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.estimators.transformer import (
    SignedTransformer,
    in_one_line,
    is_other_library,
)
from neucmds.fitting import warn_of_surprises
from neucmds.large.landmarks import fit_landmarks
from neucmds.large.placing import LandmarkFit
from neucmds.options import (
    DEFAULT_METHOD,
    Loss,
    Method,
    Options,
    check_support,
)
from neucmds.place.new_rows import checked_weights
from neucmds.place.recipe import Recipe
from neucmds.problem.components import N_COMPONENTS, NComponents
from neucmds.problem.containers import (
    as_objects,
    as_real,
    read_square,
    refuse_networkx,
    refuse_sparse_tensor,
)
from neucmds.problem.files import read_new_objects
from neucmds.problem.graph import joined_paths, named_graph
from neucmds.problem.metrics import known_everywhere
from neucmds.problem.names import ordered_by_name, row_names, rows_ordered_as
from neucmds.problem.validation import check_count, working_dtype


@dataclass(eq=False, repr=False)
class LandmarkNeucMDS(SignedTransformer):
    """Embed landmarks, then place every object from its dissimilarities to them.

    `fit` embeds the landmarks, learns from landmarks held out how to place others, and places all
    fitted objects; `transform` places later arrivals. Both work in chunks and in threads. The n×n
    matrix never exists. Paper: Landmark MDS paragraph of sec:experiments.

    Parameters
    ----------
    n_components, method, loss, floor, curvature, squared, tol, n_init
        As for `neuc_mds`, applied to the landmarks. New objects are placed by minimising the same
        `loss`.
    n_landmarks : int, float or None, default=None
        Number of landmarks, or their share of all objects. None: 1000, or 4·k if that is more. With
        two levels: the largest of 3000, 2 % of the objects (at most 20,000 unless X is a graph) and
        36·k; with a function as `metric`, 20,000, or all objects if there are fewer.
    n_near : int or None, default=0
        Above 0, two levels: a random subset of the landmarks, at least 12·k, are the global ones.
        Each object, landmarks included, is compared with 6·k global landmarks drawn for it, which
        give it a provisional place, and then with the `n_near` landmarks nearest to that place (in
        a graph: nearest by path). This takes fewer dissimilarities and fits near pairs better. Use
        it with `loss="relative"`, with an expensive metric, or for a million objects. None: 3·k. 0:
        every object is compared with all landmarks.
    landmarks : {"random", "maxmin"} or sequence of int, default="random"
        "random": drawn. "maxmin": farthest-point sampling among 10·L random candidates. Sequence:
        row numbers.
    placement : {"auto", "least_squares", "linear"}, default="auto"
        "auto": least squares with a ridge, with or without subtracting each landmark's mean error,
        and for "neuc" and "refined" with or without negative coordinates, all chosen on held-out
        landmarks; for ``loss="relative"`` negative coordinates
        are shrunk according to their noise.
        "least_squares": without these. "linear": plain triangulation, which divides by small
        eigenvalues. With two levels only "auto" is accepted.
    metric : str or callable, default="precomputed"
        "precomputed": X holds dissimilarities, all of them (n, n) or those to the landmarks (n, L);
        for the latter, `landmarks` must name the rows. "shortest_path": X is a graph, as for
        `neuc_mds`, and `transform` takes it, numbers of its nodes, or edges of new nodes. For a
        sparse PyTorch or CuPy array, shortest paths run on the CPU and nodes are placed on the
        array's device. For any other metric X holds features; it is one of those of `NeucMDS`, or a
        function of two rows.
    metric_params : dict, optional
        Further arguments of the metric.
    symmetrize : bool, default=False
        Average the dissimilarities among landmarks and their transpose if they differ; with a
        function as `metric`, every dissimilarity is averaged over both argument orders.
    random_state : int, RandomState, Generator or None, default=0
        Draws landmarks and folds, as for `neuc_mds`.
    n_jobs : int or None, default=None
        Threads that place objects; None and -1 are all cores.
    init : Embedding or (coordinates, signs), optional
        A warm start, whose signature is kept: coordinates of the landmarks, or of all objects (the
        landmark rows are used). With two levels only the global landmarks start there.
    callback : callable, optional
        As for `neuc_mds`, during the fit of the landmarks.
    verbose : int, default=0
        Show the iterations of "refined" and the progress of `transform` on standard error, and
        print a summary in one line.

    Attributes
    ----------
    landmarks_ : ndarray of shape (L,)
        Rows of the landmarks.
    landmark_result_ : Embedding
        Of the landmarks; its `transform` places objects by their (m, L) dissimilarities to them.
    embedding_ : array of shape (n, k)
        Coordinates of all fitted objects, landmarks where they were fitted; a lazy dask array if X
        is one.
    result_ : Embedding
        Of all fitted objects, with these coordinates; its `landmarks` are `landmarks_`.
    recipe_ : Recipe or None
        The choice made on held-out landmarks; None if the loss or weights give a rule.
    signs_ : array of shape (k,)
        ±1.0: the sign of each coordinate.
    signature_ : (int, int)
        Numbers of positive and of negative coordinates (p, q).
    eigenvalues_, weights_ : ndarray
        Of the landmarks: eigenvalues, and the signed squared length of each coordinate.
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

    n_components: NComponents = N_COMPONENTS
    n_landmarks: int | float | None = None
    _: KW_ONLY
    n_near: int | None = 0
    landmarks: Any = "random"
    method: Method = DEFAULT_METHOD
    placement: Literal["auto", "least_squares", "linear"] = "auto"
    loss: Loss = "squared"
    floor: float | None = None
    curvature: float | Literal["auto"] = 0.0
    metric: Any = "precomputed"
    metric_params: dict[str, Any] | None = None
    squared: bool = False
    symmetrize: bool = False
    tol: float | None = None
    random_state: Any = 0
    n_jobs: int | None = None
    n_init: int | None = None
    init: Any = None
    callback: Any = None
    verbose: int = 0

    def fit(
        self, X: Any, y: Any = None, *, weights: Any = None
    ) -> LandmarkNeucMDS:
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
        return self._fit_and_place(X, weights=weights)

    def _fit_and_place(
        self,
        X: Any,
        out: str | PathLike[str] | None = None,
        weights: Any = None,
    ) -> LandmarkNeucMDS:
        with self._fitting() as callback:
            metric = self._bound_metric()
            items = as_objects(X) if callable(self.metric) else None
            like = None
            self._names = None if self._of_graph else row_names(X)
            if items is not None:
                rows, metric = metric.numbered(items)
            elif self._of_graph:
                stored, like = sparse_in_memory(X)
                rows, self._names = named_graph(
                    stored, None, self.metric_params
                )
                self.n_features_in_ = int(rows.shape[0])
                self._graph = _digest(rows)
            else:
                rows = self._checked(X)
            options = Options(
                n_components=self.n_components,
                method=self.method,
                loss=self.loss,
                floor=self.floor,
                curvature=self.curvature,
                metric=metric,
                landmarks=self.landmarks,
                squared=self.squared,
                symmetrize=self.symmetrize,
                weights=weights,
                random_state=self.random_state,
                tol=self.tol,
                n_init=self.n_init,
                init=self.init,
                callback=callback,
            )
            check_support(options, "landmarks")
            fitted = fit_landmarks(
                rows,
                options,
                n_landmarks=self.n_landmarks,
                n_near=self.n_near,
                placement=self.placement,
                columns=getattr(self, "feature_names_in_", None)
                if self._precomputed
                else None,
                index=row_names(X),
                n_jobs=self.n_jobs,
                like=like,
            )
            self._fitted = fitted
            self.landmarks_ = fitted.landmarks
            self.landmark_result_: Embedding = fitted.embedding
            self.recipe_: Recipe | None = fitted.recipe
            rows = np.arange(fitted.n) if self._of_graph else rows
            self._coordinates = self._placed(rows, X, out, fitted=True)
        warn_of_surprises(self.landmark_result_)
        return self

    def _placed(
        self,
        rows: Any,
        X: Any,
        out: str | PathLike[str] | None = None,
        *,
        places: LandmarkFit | None = None,
        **how: Any,
    ) -> Array:
        """Place rows, and return their coordinates in the library of X."""
        callback = ProgressBar() if self.verbose else None
        fitted = self._fitted if places is None else places
        placed = fitted.place_all(
            rows, out, n_jobs=self.n_jobs, callback=callback, **how
        )
        return (
            asarray_like(placed, X)
            if out is None and is_other_library(X)
            else placed
        )

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        out: str | PathLike[str] | None = None,
        *,
        weights: Any = None,
    ) -> Array:
        """Fit, and return the coordinates of all objects, `embedding_`.

        Landmarks stay where they were fitted; ``fit(X).transform(X)`` places their rows anew, as
        those of other objects, and so moves them a little. Nodes of a graph stay.

        Parameters
        ----------
        X : array
            As for `fit`.
        y : ignored
        out : path, optional
            As for `transform`.
        weights : array or DataFrame of shape (L, L) or (n, n), optional
            As for `fit`. When objects are placed, all their dissimilarities count alike.

        Returns
        -------
        array of shape (n, k)
        """
        return self._fit_and_place(X, out, weights).embedding_

    def transform(
        self,
        X: Any,
        out: str | PathLike[str] | None = None,
        *,
        weights: Any = None,
    ) -> Array:
        """Place objects.

        Parameters
        ----------
        X : array of shape (m, n_features), (m, n) or (m, L), NumPy or dask
            Features of the objects, or their dissimilarities to all fitted objects or to the
            landmarks. Of a graph: itself, numbers of its nodes, or lengths of the edges of new
            nodes to fitted ones as a sparse array (m, n).
        out : path, optional
            Write the coordinates to this ``.npy`` file instead of memory; the memory map of it is
            returned. Not for dask arrays, which have `dask.array.to_npy_stack` and others.
        weights : array or DataFrame of shape (m, L), optional
            How much each dissimilarity to a landmark counts, for NumPy arrays; see
            `Embedding.transform`.

        Returns
        -------
        array of shape (m, k)
            A lazy dask array if X is one; of the library and on the device of X otherwise.
        """
        check_is_fitted(self)
        return self._transform(X, out, weights)

    def _transform(
        self,
        X: Any,
        out: str | PathLike[str] | None = None,
        weights: Any = None,
        fitted: bool = False,
    ) -> Array:
        if self._of_graph:
            if weights is not None:
                raise InputError(
                    "weights are not for nodes of a graph; leave them out."
                )
            return self._transform_nodes(X, out)
        places, rows = self._taking(X)
        if weights is not None and places.n_near:
            raise InputError(
                "weights cannot be given in two levels; leave them out."
            )
        if weights is not None and is_numpy(rows):
            weights = rows_ordered_as(weights, X, "rows of weights")
            shape = (rows.shape[0], places.width)
            weights = checked_weights(
                weights,
                shape,
                self.landmark_result_.k,
                self.landmark_result_.labels,
            )
        with self._calling():
            return self._placed(
                rows,
                X,
                out,
                places=places,
                weights=weights,
            )

    def _transform_nodes(
        self, X: Any, out: str | PathLike[str] | None
    ) -> Array:
        """Return where fitted nodes are, or place new ones by their edges to these."""
        if (
            hasattr(X, "tocoo")
            and X.shape[0] != X.shape[1] == self.n_features_in_
        ):
            placed = self.landmark_result_.transform(
                joined_paths(X, self._lengths)
            )
        else:
            xp = namespace(self._coordinates)
            nodes = asarray_like(self._nodes(X), self._coordinates, xp.int64)
            placed = xp.take(self._coordinates, nodes, axis=0)
        if out is None:
            return placed
        np.save(out, to_numpy(placed))
        return np.load(out, mmap_mode="r")

    def landmarks_to_ask(self, coarse: Any) -> Any:
        """Return the landmark columns to compute for new objects in two levels.

        Call it twice: with the number of objects (returns global landmarks); then, after a first
        ``landmark_result_.transform`` of an (m, L) array that is NaN elsewhere, with the resulting
        coordinates (returns near ones). A second `transform` gives the final coordinates.

        Parameters
        ----------
        coarse : int or array of shape (m, k)
            Number of new objects, or their first coordinates.

        Returns
        -------
        ndarray of shape (m, n_global) or (m, n_near)
            Numbers among the landmarks, in the order of `landmarks_`.
        """
        check_is_fitted(self)
        if not self._fitted.n_near:
            raise InputError(
                f"n_near is 0: objects need dissimilarities to all {self._fitted.width} landmarks."
            )
        if isinstance(coarse, (int, float, np.generic)):
            check_count(coarse=coarse)
            return self._fitted.global_landmarks(np.arange(int(coarse)))
        x = to_numpy(as_real(coarse, "coarse")).astype(np.float64)
        k = self.landmark_result_.k
        if x.shape[1:] != (k,) or not np.isfinite(x).all():
            raise InputError(
                f"{option('coarse')} has shape {x.shape}, or NaN; pass finite coordinates of shape "
                f"(m, {k}), or the number of objects."
            )
        known = np.zeros((len(x), 0), np.intp)
        return self._fitted.near_landmarks(x, known, self._fitted.n_near)

    @property
    def embedding_(self) -> Array:
        """Coordinates of all fitted objects."""
        check_is_fitted(self)
        return self._coordinates

    @property
    def result_(self) -> Embedding:  # type: ignore[override]
        """Embedding of all fitted objects."""
        x = self.embedding_
        return replace(
            self.landmark_result_,
            coordinates=to_numpy(x) if is_dask(x) else x,
            labels=self._names,
            landmarks=self.landmarks_,
        )

    @property
    def _model(self) -> Embedding:
        return self.landmark_result_

    def _measured(self, X: Any) -> Any:
        """Squared dissimilarities of new objects to the landmarks, as NumPy float64."""
        places, rows = self._taking(X)
        with self._calling():
            squares = places.squares(to_numpy(rows) if is_dask(rows) else rows)
            return to_numpy(squares).astype(np.float64)

    def _taking(self, X: Any) -> tuple[LandmarkFit, Any]:
        """Return what places objects, and the rows that stand for them."""
        if self._of_graph:
            return self._fitted, self._nodes(X)
        items = as_objects(X) if callable(self.metric) else None
        if items is None or self._fitted.metric is None:
            return self._fitted, self._checked(X, reset=False)
        metric, rows = self._fitted.metric.taking(items)
        return replace(self._fitted, metric=metric), rows

    def _lengths(self, nodes: Any) -> Any:
        """Lengths of the paths of fitted nodes to the landmarks, NaN where none is known."""
        return np.sqrt(self._fitted.squares(nodes))

    def _nodes(self, X: Any) -> Any:
        """Numbers of all nodes of the fitted graph, or of some."""
        n = self.n_features_in_
        X, _ = sparse_in_memory(X)
        if hasattr(X, "tocoo") or hasattr(X, "adj") or hasattr(X, "iloc"):
            if (
                _digest(named_graph(X, None, self.metric_params)[0])
                != self._graph
            ):
                raise InputError(
                    "the nodes, edges or lengths of the graph are not those that were fitted; pass "
                    "the fitted graph, or numbers of its nodes."
                )
            return np.arange(n)
        nodes = np.asarray(X)
        whole = nodes.ndim == 1 and np.issubdtype(nodes.dtype, np.integer)
        if not whole or nodes.min(initial=0) < 0 or nodes.max(initial=0) >= n:
            raise InputError(
                f"pass the graph, numbers of its nodes from 0 to {n - 1}, or lengths of the edges "
                f"of new nodes to these as a sparse array (m, {n})."
            )
        return nodes

    def _checked(self, X: Any, reset: bool = True) -> Any:
        """Return rows of X as an array of NumPy, dask, or another library on a device."""
        refuse_networkx(X, "X")
        precomputed = self._precomputed
        if isinstance(X, (str, PathLike)):
            n = None if reset else int(self.n_features_in_)
            X = (
                read_square(X)[0]
                if n is None
                else read_new_objects(str(X), n)[0]
            )
        if hasattr(X, "tocoo"):
            raise InputError(
                "X is a sparse array, which is taken as a graph with metric='shortest_path' alone; "
                "pass X.toarray()."
            )
        if is_other_library(X):
            refuse_sparse_tensor(X, "X")
            if not on_cpu(X) and (
                precomputed or known_everywhere(self.metric)
            ):
                return self._checked_elsewhere(X, reset)
            # In main memory NumPy and SciPy are quicker, and on a GPU they know more metrics.
            X = to_numpy(X)
        if is_dask(X):
            from neucmds.backend.dask_arrays import check_rows

            X = check_rows(X)
            if reset:
                self.n_features_in_ = int(X.shape[1])
            return X
        to_landmarks = precomputed and not reset
        if to_landmarks and getattr(X, "shape", ())[1:] == (
            self._fitted.width,
        ):
            # Later arrivals need no dissimilarities but those to the landmarks.
            X = ordered_by_name(
                X,
                self.landmark_result_.labels,
                "columns of new objects",
                rows=False,
            )
            with in_one_line():
                return check_array(X, dtype=("float64", "float32"))
        return self._validated(X, reset)

    def _checked_elsewhere(self, X: Array, reset: bool) -> Array:
        """Check an array of another library where it is, as scikit-learn does one of NumPy."""
        if len(X.shape) != 2:
            raise InputError(
                f"X has {len(X.shape)} dimensions; pass a matrix, one row per object."
            )
        width = int(X.shape[1])
        if reset:
            self.n_features_in_ = width
        elif width != self.n_features_in_ and not (
            self._fitted.metric is None and width == self._fitted.width
        ):
            raise InputError(
                f"X has {width} columns, but {self.n_features_in_} were fitted."
            )
        xp = namespace(X)
        X = xp.astype(X, working_dtype(X), copy=False)
        if not bool(xp.all(xp.isfinite(X))):
            raise InputError(
                "Input X contains NaN or infinity; drop or repair these rows."
            )
        return X


def _digest(graph: Any) -> str:
    """Digest of what `as_graph` made: the same for every order in which edges are stored."""
    return str(joblib.hash((graph.indptr, graph.indices, graph.data)))
