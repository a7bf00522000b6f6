"""`stability` and `stress_test`: how far to trust coordinates, by fits to other draws of D."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import to_numpy
from neucmds._methods import align, check_count, columns_by_sign
from neucmds._operator import DenseGram
from neucmds.api.entry import embed
from neucmds.api.fitting import fit
from neucmds.api.options import Callback, Options
from neucmds.api.prepared import Prepared, dense_gram, prepare, refuse_weights
from neucmds.embedding import Embedding
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.ordination import PermutationTest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stability:
    """Coordinates of replicates, each laid over those of the embedding of D itself.

    Parameters
    ----------
    embedding : Embedding
        Of D.
    clouds : ndarray of shape (replicates, n, k)
        Its counterparts, up to the isometries of O(p, q).
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
        """Root mean square of how far each object moves, as drawn; shape (n,)."""
        moves = self.clouds - to_numpy(self.embedding.coordinates)
        return np.asarray(np.sqrt(np.mean(np.sum(moves**2, axis=2), axis=0)))


def stability(
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
) -> Stability:
    """Embed D again and again with other objects, and lay the results over each other.

    Parameters
    ----------
    D : as for `neuc_mds`, or Prepared
        All of it in memory, every pair known.
    n_components, squared, symmetrize, random_state
        As for `neuc_mds`; replicates have the signature of the embedding of D.
    n_boot : int, default=100
        Number of bootstrap replicates.
    resample : {"bootstrap", "jackknife"} or iterable of D, default="bootstrap"
        "bootstrap": as many objects are drawn with replacement, and those that were not drawn are
        placed by `Embedding.transform`. "jackknife": each object is left out in turn, and placed;
        as R's ``smacof::jackmds``, which does not place it. Or replicates of D of your own, such as
        of resampled species or raters, as ``smacof::bootmds``.
    embedding : Embedding, optional
        That of D, where there is one; `n_components` and the options are then its own.
    callback : callable, optional
        Called before each replicate with its number, how many there are if known, and words.
    **options
        Of `neuc_mds`: ``method``, ``loss``, ``curvature``, ``max_iter`` and the like. "refined"
        starts each replicate from the embedding of D.

    Returns
    -------
    Stability

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import stability
    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> D = np.abs(x[:, None] - x).sum(axis=2)
    >>> found = stability(D, 3, n_boot=10)
    >>> found.clouds.shape, bool(found.spread.max() < D.max())
    ((10, 20, 3), True)
    """
    prepared, sq_d = _dense(D, "stability", squared, symmetrize)
    asked, whole = _fitted(prepared, embedding, n_components, random_state, options)
    n, rng = prepared.n, np.random.default_rng(asked.random_state)
    total: int | None = n if resample == "jackknife" else n_boot
    draws: Iterable[Any] = (np.delete(np.arange(n), i) for i in range(n))
    if not isinstance(resample, str):
        draws, total = resample, None
    elif resample not in ("bootstrap", "jackknife"):
        raise InputError(f"{option('resample', resample)} must be 'bootstrap' or 'jackknife'.")
    elif n < whole.k + 3:
        raise InputError(f"{n} objects are too few to leave some out of {whole.k} coordinates.")
    elif resample == "bootstrap":
        check_count(n_boot=n_boot)
        draws = _bootstrap(rng, n, n_boot, whole.k)
    clouds = []
    for step, drawn in enumerate(draws):
        if callback is not None:
            callback(step, total, "replicates")
        ids, values = drawn, sq_d
        if total is None:
            ids, values = np.arange(n), _dense(drawn, "stability", squared, symmetrize)[1]
        if len(values) != n:
            raise InputError(f"a replicate holds {len(values)} objects, and D holds {n}.")
        clouds.append(_laid_over(whole, _replicated(whole, asked, ids, values)))
    if not clouds:
        raise InputError(f"{option('resample')} holds no replicate.")
    return Stability(whole, np.stack(clouds))


def _bootstrap(
    rng: np.random.Generator, n: int, n_boot: int, k: int
) -> Iterator[npt.NDArray[np.intp]]:
    """Draw objects with replacement, enough different ones for k coordinates."""
    for _ in range(n_boot):
        ids = rng.integers(n, size=n)
        while np.unique(ids).size < k + 2:
            ids = rng.integers(n, size=n)
        yield ids


def _replicated(
    whole: Embedding, asked: Options, ids: npt.NDArray[np.intp], sq_d: Floats
) -> Embedding:
    """Embed some objects, and place the others among them: all in the order of D."""
    x = to_numpy(whole.coordinates)
    start = (x[ids], to_numpy(whole.signs)) if whole.method == "refined" else None
    drawn = Prepared(DenseGram(sq_d[np.ix_(ids, ids)]), squared=True)
    with warnings.catch_warnings():
        # What is said of each replicate was said of D.
        warnings.simplefilter("ignore", NeucmdsWarning)
        options = replace(asked, n_components=whole.signature, init=start, n_init=None)
        found = fit(drawn, options).embedding
        others = np.setdiff1d(np.arange(whole.n), ids)
        coordinates = np.empty((whole.n, found.k))
        coordinates[ids] = to_numpy(found.coordinates)
        if others.size:
            coordinates[others] = to_numpy(found.transform(sq_d[np.ix_(others, ids)]))
    return replace(found, coordinates=coordinates)


def _laid_over(whole: Embedding, other: Embedding) -> Floats:
    """Return the coordinates of another embedding of the same objects, laid over the first."""
    x = to_numpy(whole.coordinates).astype(np.float64)
    points = (x, to_numpy(whole.signs), to_numpy(other.coordinates), to_numpy(other.signs))
    parts, signs, (order, _) = columns_by_sign(*points)
    there = align(parts[0], parts[1], signs, scaling=False).coordinates[:, np.argsort(order)]
    return np.asarray(there[:, : whole.k] + x.mean(axis=0))


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
    """Compare the STRESS of D with that of D whose entries are permuted, as ``smacof::permtest``.

    Parameters
    ----------
    D, n_components, squared, symmetrize, embedding, random_state, callback, **options
        As for `stability`; permutations have as many coordinates as the embedding of D, of either
        sign.
    permutations : int, default=99

    Returns
    -------
    PermutationTest
        The statistic is `Embedding.normalized_stress`; as extreme is as low.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.api import stress_test
    >>> x = np.random.default_rng(0).normal(size=(15, 2))
    >>> stress_test(np.abs(x[:, None] - x).sum(axis=2), 2, 19, method="neuc+").p
    0.05
    """
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
            shuffled = Prepared(DenseGram(values + values.T), squared=True)
            found = fit(shuffled, replace(asked, n_components=max(1, whole.k))).embedding
        permuted.append(found.normalized_stress)
    as_low = sum(value <= whole.normalized_stress * (1 + 1e-9) for value in permuted)
    p = (as_low + 1) / (permutations + 1) if permutations else math.nan
    return PermutationTest(whole.normalized_stress, p, np.array(permuted))


def _fitted(
    prepared: Prepared, embedding: Embedding | None, k: Any, seed: Any, options: dict[str, Any]
) -> tuple[Options, Embedding]:
    """Return how D is or was embedded, and its embedding."""
    if embedding is not None:
        options = {"method": embedding.method, "loss": embedding.loss}
        options |= {"curvature": embedding.curvature} if embedding.curvature else {}
        return Options(embedding.signature, random_state=seed, **options), embedding
    asked = Options(k, random_state=seed, **options)
    return asked, embed(prepared, asked).embedding


def _dense(D: Any, what: str, squared: bool, symmetrize: bool) -> tuple[Prepared, Floats]:
    """Return D prepared, and all of it on the squared scale."""
    prepared = prepare(D, squared=squared, symmetrize=symmetrize)
    refuse_weights(prepared, what)
    values = dense_gram(prepared, what).sq_dissimilarity
    return prepared, to_numpy(values).astype(np.float64)
