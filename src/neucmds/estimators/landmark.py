"""`LandmarkNeucMDS`: embed landmarks, and place all other objects among them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from os import PathLike
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    is_array,
    is_dask,
    is_numpy,
    namespace,
    on_cpu,
    sparse_in_memory,
    taken,
    to_floats,
    to_numpy,
)
from neucmds.backend.progress import ProgressBar
from neucmds.dense_fit import warn_of_surprises
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.estimators.transformer import (
    SignedTransformer,
    in_one_line,
    is_other_library,
)
from neucmds.large.landmarks import averaged, fit_landmarks
from neucmds.large.placing import LandmarkFit
from neucmds.options import check_support
from neucmds.place.recipe import Recipe
from neucmds.problem.containers import (
    as_objects,
    refuse_networkx,
    refuse_tensor,
    unwrap,
)
from neucmds.problem.graph import joined_paths, named_graph
from neucmds.problem.metrics import known_everywhere
from neucmds.problem.names import names_in, ordered_by_name, row_names
from neucmds.problem.validation import as_labels, working_dtype
from neucmds.refine.starts import ordered_start
from neucmds.spectrum.operators.choose import lazy_if_large


@dataclass(eq=False, repr=False)
class LandmarkNeucMDS(SignedTransformer):
    """Embed landmarks, then place every object from its dissimilarities to them.

    `fit` embeds the landmarks, learns from landmarks held out how to place others, and places all
    fitted objects; `transform` places later arrivals. Both work in chunks and in threads. The n×n
    matrix never exists. Paper: Landmark MDS paragraph of sec:experiments.

    Parameters
    ----------
    n_components, method, loss, floor, curvature, heights, squared, tol, n_init
        As for `neuc_mds`, applied to the landmarks. New objects are placed by minimising the same
        `loss`; by "relative" without curvature and heights, the sum of (D̂/D − 1)² instead, in
        closed form, which keeps more neighbours; with ``placement="least_squares"`` it is `loss`
        itself.
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
        landmarks; for relative losses with one level of landmarks, negative coordinates are shrunk
        according to their noise. "least_squares": without these. "linear": plain triangulation,
        which divides by small eigenvalues. With two levels only "auto" is accepted.
    metric : str or callable, default="precomputed"
        "precomputed": X holds dissimilarities, all of them (n, n) or those to the landmarks (n, L);
        for the latter, `landmarks` must name the rows. "shortest_path": X is a graph, as for
        `neuc_mds`, and `transform` takes numbers of its nodes, or edges of new nodes. For a
        sparse PyTorch or CuPy array, shortest paths run on the CPU and nodes are placed on the
        array's device. For any other metric X holds features; it is one of those of `NeucMDS`, or a
        function of two rows, or of two objects of a list, which are kept, not copied.
    metric_params : dict, optional
        Further arguments of the metric.
    symmetrize : bool, default=False
        Average d and its transpose, or those among the landmarks if X holds no more, instead of
        refusing rows of landmarks that differ from their columns; with a function as `metric`,
        every dissimilarity is averaged over both argument orders.
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
        Row numbers of the landmarks.
    landmark_result_ : Embedding
        Of the landmarks; its `transform` places objects by their dissimilarities (m, L) to these.
    embedding_ : array of shape (n, k)
        Coordinates of all fitted objects, landmarks where they were fitted; a lazy dask array if X
        is one.
    result_ : Embedding
        Of all fitted objects, at `embedding_`; its `landmarks` are `landmarks_`.
    recipe_ : Recipe or None
        The choice made on held-out landmarks; None if the loss or weights give a rule.
    signs_ : array of shape (k,)
        The sign of each coordinate: ±1.0, or 0 for a height.
    signature_ : (int, int)
        Numbers of positive and of negative coordinates (p, q).
    eigenvalues_, weights_ : ndarray
        Of the landmarks: eigenvalues, and the signed squared length of each coordinate.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X has string column names.

    See Also
    --------
    NeucMDS : All of d at once.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from neucmds import LandmarkNeucMDS
    >>> X = load_digits().data
    >>> est = LandmarkNeucMDS(n_components=5, n_landmarks=200, metric="cityblock", random_state=0)
    >>> est.fit_transform(X).shape
    (1797, 5)
    """

    n_landmarks: int | float | None = None
    _: KW_ONLY
    n_near: int | None = 0
    landmarks: Any = "random"
    placement: Literal["auto", "least_squares", "linear"] = "auto"
    squared: bool = False
    symmetrize: bool = False

    def fit(self, X: Any, y: Any = None) -> LandmarkNeucMDS:
        """Embed the landmarks, learn how to place objects among them, and place all objects.

        Parameters
        ----------
        X : array of shape (n, n_features), (n, n) or (n, L), NumPy or dask, or path
            Features; or dissimilarities, all or those to the landmarks; or the file of all; or a
            graph or a list of objects, as `metric` says.
        y : ignored

        Returns
        -------
        self
        """
        return self._fit_and_place(X)

    def _fit_and_place(
        self, X: Any, out: str | PathLike[str] | None = None
    ) -> LandmarkNeucMDS:
        """Fit, and write the coordinates to the file `out`, if any."""
        with self._fitting() as callback:
            metric = self._bound_metric()
            objects = as_objects(X) if callable(self._metric) else None
            # Of a graph of another library: an array on the device where nodes are placed.
            like = None
            rows: Any
            self._names = row_names(X)
            if self._of_graph:
                stored, like = sparse_in_memory(X)
                rows, self._names = named_graph(
                    stored, None, self.metric_params
                )
                self.n_features_in_ = rows.shape[0]
            elif objects is not None:
                rows, metric = metric.numbered(objects)
            else:
                rows = self._checked(X)
            # Names of the columns of D, to find those of the landmarks.
            columns = None
            if self._precomputed and hasattr(self, "_columns"):
                columns = names_in(self._columns)
            elif self._precomputed:
                columns = self._names
            options = self._options(
                metric=metric, metric_params=None, callback=callback
            )
            check_support(options, "landmarks")
            start = ordered_start(options.init, self._names)
            options = replace(options, init=start)
            rows = averaged(rows, options)
            landmark_fit = fit_landmarks(
                rows,
                options,
                n_landmarks=self.n_landmarks,
                n_near=self.n_near,
                placement=self.placement,
                columns=columns,
                n_jobs=self.n_jobs,
                like=like,
            )
            if self._of_graph:
                rows = np.arange(landmark_fit.n)
            self._landmark_fit = landmark_fit
            self.landmarks_ = landmark_fit.landmarks
            self.landmark_result_: Embedding = landmark_fit.embedding
            self.recipe_: Recipe | None = landmark_fit.recipe
            self._coordinates = self._placed(
                landmark_fit, rows, X, out, landmarks_stay=True
            )
        warn_of_surprises(self.landmark_result_)
        return self

    def _placed(
        self,
        landmark_fit: LandmarkFit,
        rows: Any,
        X: Any,
        out: str | PathLike[str] | None,
        landmarks_stay: bool = False,
    ) -> Array:
        """Return coordinates of the checked rows of X, in the library of X or as the file `out`."""
        callback = ProgressBar() if self.verbose else None
        placed = landmark_fit.place_all(
            rows,
            out,
            landmarks_stay=landmarks_stay,
            n_jobs=self.n_jobs,
            callback=callback,
        )
        if out is None and is_other_library(X):
            return asarray_like(placed, X)
        return placed

    def fit_transform(  # type: ignore[override]
        self, X: Any, y: Any = None, out: str | PathLike[str] | None = None
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

        Returns
        -------
        array of shape (n, k)
        """
        return self._fit_and_place(X, out).embedding_

    def transform(
        self, X: Any, out: str | PathLike[str] | None = None
    ) -> Array:
        """Place objects.

        Parameters
        ----------
        X : array of shape (m, n_features), (m, n) or (m, L), NumPy or dask
            Features of the objects, or their dissimilarities to all fitted objects or to the
            landmarks. For a graph: names of its nodes (row numbers if they have none), or lengths
            of the edges of new nodes to fitted ones as a sparse array (m, n).
        out : path, optional
            Write the coordinates to this ``.npy`` file instead of memory; the memory map of it is
            returned. Not for dask arrays, which have `dask.array.to_npy_stack` and others.

        Returns
        -------
        array of shape (m, k)
            A lazy dask array if X is one; of the library and on the device of X otherwise.
        """
        check_is_fitted(self)
        if self._of_graph:
            if out is not None:
                raise InputError(
                    "out is not for nodes of a graph; leave it out."
                )
            has_edges = hasattr(X, "tocoo")
            if not has_edges or X.shape[1] != self.n_features_in_:
                return taken(self._coordinates, self._nodes(X))
            paths = joined_paths(
                X, lambda nodes: np.sqrt(self._landmark_fit.squares(nodes))
            )
            return self.landmark_result_.transform(paths)
        landmark_fit, rows = self._fit_and_rows(X)
        with self._calls_watched():
            return self._placed(landmark_fit, rows, X, out)

    def landmarks_to_ask(self, coarse: Any) -> Any:
        """Return the landmarks to compare new objects with, for a fit of two levels.

        Call it with the number of objects: it returns global landmarks. Pass dissimilarities to
        these, NaN to all others, as an (m, L) array to ``landmark_result_.transform``. Call it with
        the coordinates: it returns near landmarks. Add dissimilarities to these, and `transform`
        gives the final coordinates.

        Parameters
        ----------
        coarse : int or array of shape (m, k)
            Number of new objects, or their first coordinates.

        Returns
        -------
        ndarray of shape (m, n_global) or (m, n_near)
            Positions in `landmarks_`.
        """
        check_is_fitted(self)
        return self.landmark_result_.landmarks_to_ask(coarse)

    @property
    def embedding_(self) -> Array:
        """Coordinates of all fitted objects."""
        return self._coordinates

    @property
    def result_(self) -> Embedding:
        """Embedding of all fitted objects."""
        return self._landmark_fit.embedding_at(self.embedding_, self._names)

    @property
    def _model(self) -> Embedding:
        return self.landmark_result_

    def _sq_dissimilarities(self, X: Any) -> Any:
        """Squared dissimilarities of new objects to the landmarks, as NumPy float64."""
        landmark_fit, rows = self._fit_and_rows(X)
        if is_dask(rows):
            rows = to_numpy(rows)
        with self._calls_watched():
            return to_floats(landmark_fit.squares(rows))

    def _fit_and_rows(self, X: Any) -> tuple[LandmarkFit, Any]:
        """Return the fit that places X, and rows of X; nodes and other objects are numbered."""
        if self._of_graph:
            return self._landmark_fit, self._nodes(X)
        objects = as_objects(X) if callable(self._metric) else None
        if objects is None or self._landmark_fit.metric is None:
            return self._landmark_fit, self._checked(X, reset=False)
        metric, rows = self._landmark_fit.metric.taking(objects)
        return replace(self._landmark_fit, metric=metric), rows

    def _nodes(self, X: Any) -> Any:
        """Return the rows of nodes of the fitted graph, by name or number."""
        try:
            return self.result_._indices(X)
        except InputError as problem:
            n = self.n_features_in_
            raise InputError(
                f"{str(problem).rstrip('.')}: pass nodes of the graph, or lengths of the edges of "
                f"new nodes to these as a sparse array (m, {n})."
            ) from problem

    def _checked(self, X: Any, reset: bool = True) -> Any:
        """Return X as rows of NumPy, dask, or another library on a device."""
        refuse_networkx(X, "X")
        if reset and self._precomputed:
            X = lazy_if_large(X)
            if isinstance(X, (str, PathLike)):
                X, names = unwrap(X)
                self._names = as_labels(names, len(X))
        if hasattr(X, "tocoo"):
            raise InputError(
                "X is a sparse array, which is taken as a graph with metric='shortest_path' alone; "
                "pass X.toarray()."
            )
        if is_other_library(X):
            refuse_tensor(X, "X")
            # Rows stay on a GPU if D can be computed there. In main memory NumPy is quicker.
            stays = self._precomputed or known_everywhere(self._metric)
            if on_cpu(X) or not stays:
                X = to_numpy(X)
            else:
                X = namespace(X).astype(X, working_dtype(X), copy=False)
        elif is_dask(X):
            from neucmds.backend.dask_arrays import check_rows

            X = check_rows(X)
        shape = getattr(X, "shape", ())
        if (
            reset
            or not self._precomputed
            or shape[1:] != (self._landmark_fit.width,)
        ):
            return self._validated(X, reset)
        # These are dissimilarities of new objects to the landmarks alone, not to all objects.
        X = ordered_by_name(
            X, self.landmark_result_.labels, "columns of new objects"
        )
        if is_array(X) and not is_numpy(X):
            return X
        with in_one_line():
            return check_array(X, dtype=("float64", "float32"))
