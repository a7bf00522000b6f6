"""Compute what the page shows, by public calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import to_numpy
from neucmds._methods import flat
from neucmds._operator import DenseGram
from neucmds._placement import among
from neucmds.api import (
    ALL_METHODS,
    COMPARED,
    Callback,
    Comparison,
    Prepared,
    Stability,
    StressCurves,
    compare,
    curve,
    evaluate,
    inspect,
    prepare,
    stability,
    stress_test,
    tell,
)
from neucmds.diagnostics import Inspection
from neucmds.embedding import Embedding
from neucmds.metrics import PairErrors, Quality, pair_errors
from neucmds.ordination import PermutationTest
from neucmds.plots import SampledPairs, sampled_pairs

Floats = npt.NDArray[np.float64]

# Numbers of coordinates at which every method is fitted and measured in full.
LADDER = (1, 2, 5, 10, 20, 50, 100)
# Of more objects than the first, the second number is drawn for the ladder: six methods at seven k
# take 50 s for 1797 objects on a busy core.
LADDER_ALL, LADDER_SAMPLE = 2000, 1000
NEAREST = 10


@dataclass(frozen=True, eq=False)
class Nearest:
    """The objects nearest to each object, by D and by D̂.

    Parameters
    ----------
    by_given, by_fitted : ndarray of shape (n, m)
        Their numbers, nearest first; −1 where fewer are known.
    given_of_given, fitted_of_given, given_of_fitted, fitted_of_fitted : ndarray of shape (n, m)
        D and D̂ of these pairs, both on the scale of d².
    """

    by_given: npt.NDArray[np.intp]
    by_fitted: npt.NDArray[np.intp]
    given_of_given: Floats
    fitted_of_given: Floats
    given_of_fitted: Floats
    fitted_of_fitted: Floats


@dataclass(frozen=True, eq=False)
class Findings:
    """An embedding and what is known of it and of its D; None where something needs more.

    Parameters
    ----------
    embedding : Embedding
    inspection : Inspection or None
        What D is like.
    curves : StressCurves or None
        STRESS of the closed forms against k.
    ladder : tuple of Comparison
        Every method at a few k, measured in full.
    ladder_objects : int
        Objects that the ladder was measured on.
    comparison : Comparison or None
        Every method and loss at the k of the embedding.
    quality : Quality or None
    errors : PairErrors or None
    pairs : SampledPairs or None
    nearest : Nearest or None
    stability : Stability or None
    stress_test : PermutationTest or None
    total_sum_of_squares : float
        What turns STRESS into R².
    lacking : str
        Why parts are missing; empty if none is.
    """

    embedding: Embedding
    inspection: Inspection | None = None
    curves: StressCurves | None = None
    ladder: tuple[Comparison, ...] = ()
    ladder_objects: int = 0
    comparison: Comparison | None = None
    quality: Quality | None = None
    errors: PairErrors | None = None
    pairs: SampledPairs | None = None
    nearest: Nearest | None = None
    stability: Stability | None = None
    stress_test: PermutationTest | None = None
    total_sum_of_squares: float = np.nan
    lacking: str = ""


def gather(
    embedding: Embedding,
    D: Any = None,
    *,
    squared: bool | None = None,
    replicates: int = 0,
    random_state: int = 0,
    callback: Callback | None = None,
    **reading: Any,
) -> Findings:
    """Measure an embedding against its D, and D itself; without D only what the embedding knows.

    Parameters
    ----------
    embedding : Embedding
    D : as for `neuc_mds`, Prepared or None
        What was embedded, in the same order.
    squared : bool, optional
        As in the fit by default.
    replicates : int
        Of `neucmds.stability`, and as many permutations of D; 0 for neither.
    random_state : int
    callback : callable, optional
        As for `neucmds.compare`.
    **reading
        How D is read: `symmetrize`, `weights` and `missing`, as for `neuc_mds`.
    """
    if D is None:
        return Findings(embedding, lacking="the page was made without the dissimilarities")
    say = partial(tell, callback)
    squared = embedding.squared if squared is None else squared
    prepared = prepare(D, max(1, embedding.k), squared=squared, keep_copy=True, **reading)
    say("measuring the embedding")
    found = Findings(
        embedding,
        quality=evaluate(embedding, prepared),
        errors=pair_errors(**prepared.beside(embedding)),
        pairs=sampled_pairs(prepared, embedding, random_state=random_state),
        total_sum_of_squares=embedding.total_sum_of_squares,
    )
    if embedding.k and embedding.n > 1:
        say("looking for the nearest by D and by D̂")
        found = replace(found, nearest=nearest_of(embedding, prepared))
    if replicates:
        seeded: Any = {"random_state": random_state, "callback": callback, "embedding": embedding}
        found = replace(
            found,
            stability=stability(prepared, n_boot=replicates, **seeded),
            stress_test=stress_test(prepared, permutations=replicates, **seeded),
        )
    if prepared.weights is not None:
        why = "pairs are missing or weighted, and these parts need every pair alike"
        return replace(found, lacking=why)
    ground = _drawn(prepared, random_state)
    ladder = []
    for k in LADDER:
        if k < ground.n:
            say(f"every method at k = {k}")
            ladder.append(compare(ground, k, ALL_METHODS, random_state=random_state))
    say("comparing every method and loss")
    requested = max(1, embedding.requested)
    every = compare(prepared, requested, COMPARED, random_state=random_state, callback=callback)
    say("inspecting the dissimilarities")
    return replace(
        found,
        inspection=inspect(prepared, random_state=random_state, callback=callback),
        curves=curve(prepared, callback=callback),
        ladder=tuple(ladder),
        ladder_objects=ground.n,
        comparison=every,
        total_sum_of_squares=prepared.gram.moments.total_sum_of_squares,
    )


def nearest_of(embedding: Embedding, prepared: Prepared, count: int = NEAREST) -> Nearest:
    """Find the objects nearest to each by D and by D̂, in one pass over D.

    Parameters
    ----------
    embedding : Embedding
    prepared : Prepared
        Its D.
    count : int
        How many of each.
    """
    n, m = embedding.n, min(count, embedding.n - 1)
    indices, d_hat = (to_numpy(part) for part in embedding.neighbors(m))
    by_given = np.empty((n, m), dtype=np.intp)
    given_of_given, given_of_fitted = np.empty((n, m)), np.empty((n, m))
    for rows, part in prepared.gram.walk():
        d = to_numpy(part).astype(np.float64)
        own = np.arange(n)[rows]
        if prepared.weights is not None:
            d[to_numpy(prepared.weights[rows, :]) == 0] = np.inf
        given_of_fitted[rows] = np.take_along_axis(d, indices[rows], axis=1)
        d[np.arange(own.size), own] = np.inf
        by_given[rows], given_of_given[rows] = _smallest(d, m)
    left = np.repeat(np.arange(n)[:, None], m, axis=1)
    of_given = to_numpy(embedding.distance(left, np.maximum(by_given, 0), squared=True))
    fitted = [flat(part, embedding.kappa) for part in (of_given, np.asarray(d_hat))]
    return Nearest(by_given, indices, given_of_given, fitted[0], given_of_fitted, fitted[1])


def _smallest(d: Floats, m: int) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return the m smallest of every row, ascending, of equal ones the lower number first."""
    bound = np.partition(d, m - 1, axis=1)[:, m - 1 : m]
    found = np.full((len(d), m), -1, dtype=np.intp)
    for i, row in enumerate(d):
        near = np.flatnonzero(row <= bound[i])
        near = near[np.isfinite(row[near])]
        near = near[np.argsort(row[near], kind="stable")[:m]]
        found[i, : near.size] = near
    values = np.where(found >= 0, np.take_along_axis(d, np.maximum(found, 0), axis=1), np.nan)
    return found, values


def _drawn(prepared: Prepared, random_state: int) -> Prepared:
    """Return all objects, or a random sample of them where every method at every k takes long."""
    if prepared.n <= LADDER_ALL:
        return prepared
    drawn = np.random.default_rng(random_state).choice(prepared.n, LADDER_SAMPLE, replace=False)
    gram = DenseGram(among(prepared.gram, np.sort(drawn)))
    return Prepared(gram, squared=prepared.squared)
