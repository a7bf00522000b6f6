"""The base of all estimators: their shared parameters, neighbours, a score, checks of X."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from neucmds.backend.arrays import Array, is_array, is_dask, is_numpy, to_numpy
from neucmds.backend.progress import ProgressBar
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.options import (
    DEFAULT_METHOD,
    PRECOMPUTED,
    SHORTEST_PATH,
    Callback,
    Loss,
    Method,
    Options,
    check_parameters,
)
from neucmds.problem.calls import watched
from neucmds.problem.components import N_COMPONENTS, NComponents
from neucmds.problem.containers import COMPARE_OBJECTS
from neucmds.problem.metrics import Metric, refuse_params
from neucmds.problem.names import is_frame, ordered_by_name


@dataclass(eq=False, repr=False)
class SignedTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The base of the estimators: the parameters that they share, and what they do with a fit.

    Each estimator adds `fit`, which sets `result_`, `transform`, and `_sq_dissimilarities`, those
    of new objects to the fitted ones. For `_bound_metric` it also needs `symmetrize`.
    """

    n_components: NComponents = N_COMPONENTS
    _: KW_ONLY
    method: Method = DEFAULT_METHOD
    loss: Loss = "squared"
    floor: float | None = None
    curvature: float | Literal["auto"] = 0.0
    heights: bool | Literal["auto"] = False
    metric: Any = PRECOMPUTED
    metric_params: dict[str, Any] | None = None
    tol: float | None = None
    n_init: int | None = None
    init: Any = None
    random_state: Any = 0
    n_jobs: int | None = None
    callback: Any = None
    verbose: int = 0

    @property
    def signs_(self) -> Array:
        """The sign of each coordinate, ±1.0, or 0 for a height."""
        return self._model.signs

    @property
    def signature_(self) -> tuple[int, int]:
        """Numbers of positive and of negative coordinates (p, q)."""
        return self._model.signature

    @property
    def eigenvalues_(self) -> Array:
        """Kept eigenvalues of B."""
        return self._model.info.eigenvalues

    @property
    def weights_(self) -> Array:
        """Signed squared length of each coordinate."""
        return self._model.weights

    @property
    def n_iter_(self) -> int:
        """Number of refinement steps; a closed form is one."""
        return max(1, len(self._model.info.history) - 1)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the coordinates: axis1, axis2_neg for a negative one.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.asarray(self._model.axis_names, dtype=object)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the coordinates of the fitted objects.

        Parameters
        ----------
        X : array
            As for `fit`.
        y : ignored
        **fit_params
            As for `fit`.

        Returns
        -------
        array of shape (n, k)
        """
        return self.fit(X, y, **fit_params).embedding_

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True
    ) -> Any:
        """Return the nearest of the fitted objects by D̂, by exact search.

        Parameters
        ----------
        X : array, optional
            Objects whose nearest are searched for, as for `transform`. None: those of
            `embedding_`, each without itself.
        n_neighbors : int, default=5
        return_distance : bool, default=True

        Returns
        -------
        distances : array of shape (m, n_neighbors)
            As `Embedding.distance` returns them; only if `return_distance`.
        indices : array of shape (m, n_neighbors)
        """
        check_is_fitted(self)
        queries = None
        if X is not None:
            queries = self._placed_array(X)
        indices, distances = self.result_.neighbors(n_neighbors, queries)
        if not return_distance:
            return indices
        return distances, indices

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int = 5,
        mode: Literal["connectivity", "distance"] = "connectivity",
        *,
        symmetric: bool = False,
    ) -> Any:
        """Nearest objects by D̂ as a sparse graph of precomputed neighbours.

        Parameters
        ----------
        X : array, optional
            As for `kneighbors`.
        n_neighbors : int, default=5
        mode : {"connectivity", "distance"}, default="connectivity"
            Entries are 1, or fitted distances, for `DBSCAN`, `TSNE`, `KNeighborsClassifier` and
            others with ``metric="precomputed"``.
        symmetric : bool, default=False
            Whether entries are stored in both orders, as clusterings expect; only without X.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (m, n)
        """
        if symmetric and X is not None:
            raise InputError(
                f"{option('symmetric', True)} needs fitted objects; leave X out."
            )
        if mode not in ("connectivity", "distance"):
            raise InputError(
                f"{option('mode', mode)} is unknown; choose 'connectivity' or 'distance'."
            )
        distances, indices = self.kneighbors(X, n_neighbors)
        columns = to_numpy(indices).ravel()
        values = np.ones(columns.size)
        if mode == "distance":
            values = to_numpy(distances).ravel()
        n_rows, n_nearest = indices.shape
        if not symmetric:
            starts = np.arange(0, columns.size + 1, n_nearest)
            shape = (n_rows, self.result_._targets.n)
            # A matrix, not an array: what scikit-learn's estimators take in every release.
            return csr_matrix((values, columns, starts), shape)
        rows = np.arange(n_rows).repeat(n_nearest)
        # The number i·n + j stands for the entry (i, j). Both (i, j) and (j, i) are listed, and
        # `unique` drops repetitions. The maximum of the graph and its transpose would also drop
        # entries of zero, of pairs with D̂ ≤ 0.
        numbers = np.concatenate(
            [rows * n_rows + columns, columns * n_rows + rows]
        )
        numbers, first = np.unique(numbers, return_index=True)
        values = np.tile(values, 2)[first]
        rows, columns = np.divmod(numbers, n_rows)
        return csr_matrix((values, (rows, columns)), (n_rows, n_rows))

    def score(self, X: Any, y: Any = None) -> float:
        """R² of the dissimilarities between new and fitted objects: higher is better.

        ``1 − Σ(D̂ − D)² / Σ(D − mean D)²`` over all pairs of a new and a fitted object, on the
        squared scale, with the new objects where `transform` places them.

        Parameters
        ----------
        X : array of shape (m, n) or (m, n_features)
            New objects, as for `transform`.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        model = self._model
        sq_dissimilarity = self._sq_dissimilarities(X)
        residuals = model.form.residuals(
            self._placed_array(X),
            model._targets.coordinates,
            sq_dissimilarity,
        )
        sq_error = np.nansum(to_numpy(residuals) ** 2)
        deviations = sq_dissimilarity - np.nanmean(sq_dissimilarity)
        total = np.nansum(deviations**2)
        if not total:
            return 0.0
        return 1.0 - float(sq_error / total)

    def _placed_array(self, X: Any) -> Array:
        """Return where `transform` places new objects, as an array whatever `set_output` says."""
        placed = self.transform(X)
        if is_array(placed):
            return placed
        return np.asarray(placed)

    @contextmanager
    def _fitting(self) -> Iterator[Callback | None]:
        """Check parameters, and yield the callback; restore the earlier fit if this one fails."""
        check_parameters(self.get_params(deep=False))
        earlier_fit = self.__dict__.copy()
        # Attributes of the data of the earlier fit, which not every fit sets anew.
        for name in ("n_features_in_", "feature_names_in_", "_columns"):
            self.__dict__.pop(name, None)
        # `transform` goes by the metric of the fit, whatever `set_params` says later.
        self._metric = self.metric
        bar = ProgressBar(self.callback)
        callback = bar if self.verbose else self.callback
        try:
            with self._calls_watched(callback):
                yield callback
        except BaseException:
            self.__dict__ = earlier_fit
            raise
        finally:
            bar.close()
        if self.verbose:
            print(self._model)

    @contextmanager
    def _calls_watched(
        self, callback: Callback | None = None
    ) -> Iterator[None]:
        """Let `n_jobs` processes call a function that is the metric, and report to `callback`."""
        with watched(callback, self.n_jobs):
            yield

    def dissimilarities(self, *, squared: bool = False) -> Array:
        """Fitted dissimilarities between the objects of `embedding_`.

        Parameters
        ----------
        squared : bool, default=False
            As for `Embedding.dissimilarities`.
        """
        check_is_fitted(self)
        return self.result_.dissimilarities(squared=squared)

    @property
    def embedding_(self) -> Array:
        """Coordinates of the fitted objects."""
        return self.result_.coordinates

    @property
    def _model(self) -> Embedding:
        """The embedding of those fitted objects that new ones are compared with."""
        result: Embedding = self.result_
        return result

    def _options(self, **others: Any) -> Options:
        """Return the options of `neuc_mds`: the parameters of that name, or `others` instead."""
        values = {
            field.name: getattr(self, field.name)
            for field in fields(Options)
            if hasattr(self, field.name)
        }
        return Options(**(values | others))

    def _bound_metric(self) -> Any:
        """Return the metric with its arguments, or the names of D and of a graph as they are."""
        if self._precomputed and self.metric_params:
            refuse_params(self.metric)
        if self._precomputed or self._of_graph:
            return self.metric
        return Metric.of(
            self.metric, self.metric_params, symmetrize=self.symmetrize
        )

    def _validated(
        self, X: Any, reset: bool, allow_missing: bool = False
    ) -> Any:
        """Check rows as scikit-learn does; entries may be NaN if they are allowed to be missing.

        Of an array of another library only the number of columns is checked. With `reset`, in a
        fit, the names and the number of columns are stored; else those of X must be the same.
        """
        if is_frame(X):
            X = self._with_columns(X, reset)
        advise_missing = self._precomputed and hasattr(self, "missing")
        with in_one_line(advise_missing):
            return validate_data(
                self,
                X,
                reset=reset,
                skip_check_array=is_array(X) and not is_numpy(X),
                dtype=("float64", "float32"),
                ensure_min_samples=2 if reset else 1,
                ensure_all_finite="allow-nan" if allow_missing else True,
            )

    def _with_columns(self, X: Any, reset: bool) -> Any:
        """Return a table of new objects with its columns in the order of the fit.

        Columns of dissimilarities are ordered by name as the fitted objects. Features named by text
        stay as they are: scikit-learn refuses another order. With `reset` names are only stored.
        """
        if reset:
            self._columns = X.columns
            return X
        labels = None
        if self._precomputed:
            labels = self.result_.labels
        columns = getattr(self, "_columns", None)
        if columns is None:
            # The fit was of an array or a file: scikit-learn expects columns without names.
            X = ordered_by_name(X, labels, "columns of X")
            return X.set_axis(range(X.shape[1]), axis=1)
        if hasattr(self, "feature_names_in_") and labels is None:
            return X
        X = ordered_by_name(X, columns, "columns of X")
        # scikit-learn compares names as they were in the fit, here with those of equal text; it
        # refuses another number of columns.
        if X.shape[1] == len(columns):
            X = X.set_axis(columns, axis=1)
        return X

    def __getstate__(self) -> Any:
        """Return the state to pickle; refuse a compiled function as metric in one line."""
        # A function without a __dict__ is compiled. Others may be pickled by cloudpickle.
        if callable(self.metric) and not hasattr(self.metric, "__dict__"):
            try:
                pickle.dumps(self.metric)
            except Exception as problem:
                raise InputError(
                    f"the function {option('metric')} cannot be pickled ({problem}); call it in a "
                    "function of a module, or save result_ by its save."
                ) from problem
        return super().__getstate__()

    @property
    def _precomputed(self) -> bool:
        return bool(self._metric == PRECOMPUTED)

    @property
    def _of_graph(self) -> bool:
        return bool(self._metric == SHORTEST_PATH)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = bool(self.metric == PRECOMPUTED)
        tags.input_tags.pairwise = precomputed
        squared = getattr(self, "squared", False)
        tags.input_tags.positive_only = precomputed and not squared
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@contextmanager
def in_one_line(advise_missing: bool = False) -> Iterator[None]:
    """Turn errors that scikit-learn raises in this context into an `InputError` of one line.

    With `advise_missing`, the message on NaN says how to fit a D with missing entries.
    """
    try:
        yield
    except (ValueError, TypeError) as problem:
        text = str(problem)
        if "contains NaN" in text:
            advice = "drop or repair these rows"
            if advise_missing:
                advice += f", or fit with {option('missing', 'ignore')}"
            raise InputError(f"Input X contains NaN; {advice}.") from problem
        # `check_estimator` expects the lines about names as they are.
        if text.startswith("The feature names"):
            raise InputError(text) from problem
        # The first line says what is wrong, the last what to do; they may be one.
        lines = text.splitlines()
        parts = dict.fromkeys([lines[0], lines[-1]])
        reason = " ".join(parts).rstrip(".")
        text = f"X cannot be used: {reason}"
        if isinstance(problem, ValueError):
            raise InputError(f"{text}.") from problem
        # `check_estimator` expects a TypeError to stay one. An InputError makes its text: it spells
        # the parameter that is marked in COMPARE_OBJECTS.
        text = str(InputError(f"{text}; {COMPARE_OBJECTS}."))
        raise TypeError(text) from problem


def is_other_library(X: Any) -> bool:
    """Tell whether an array belongs to another library than NumPy or dask."""
    return is_array(X) and not is_numpy(X) and not is_dask(X)
