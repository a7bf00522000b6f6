"""Compute the numbers of the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_floats, to_numpy
from neucmds.ecology import EnvFit, PermutationTest, envfit
from neucmds.embedding import Embedding
from neucmds.explore import (
    Bootstrap,
    Comparison,
    Diagnosis,
    PairErrors,
    Quality,
    StressCurves,
    bootstrap,
    compare,
    diagnose,
    evaluate,
    pair_errors,
    stress_curve,
    stress_test,
)
from neucmds.explore.comparison import COMPARED
from neucmds.explore.quality import FULL_UP_TO, NEIGHBORS, sampled_objects
from neucmds.options import ALL_METHODS, Callback, notify
from neucmds.place.dimension import entries_among
from neucmds.problem.components import MOST_CHOSEN
from neucmds.problem.dense import Dense
from neucmds.problem.directed import Directed
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.tools.plots.coordinates import default_axes
from neucmds.tools.plots.shepard import SampledPairs, sampled_pairs


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that the page shows; `lacking` says why parts are None.

    `comparisons` has every method at each of a few k, and `comparison` every method and loss at the
    k of the embedding. `nearest` is what `nearest_of` returns, `pairs` are those that are drawn.
    """

    embedding: Embedding
    diagnosis: Diagnosis | None = None
    curves: StressCurves | None = None
    comparisons: tuple[Comparison, ...] = ()
    comparison: Comparison | None = None
    quality: Quality | None = None
    errors: PairErrors | None = None
    pairs: SampledPairs | None = None
    nearest: dict[str, npt.NDArray[Any]] | None = None
    stability: Bootstrap | None = None
    stress_test: PermutationTest | None = None
    variables: EnvFit | None = None
    lacking: str = "the report was made without the dissimilarities"


def gather(
    embedding: Embedding,
    problem: Dense | Directed | None,
    metadata: Any,
    replicates: int,
    random_state: int,
    callback: Callback | None,
) -> Findings:
    """Compute the parts of the page; the parameters are those of `write_report`."""
    parts: dict[str, Any] = {}
    if metadata is not None and embedding.k > 1:
        parts["variables"] = envfit(
            embedding,
            metadata,
            axes=default_axes(embedding)[0],
            random_state=random_state,
        )
    if problem is None:
        return Findings(embedding, **parts)
    notify(callback, "measuring the embedding")
    parts |= {
        "quality": evaluate(embedding, problem),
        "errors": pair_errors(embedding, problem),
        "pairs": sampled_pairs(problem, embedding, random_state=random_state),
    }
    if isinstance(problem, Directed):
        parts["lacking"] = "these parts need dissimilarities without direction"
        return Findings(embedding, **parts)
    options: Any = {"random_state": random_state, "callback": callback}
    if embedding.k:
        parts["nearest"] = nearest_of(embedding, problem)
    if replicates:
        parts["stability"] = bootstrap(
            problem, n_boot=replicates, embedding=embedding, **options
        )
        parts["stress_test"] = stress_test(
            problem, permutations=replicates, embedding=embedding, **options
        )
    if problem.weights is not None:
        parts["lacking"] = (
            "pairs are missing or weighted, and these parts need all pairs with equal weight"
        )
        return Findings(embedding, **parts)
    # Every method at several k takes long with more objects.
    sample = problem
    if problem.n > FULL_UP_TO:
        rng = np.random.default_rng(random_state)
        rows = sampled_objects(problem.n, rng)
        gram = DenseGram(entries_among(problem.gram, rows))
        sample = Dense(gram, squared=problem.squared)
    comparisons = []
    k = 1
    while k < min(sample.n, MOST_CHOSEN):
        notify(callback, f"every method at k = {k}")
        comparisons.append(
            compare(sample, k, ALL_METHODS, random_state=random_state)
        )
        k *= 2
    parts |= {
        "diagnosis": diagnose(problem, **options),
        "curves": stress_curve(problem, callback=callback),
        "comparisons": tuple(comparisons),
        "comparison": compare(
            problem, embedding.requested, COMPARED, **options
        ),
        "lacking": "",
    }
    return Findings(embedding, **parts)


def nearest_of(
    embedding: Embedding, problem: Dense
) -> dict[str, npt.NDArray[Any]]:
    """Return the numbers of the nearest objects of each object by D and by D̂, shape (n, 10).

    They are −1 where fewer dissimilarities are known. The keys are those of the page's script.
    """
    count = min(NEIGHBORS, embedding.n - 1)
    by_fitted = to_numpy(embedding.neighbors(count)[0])
    by_given = np.empty_like(by_fitted)
    for rows, block in problem.gram.walk():
        # A copy, so that D stays as it is.
        sq_given = to_floats(block)
        # `rows` is a slice, so this writes into the copy.
        np.fill_diagonal(sq_given[:, rows], np.inf)
        if problem.weights is not None:
            sq_given[to_numpy(problem.weights[rows, :]) == 0] = np.inf
        nearest = np.argsort(sq_given, axis=1, kind="stable")[:, :count]
        is_known = np.isfinite(np.take_along_axis(sq_given, nearest, axis=1))
        by_given[rows] = np.where(is_known, nearest, -1)
    return {"byGiven": by_given, "byFitted": by_fitted}
