"""scikit-learn's face of the pipeline: it translates, it does no maths."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal

from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_is_fitted, validate_data

from neucmds.arrays import Array, is_array, is_dask, is_numpy, to_numpy
from neucmds.contract import SignedTransformer
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.gram import Gram
from neucmds.gram.pairs import by_rows
from neucmds.homes import feature_home, lives_outside
from neucmds.pipeline import DEFAULT_METHOD, neuc_mds

__all__ = ["NeucMDS"]


class NeucMDS(SignedTransformer):
    """Multidimensional scaling that keeps negative eigenvalues, as coordinates with a sign.

    Parameters
    ----------
    n_components : int or (int, int), default=2
        Number of coordinates, or a pair (p, q) of positive and negative ones.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        The first four are the paper's, "exact" minimises the true STRESS in closed form on kept
        eigenvectors, "refined" sets the coordinates free.
    metric : str or callable, default="precomputed"
        "precomputed": X is the dissimilarity matrix, or a path or store that holds it. Otherwise X
        holds features, and the metric is "angular", "balls", "cosine", "euclidean", "hyperbolic" or
        "rbf" (see `neucmds.gram.FeatureGram`), or one that `sklearn.metrics.pairwise_distances`
        knows. A callable takes two rows of NumPy features, as there, but two blocks of rows of any
        other array library. Dissimilarities that do not fit in memory are never stored.
    metric_params : dict, optional
        Further arguments of the metric.
    squared : bool, default=False
        Whether the dissimilarities are squared already (and may then be negative).
    symmetrize : bool, default=False
        Average D and its transpose instead of refusing an asymmetric D.
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN means that a pair was not observed, and does not count.
    solver : {"auto", "full", "krylov"}, default="auto"
        How the eigenpairs are computed.
    tol : float, default=1e-7
        Relative residual that the kept eigenpairs must reach (iterative solver).
    random_state : int, RandomState or None
        Seed of the iterative solver's start.
    copy : bool, default=True
        False allows a precomputed X to be squared in place.
    max_memory : int or str, optional
        Most memory to use, as bytes or "2GB"; by default what is free.
    max_iter : int, default=100
        Most iterations of "refined".
    stress_tol : float, default=2e-3
        "refined" stops when three iterations together gain less than this share of the STRESS.
    climb : bool, default=False
        Let "refined" also try signatures with one negative coordinate more or fewer.
    verbose : int, default=0
        Print a line on what was found.

    Attributes
    ----------
    embedding_ : array of shape (n, k)
        Coordinates, largest weight first.
    signature_ : array of shape (k,)
        ±1.0: the sign of each coordinate.
    eigenvalues_ : array
        Kept eigenvalues of B.
    weights_ : array of shape (k,)
        Signed squared length of each coordinate.
    stress_ : float
        ‖D̂ − D‖²_F on the squared scale.
    stress_terms_ : tuple of three floats
        C1, C2 and C3.
    result_ : Embedding
    n_iter_ : int
        Number of refinement steps; a closed form is one.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X has string column names.

    See Also
    --------
    neucmds.neuc_mds : The same as a function.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from neucmds import NeucMDS
    >>> X = load_digits().data[:100]
    >>> NeucMDS(n_components=5, metric="cityblock").fit_transform(X).shape
    (100, 5)
    """

    def __init__(
        self,
        n_components: int | tuple[int, int] = 2,
        *,
        method: str = DEFAULT_METHOD,
        metric: Any = "precomputed",
        metric_params: dict[str, Any] | None = None,
        squared: bool = False,
        symmetrize: bool = False,
        missing: Literal["error", "ignore"] = "error",
        solver: str = "auto",
        tol: float = 1e-7,
        random_state: Any = None,
        copy: bool = True,
        max_memory: int | str | None = None,
        max_iter: int = 100,
        stress_tol: float = 2e-3,
        climb: bool = False,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.metric = metric
        self.metric_params = metric_params
        self.squared = squared
        self.symmetrize = symmetrize
        self.missing = missing
        self.solver = solver
        self.tol = tol
        self.random_state = random_state
        self.copy = copy
        self.max_memory = max_memory
        self.max_iter = max_iter
        self.stress_tol = stress_tol
        self.climb = climb
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> NeucMDS:
        """Find coordinates and signature.

        Parameters
        ----------
        X : array of shape (n, n) or (n, n_features)
            Dissimilarities, or features when `metric` is not "precomputed".
        y : ignored

        Returns
        -------
        self
        """
        labels = self._labels(X)
        self.result_ = neuc_mds(
            self._checked(X) if self._precomputed else self._between(self._checked(X)),
            self.n_components,
            self.method,
            squared=self.squared,
            symmetrize=self.symmetrize,
            missing=self.missing,
            labels=labels,
            solver=self.solver,
            tol=self.tol,
            random_state=self.random_state,
            copy=self.copy,
            max_memory=self.max_memory,
            max_iter=self.max_iter,
            stress_tol=self.stress_tol,
            climb=self.climb,
        )
        if self.verbose:
            print(summary(self.result_))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and return the coordinates of the fitted objects.

        Parameters
        ----------
        X : array of shape (n, n) or (n, n_features)
        y : ignored

        Returns
        -------
        array of shape (n, k)
        """
        return self.fit(X).result_.coordinates

    def transform(self, X: Any) -> Array:
        """Place new objects.

        Parameters
        ----------
        X : array of shape (m, n) or (m, n_features)
            Dissimilarities of the new objects to the fitted ones, or their features.

        Returns
        -------
        array of shape (m, k)
        """
        check_is_fitted(self)
        new = self._checked(X, reset=False)
        return self.result_.transform(new if self._precomputed else self._to_fitted(new))

    def dissimilarities(self) -> Array:
        """D̂ between the fitted objects, on the squared scale; entries may be negative."""
        check_is_fitted(self)
        return self.result_.dissimilarities()

    @property
    def embedding_(self) -> Array:
        """Coordinates of the fitted objects."""
        return self.result_.coordinates

    @property
    def stress_(self) -> float:
        """‖D̂ − D‖²_F on the squared scale."""
        return self.result_.stress

    @property
    def stress_terms_(self) -> tuple[float, float, float]:
        """C1, C2 and C3."""
        return self.result_.stress_terms

    @property
    def n_iter_(self) -> int:
        """Number of refinement steps; a closed form is one."""
        return max(1, len(self.result_.history) - 1)

    def _checked(self, X: Any, reset: bool = True) -> Any:
        if is_array(X) and not is_numpy(X):
            # scikit-learn would move it to NumPy; `neucmds.inputs` checks it where it is.
            if reset:
                self.n_features_in_ = X.shape[1] if X.ndim == 2 else 1
            return X
        if hasattr(X, "ids") and hasattr(X, "data"):
            X = X.data  # scikit-bio's DistanceMatrix
        if reset and self._precomputed and self._outside(X):
            self._forget_features()
            return X
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=("float64", "float32"),
            ensure_min_samples=2 if reset else 1,
            ensure_all_finite="allow-nan" if reset and self.missing == "ignore" else True,
        )

    def _labels(self, X: Any) -> Any:
        """Names of the objects, where a table or a DistanceMatrix of dissimilarities has them."""
        if not self._precomputed:
            return None
        if hasattr(X, "ids"):
            return X.ids
        named = hasattr(X, "index") and hasattr(X, "columns") and list(X.index) == list(X.columns)
        return list(X.index) if named and all(isinstance(a, str) for a in X.index) else None

    def _forget_features(self) -> None:
        """Drop what an earlier fit said of the columns of X; those of a file are known later."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)

    def _outside(self, X: Any) -> bool:
        """Tell whether D is a file, or does not fit: then it is checked while it is read."""
        if isinstance(X, (str, PathLike, Gram)):
            return True
        return lives_outside(X, self.squared, self.max_memory)

    def _between(self, X: Any) -> Any:
        """D between feature rows, stored if it fits."""
        if is_dask(X):
            X = to_numpy(X)  # features are small beside D, which is computed from them in passes
        self._features, self._space = X, None
        if self.symmetrize or self.missing == "ignore":
            return self._to_fitted(X)  # both orders of every pair are needed, or gaps allowed
        metric, params = self.metric, self.metric_params
        if callable(metric) and is_numpy(X):
            # scikit-learn's callables take two rows; those on other libraries take two blocks.
            metric, params = by_rows(metric, params or {}), None
        gram, self._space = feature_home(
            X,
            self.n_components,
            metric,
            params=params,
            squared=self.squared,
            max_memory=self.max_memory,
        )
        return gram

    def _to_fitted(self, X: Any) -> Any:
        X = to_numpy(X) if is_dask(X) else X
        if self._space is not None:
            return self._space.between(X)
        params = self.metric_params or {}
        try:
            distances = pairwise_distances(X, self._features, metric=self.metric, **params)
        except (ValueError, TypeError) as problem:
            reason = " ".join(str(problem).split())[:200]
            raise InputError(f"metric={self.metric!r} cannot be used here: {reason}") from problem
        # Some metrics answer in double precision whatever they are asked in.
        return distances.astype(X.dtype, copy=False)


def summary(embedding: Embedding) -> str:
    """One line on what was found."""
    positive, negative = embedding.signature
    return (
        f"{embedding.n} objects, {positive} positive and {negative} negative coordinates, "
        f"STRESS {embedding.stress:.4g} ({embedding.normalized_stress:.2%} of ‖D‖²)"
    )
