"""Compute the numbers of the page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.ecology import PermutationTest
from neucmds.embedding import Embedding
from neucmds.explore.comparison import COMPARED, Comparison, compare
from neucmds.explore.diagnostics import Diagnosis
from neucmds.explore.exploration import StressCurves, diagnose, evaluate, stress_curve
from neucmds.explore.metrics import PairErrors, Quality, pair_errors
from neucmds.explore.resampling import Bootstrap, bootstrap, stress_test
from neucmds.form import flat
from neucmds.options import ALL_METHODS, Callback, notify
from neucmds.place.dimension import among
from neucmds.prepared import prepare
from neucmds.problem.dense import Dense
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.tools.plots import SampledPairs, sampled_pairs

Floats = npt.NDArray[np.float64]

# Numbers of coordinates at which every method is fitted and measured in full.
LADDER = (1, 2, 5, 10, 20, 50, 100)
# Beyond the first number of objects, the ladder takes a sample of the second.
LADDER_ALL, LADDER_SAMPLE = 2000, 1000
NEAREST = 10


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that the page shows; `lacking` says why a part is None."""

    embedding: Embedding
    diagnosis: Diagnosis | None = None
    # STRESS of the closed forms against k.
    curves: StressCurves | None = None
    # Every method at a few k, measured on so many objects.
    ladder: tuple[Comparison, ...] = ()
    ladder_objects: int = 0
    # Every method and loss at the k of the embedding.
    comparison: Comparison | None = None
    quality: Quality | None = None
    errors: PairErrors | None = None
    pairs: SampledPairs | None = None
    nearest: dict[str, npt.NDArray[Any]] | None = None
    stability: Bootstrap | None = None
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
    """Compute the parts of the page; the parameters are those of `write_report`."""
    if D is None:
        return Findings(embedding, lacking="the report was made without the dissimilarities")
    say = partial(notify, callback)
    squared = embedding.squared if squared is None else squared
    prepared = prepare(D, max(1, embedding.k), squared=squared, keep_copy=True, **reading)
    say("measuring the embedding")
    found = Findings(
        embedding,
        quality=evaluate(embedding, prepared),
        errors=pair_errors(**prepared.beside(embedding)),
        pairs=sampled_pairs(prepared, embedding, random_state=random_state),
        total_sum_of_squares=embedding.info.total_sum_of_squares,
    )
    if embedding.k and embedding.n > 1:
        say("looking for the nearest by D and by D̂")
        found = replace(found, nearest=nearest_of(embedding, prepared))
    if replicates:
        seeded: Any = {"random_state": random_state, "callback": callback, "embedding": embedding}
        found = replace(
            found,
            stability=bootstrap(prepared, n_boot=replicates, **seeded),
            stress_test=stress_test(prepared, permutations=replicates, **seeded),
        )
    if prepared.weights is not None:
        why = "pairs are missing or weighted, and these parts need all pairs with equal weight"
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
        diagnosis=diagnose(prepared, random_state=random_state, callback=callback),
        curves=stress_curve(prepared, callback=callback),
        ladder=tuple(ladder),
        ladder_objects=ground.n,
        comparison=every,
        total_sum_of_squares=prepared.gram.moments.total_sum_of_squares,
    )


def nearest_of(
    embedding: Embedding, prepared: Dense, count: int = NEAREST
) -> dict[str, npt.NDArray[Any]]:
    """Find the nearest objects of each by D and by D̂, with D and D̂ of these pairs, squared.

    −1 stands for an object where fewer are known.
    """
    n, m = embedding.n, min(count, embedding.n - 1)
    indices, d_hat = (to_numpy(part) for part in embedding.neighbors(m, squared=True))
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
    return {
        "byGiven": by_given,
        "byFitted": indices,
        "givenOfGiven": given_of_given,
        "fittedOfGiven": flat(of_given, embedding.kappa),
        "givenOfFitted": given_of_fitted,
        "fittedOfFitted": flat(np.asarray(d_hat), embedding.kappa),
    }


def _smallest(d: Floats, m: int) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return the m smallest finite values of every row, ties in order of their index."""
    found = np.argsort(d, axis=1, kind="stable")[:, :m]
    values = np.take_along_axis(d, found, axis=1)
    known = np.isfinite(values)
    return np.where(known, found, -1), np.where(known, values, np.nan)


def _drawn(prepared: Dense, random_state: int) -> Dense:
    """Return all objects, or a random sample of many."""
    if prepared.n <= LADDER_ALL:
        return prepared
    drawn = np.random.default_rng(random_state).choice(prepared.n, LADDER_SAMPLE, replace=False)
    gram = DenseGram(among(prepared.gram, np.sort(drawn)))
    return Dense(gram, squared=prepared.squared)
