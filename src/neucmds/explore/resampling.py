"""`bootstrap` and `stress_test`: fits of resampled and permuted D."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.ecology import PermutationTest
from neucmds.embedding import Embedding, procrustes
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.fit import embed
from neucmds.fitting import fit
from neucmds.options import Callback, Options
from neucmds.prepared import dense_gram, prepare, refuse_weights
from neucmds.problem.dense import Dense
from neucmds.problem.names import order_of
from neucmds.refine.descent import check_count
from neucmds.spectrum.operators.dense import DenseGram

__all__ = ["Bootstrap", "bootstrap", "stress_test"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Coordinates of replicates, each aligned with the embedding of D.

    Parameters
    ----------
    embedding : Embedding
        Of D.
    clouds : ndarray of shape (replicates, n, k)
        Coordinates of the replicates, aligned by isometries of O(p, q).
    """

    embedding: Embedding
    clouds: Floats

    @property
    def covariances(self) -> Floats:
        """Covariance of the coordinates of each object over the replicates; shape (n, k, k)."""
        around = self.clouds - self.clouds.mean(axis=0)
        sums: Floats = np.einsum("bia,bic->iac", around, around)
        return sums / max(1, len(around) - 1)

    @property
    def spread(self) -> Floats:
        """Root mean square displacement of each object in the plot; shape (n,)."""
        moves = self.clouds - to_numpy(self.embedding.coordinates)
        return np.asarray(np.sqrt(np.mean(np.sum(moves**2, axis=2), axis=0)))


def bootstrap(
    D: Any,
    n_components: Any = None,
    n_boot: int = 100,
    *,
    resample: Literal["bootstrap", "jackknife"] | Iterable[Any] = "bootstrap",
    squared: bool = False,
    symmetrize: bool = False,
    embedding: Embedding | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
    **options: Any,
) -> Bootstrap:
    """Embed resampled D, and align the results with the embedding of D.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
        It must fit in memory, with every pair known.
    n_components, squared, symmetrize, random_state
        As for `neuc_mds`; replicates have the signature of the embedding of D.
    n_boot : int, default=100
        Number of bootstrap replicates.
    resample : {"bootstrap", "jackknife"} or iterable of D, default="bootstrap"
        "bootstrap" draws n objects with replacement, and places the others by
        `Embedding.transform`. "jackknife" leaves out each object in turn and places it; R's
        ``smacof::jackmds`` does not place it. Or your own replicates of D, for example of resampled
        species or raters, as ``smacof::bootmds``.
    embedding : Embedding, optional
        An embedding of D to use; `n_components` and the options are then its own.
    callback : callable, optional
        Called before each replicate with its number, their total if known, and a few words.
    **options
        Options of `neuc_mds`, such as ``method``, ``loss`` or ``max_iter``. "refined" starts each
        replicate from the embedding of D.

    Returns
    -------
    Bootstrap

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import bootstrap
    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> D = np.abs(x[:, None] - x).sum(axis=2)
    >>> found = bootstrap(D, 3, n_boot=10)
    >>> found.clouds.shape, bool(found.spread.max() < D.max())
    ((10, 20, 3), True)
    """
    prepared, sq_d = _dense(D, "bootstrap", squared, symmetrize)
    asked, whole = _fitted(prepared, embedding, n_components, random_state, options)
    n = prepared.n
    every, total = np.arange(n), None
    draws: Iterable[Any] = ()
    if isinstance(resample, str):
        if n < whole.k + 3:
            raise InputError(f"{n} objects are too few to leave some out of {whole.k} coordinates.")
        if resample == "bootstrap":
            check_count(n_boot=n_boot)
            draws, total = _bootstrap(n, n_boot, whole.k, asked.random_state), n_boot
        elif resample == "jackknife":
            draws, total = (np.delete(every, i) for i in range(n)), n
        else:
            raise InputError(f"{option('resample', resample)} must be 'bootstrap' or 'jackknife'.")
    clouds = []
    for step, drawn in enumerate(resample if total is None else draws):
        if callback is not None:
            callback(step, total, "replicates")
        ids, values = drawn, sq_d
        if total is None:
            other, values = _dense(drawn, "bootstrap", squared, symmetrize)
            ids = every
            if other.n != n:
                raise InputError(f"a replicate has {other.n} objects, but D has {n}.")
            if prepared.labels is not None and other.labels is not None:
                order = order_of(other.labels, prepared.labels, "rows of a replicate")
                values = values[np.ix_(order, order)]
        clouds.append(_replicated(whole, asked, ids, values))
    if not clouds:
        raise InputError(f"{option('resample')} holds no replicate.")
    return Bootstrap(whole, np.stack(clouds))


def _bootstrap(n: int, n_boot: int, k: int, seed: Any) -> Iterator[npt.NDArray[np.intp]]:
    """Draw objects with replacement, enough different ones for k coordinates."""
    rng = np.random.default_rng(seed)
    for _ in range(n_boot):
        ids = rng.integers(n, size=n)
        while np.unique(ids).size < k + 2:
            ids = rng.integers(n, size=n)
        yield ids


def _replicated(
    whole: Embedding, asked: Options, ids: npt.NDArray[np.intp], sq_d: Floats
) -> Floats:
    """Embed the drawn objects, place the others, and align all with the embedding of D."""
    x = to_numpy(whole.coordinates).astype(np.float64)
    start = (x[ids], to_numpy(whole.signs)) if whole.method == "refined" else None
    drawn = Dense(DenseGram(sq_d[np.ix_(ids, ids)]), squared=True)
    with warnings.catch_warnings():
        # Warnings about D were issued already.
        warnings.simplefilter("ignore", NeucmdsWarning)
        options = replace(asked, n_components=whole.signature, init=start, n_init=None)
        found = fit(drawn, options).embedding
        others = np.setdiff1d(np.arange(whole.n), ids)
        coordinates = np.empty((whole.n, found.k))
        coordinates[ids] = to_numpy(found.coordinates)
        if others.size:
            coordinates[others] = to_numpy(found.transform(sq_d[np.ix_(others, ids)]))
    there = procrustes(
        replace(whole, labels=None), replace(found, coordinates=coordinates), scaling=False
    )
    return np.asarray(there.coordinates[:, : whole.k] + x.mean(axis=0))


def stress_test(
    D: Any,
    n_components: Any = None,
    permutations: int = 99,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    embedding: Embedding | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
    **options: Any,
) -> PermutationTest:
    """Compare the STRESS of D with that of permuted entries of D, as ``smacof::permtest``.

    Parameters
    ----------
    D, n_components, squared, symmetrize, embedding, random_state, callback, **options
        As for `bootstrap`; each permuted D has as many coordinates as the embedding of D, of
        either sign.
    permutations : int, default=99

    Returns
    -------
    PermutationTest
        The statistic is `Embedding.normalized_stress`; low values are extreme.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.explore.resampling import stress_test
    >>> x = np.random.default_rng(0).normal(size=(15, 2))
    >>> stress_test(np.abs(x[:, None] - x).sum(axis=2), 2, 19, method="neuc+").p
    0.05
    """
    if permutations < 0:
        raise InputError(f"{option('permutations', permutations)} must be a whole number ≥ 0.")
    prepared, sq_d = _dense(D, "stress_test", squared, symmetrize)
    asked, whole = _fitted(prepared, embedding, n_components, random_state, options)
    rng, upper = np.random.default_rng(asked.random_state), np.triu_indices(prepared.n, 1)
    permuted = []
    for step in range(permutations):
        if callback is not None:
            callback(step, permutations, "permutations")
        values = np.zeros_like(sq_d)
        values[upper] = rng.permutation(sq_d[upper])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NeucmdsWarning)
            shuffled = Dense(DenseGram(values + values.T), squared=True)
            found = fit(shuffled, replace(asked, n_components=max(1, whole.k))).embedding
        permuted.append(found.normalized_stress)
    as_low = sum(value <= whole.normalized_stress * (1 + 1e-9) for value in permuted)
    p = (as_low + 1) / (permutations + 1) if permutations else math.nan
    return PermutationTest(whole.normalized_stress, p, np.array(permuted))


def _fitted(
    prepared: Dense, embedding: Embedding | None, k: Any, seed: Any, options: dict[str, Any]
) -> tuple[Options, Embedding]:
    """Return the options of a fit and its embedding."""
    if embedding is not None:
        options = {"method": embedding.method, "loss": embedding.loss}
        options |= {"curvature": embedding.curvature} if embedding.curvature else {}
        return Options(embedding.signature, random_state=seed, **options), embedding
    asked = Options(k, random_state=seed, **options)
    return asked, embed(prepared, asked).embedding


def _dense(D: Any, what: str, squared: bool, symmetrize: bool) -> tuple[Dense, Floats]:
    """Return D prepared, and its squared entries."""
    prepared = prepare(D, squared=squared, symmetrize=symmetrize)
    refuse_weights(prepared, what)
    values = dense_gram(prepared, what).sq_dissimilarity
    return prepared, to_numpy(values).astype(np.float64)
